"""What an NPU is: engines, memory and speeds, and how long work takes on it. Data; it drives nothing.

`model` holds `Soc` (one chip) and `Cost` (what a kernel says about its own work), `presets` names a few chips,
`loading` reads one from a file. docs/soc.md says where the figures come from.
"""

from .model import Cost, Soc
from .presets import PRESETS, find

__all__ = ["PRESETS", "Cost", "Soc", "find"]
