"""The virtual machine once more, from the rules alone and as short as can be: what `test_model` compares with."""

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
    submitted = started = finished = -1
    result: object = None
    waiters: list[Stream] = field(default_factory=list)


class Model:
    """At one instant completions come first, as submitted, then new heads (`news`), then engines by priority, turn."""

    def __init__(self, capacity: dict[str, int]) -> None:
        self.now, self.turn, self.free, self.running = 0, 0, {**capacity, "timers": 0}, list[Task]()
        self.tasks, self.news = list[Task](), list[Stream]()
        self.ready = {name: list[tuple[int, int, Task]]() for name in self.free}

    def submit(self, task: Task) -> Task:
        """Append a task to its stream."""
        task.submitted, task.stream.last = self.now, task
        self.tasks.append(task)
        task.stream.tasks.append(task)
        self.news += [task.stream] if len(task.stream.tasks) == 1 else []
        return task

    def run(self, task: Task | None = None) -> None:
        """Go on until a task has ended; without one, until nothing more happens at the present instant."""
        if task is None or task.finished < 0:
            self._settle()
        while task is None or task.finished < 0:
            if task is None and all(other.started + other.cost_ns != self.now for other in self.running):
                return
            self.step()

    def step(self) -> None:
        """Complete what ends next."""
        self.now = min(other.started + other.cost_ns for other in self.running)
        while due := [other for other in self.running if other.started + other.cost_ns == self.now]:
            self.running.remove(task := min(due, key=self._order))
            self.free[task.engine] += task.cores
            task.result = task.body()
            self._look(self._end(task))
        self._settle()

    def _order(self, task: Task) -> tuple[bool, int]:
        return False, self.tasks.index(task)

    def _settle(self) -> None:
        while self.news:
            self._look(self.news.pop(0))
        for engine, ready in self.ready.items():
            while ready and (first := min(ready))[2].cores <= self.free[engine]:
                ready.remove(first)
                self.running.append(first[2])
                first[2].started, self.free[engine] = self.now, self.free[engine] - first[2].cores

    def _look(self, stream: Stream) -> None:
        while stream.tasks and not (head := stream.tasks[0]).engine:
            head.started = self.now if head.started < 0 else head.started
            if not self._passes(head):
                return
            self._end(head)
        if stream.tasks and head.started < 0:
            self.turn, head.started = self.turn + 1, self.now
            self.ready[head.engine].append((stream.priority, self.turn, head))

    def _passes(self, task: Task) -> bool:
        if task.after is None or task.after.finished >= 0:
            return True
        task.after.waiters.append(task.stream)
        return False

    def _end(self, task: Task) -> Stream:
        task.finished, task.memory, self.news = self.now, (), self.news + task.waiters
        task.stream.tasks.remove(task)
        return task.stream
