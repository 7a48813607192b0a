"""The CANN Runtime programming model for asyncio, on a simulated NPU.

General layout. A task goes through seven rooms, and the file tree shows them:

    1 launch       stream.py ordering.py kernel.py memory.py   check the call, build a Task (task.py)
    2 queue        _machine/queue.py               one FIFO per stream
    3 scheduler    _machine/scheduler.py           ready heads go to engines; waits and records
    4 engine       _machine/engine.py              one executor coroutine per engine; clock.py says how long it works
    5 completion   _machine/completion.py          wakes whoever waits
    6 record       _machine/record.py              one row of integers per task
    7 timeline     timeline/                       rows to views and files

What a user holds are the nouns: runtime, device, context, stream, event, memory, kernel, task. `sync` has the same
names for code that blocks.

PYTEST_DONT_REWRITE: else `cann-async run -m pytest` warns that the package of a plugin has been imported already.
"""

from . import testing as testing
from .context import Context as Context
from .context import current_device as current_device
from .context import current_stream as current_stream
from .context import use as use
from .device import Device as Device
from .errors import CannError as CannError
from .errors import DeadlockError as DeadlockError
from .errors import ExecutionError as ExecutionError
from .errors import MismatchError as MismatchError
from .errors import ResourceError as ResourceError
from .errors import SyncTimeout as SyncTimeout
from .errors import UsageError as UsageError
from .event import Event as Event
from .event import LatchEvent as LatchEvent
from .kernel import Block as Block
from .kernel import Kernel as Kernel
from .kernel import Launch as Launch
from .kernel import kernel as kernel
from .memory import Buffer as Buffer
from .memory import ManagedBuffer as ManagedBuffer
from .memory import MemcpyKind as MemcpyKind
from .notify import Notify as Notify
from .pool import Pool as Pool
from .runtime import Runtime as Runtime
from .runtime import device_count as device_count
from .runtime import open_device as open_device
from .runtime import run as run
from .runtime import socs as socs
from .soc import Cost as Cost
from .soc import Soc as Soc
from .stream import Stream as Stream
from .task import Task as Task
from .timeline import Timeline as Timeline
from .virtual_memory import AddressRange as AddressRange
from .virtual_memory import PhysicalMemory as PhysicalMemory

__version__ = "0.1.0"
