"""The virtual machine once more, as small as possible, written from the rules: what `test_model` compares with.

At one instant all that ends completes first, as submitted, then streams whose waits are answered go on, then engines
take the most urgent ready tasks, by priority and then by who is ready longer; nobody overtakes one that does not fit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(eq=False)
class Stream:
    """A FIFO; the first of `tasks` is its head, `last` is what was submitted last."""

    priority: int = 0
    tasks: list[Task] = field(default_factory=list)
    last: Task | None = None


@dataclass(eq=False)
class Task:
    """Anything queued. Without an engine it is a record, or a wait for `after` to end; `memory` is what it holds."""

    stream: Stream
    engine: str = ""
    cores: int = 1
    cost_ns: int = 0
    body: Callable[[], object] = lambda: None
    memory: tuple[bytearray, ...] = ()
    after: Task | None = None
    number: int = 0
    submitted: int = 0
    started: int = -1
    finished: int = -1
    result: object = None
    waiters: list[Stream] = field(default_factory=list)


class Model:
    """One device; `capacity` says how many cores or lanes every engine has. `news` are streams to look at."""

    def __init__(self, capacity: dict[str, int]) -> None:
        self.now, self.turn, self.free = 0, 0, {**capacity, "timers": 0}
        self.ready: dict[str, list[tuple[int, int, Task]]] = {name: [] for name in self.free}
        self.running, self.tasks, self.news = list[Task](), list[Task](), list[Stream]()

    def submit(self, task: Task) -> Task:
        """Append a task to its stream."""
        task.number, task.submitted, task.stream.last = len(self.tasks), self.now, task
        self.tasks.append(task)
        task.stream.tasks.append(task)
        self.news += [task.stream] if len(task.stream.tasks) == 1 else []
        return task

    def run(self, task: Task | None = None) -> None:
        """Go on until a task has ended; without one, until nothing more happens at the present instant."""
        while task is None or task.finished < 0:
            self._settle()
            end = min((other.started + other.cost_ns for other in self.running), default=-1)
            if end != self.now if task is None else task.finished >= 0:
                return
            self._complete(end)

    def _complete(self, now: int) -> None:
        self.now = now
        for task in sorted(self.running, key=lambda running: running.number):
            if task.started + task.cost_ns == now:
                self.running.remove(task)
                self.free[task.engine] += task.cores
                task.result = task.body()
                self._look(self._end(task))
        self._settle()

    def _settle(self) -> None:
        while self.news:
            self._look(self.news.pop(0))
        for engine, ready in self.ready.items():
            while ready and (first := min(ready))[2].cores <= self.free[engine]:
                ready.remove(first)
                self.running.append(first[2])
                first[2].started = self.now
                self.free[engine] -= first[2].cores

    def _look(self, stream: Stream) -> None:
        while stream.tasks and not (head := stream.tasks[0]).engine:
            head.started = self.now if head.started < 0 else head.started
            if head.after is not None and head.after.finished < 0:
                head.after.waiters.append(stream)
                return
            self._end(head)
        self.turn += 1
        for head in stream.tasks[:1]:
            self.ready[head.engine].append((stream.priority, self.turn, head))

    def _end(self, task: Task) -> Stream:
        task.finished, task.memory = self.now, ()
        self.news += task.waiters
        return task.stream.tasks.pop(0).stream
