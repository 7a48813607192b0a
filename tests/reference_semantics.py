"""What `reference_model` leaves out: cancels, failures, aborts, notifies, timeouts, contexts that stop."""

from __future__ import annotations

from dataclasses import dataclass, field

from .reference_model import Model, Stream, Task


@dataclass(eq=False)
class Failure(Exception):  # noqa: N818 - a CannError in the model
    """A CANN error; the next synchronize gives it unless somebody has `seen` it."""

    code: int
    seen: bool = False


@dataclass(eq=False)
class Context:
    """What its streams share; `stops` at the first failure, which then is `failure`."""

    device: int
    stops: bool = False
    failure: Failure | None = None
    streams: list[Line] = field(default_factory=list)


@dataclass(eq=False)
class Line(Stream):
    """A stream of a context; `failed` are its failures, `beside` carries callbacks that do not hold it up."""

    context: Context = field(default_factory=lambda: Context(0))
    failed: list[Failure] = field(default_factory=list)
    beside: Line | None = None


@dataclass(eq=False)
class Notify:
    """One bit, and who waits for it."""

    is_set: bool = False
    waiters: list[Stream] = field(default_factory=list)


@dataclass(eq=False)
class Step(Task):
    """A task that may set or take a notify, wait for so long only, or be dropped."""

    sets: Notify | None = None
    takes: Notify | None = None
    timeout_ns: int | None = None
    timer: Task | None = None
    is_late: bool = False
    is_dropped: bool = False


class Semantics(Model):
    """The model with everything."""

    def submit(self, task: Task) -> Task:
        """Append a task; a body that fails gives its Failure as the result."""
        body = task.body

        def guarded() -> object:
            try:
                return body()
            except Failure as failure:
                return failure

        task.body = guarded
        return super().submit(task)

    def cancel(self, task: Task) -> bool:
        """Take a task out that has not started; an empty one stands in for the last of its stream."""
        if task.finished >= 0 or task in self.running:
            return False
        if task.stream.last is task:
            self.submit(type(task)(task.stream))
        self.news += [task.stream] if task.started >= 0 else []
        mine = {name: [place for place in line if place[2] is not task] for name, line in self.ready.items()}
        self.ready, task.result = mine, "cancelled"
        return self._end(task) is not None

    def until(self, one: Task, other: Task) -> None:
        """Go on until one of two tasks has ended, or nothing can happen any more."""
        self._settle()
        while one.finished < 0 and other.finished < 0 and self.running:
            self.step()

    def _order(self, task: Task) -> tuple[bool, int]:
        """What ends at its own time ends before what is killed at its deadline."""
        late = task.engine == "timers" or (isinstance(task, Step) and task.is_late)
        return late, 0 if late else self.tasks.index(task)

    def abort(self, streams: list[Line], code: int) -> None:
        """Kill and drop all that is in the streams."""
        failure = Failure(code)
        for stream in streams:
            for task in list(stream.tasks):
                self._drop(task, failure)

    def _drop(self, task: Task, failure: Failure) -> None:
        if task in self.running:
            self.running.remove(task)
            self.free[task.engine] += task.cores
        self.ready = {name: [one for one in line if one[2] is not task] for name, line in self.ready.items()}
        self._forget_timer(task)
        task.result = failure
        if isinstance(task, Step):
            task.is_dropped = True
        super()._end(task)

    def _forget_timer(self, task: Task) -> None:
        if isinstance(task, Step) and task.timer in self.running:
            self.running.remove(task.timer)

    def _passes(self, task: Task) -> bool:
        if not isinstance(task, Step):
            return super()._passes(task)
        if self._has_happened(task):
            self._forget_timer(task)
            return True
        if task.timer is not None and task.timer.finished >= 0:
            task.result = Failure(107020)
            return True
        if task.timeout_ns is not None and task.timer is None:
            task.timer = Task(Stream(), "timers", 0, task.timeout_ns, waiters=[task.stream])
            task.timer.started = self.now
            task.timer.stream.tasks.append(task.timer)
            self.tasks.append(task.timer)
            self.running.append(task.timer)
        return False

    def _has_happened(self, task: Step) -> bool:
        if task.sets is not None:
            task.sets.is_set = True
            self.news += task.sets.waiters
            task.sets.waiters = []
        if task.takes is not None:
            if task.takes.is_set:
                task.takes.is_set = False
                return True
            if task.stream not in task.takes.waiters:
                task.takes.waiters.append(task.stream)
            return False
        after = task.after
        if isinstance(after, Step) and after.is_dropped:  # what stands behind relies on what will never happen
            assert isinstance(after.result, Failure)
            task.result = failure = Failure(after.result.code)
            for behind in task.stream.tasks[1:]:
                self._drop(behind, failure)
            return True
        return super()._passes(task)

    def _end(self, task: Task) -> Stream:
        stream = super()._end(task)
        if isinstance(task.result, Failure) and isinstance(stream, Line):
            stream.failed.append(task.result)
            context = stream.context
            if context.stops and context.failure is None:
                task.result.seen = True
                context.failure = Failure(task.result.code)
                self.abort(context.streams, task.result.code)
        return stream
