"""The checks behind the advice: each is a function from a `Case` to a `Finding`, or to None where all is well.

The first five are the practices that CANN's programming guide recommends; three more are mistakes that records show
well. A check first looks for cheap signs and only then replays the program.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._machine.record import PAGEABLE
from .advice import Case, Finding
from .causes import ENGINE, Causes
from .changes import filled, held_up, merged, of_equal_priority, per_engine, per_thread, shared_streams
from .intervals import Intervals
from .replay import replay
from .table import COMPUTES, Table
from .text import duration, share

IDLE = 0.1
"""As much of the time the device may have nothing to do; above it Ascend's guide calls a program host-bound."""
LEAST_GAIN = 1.05
FEW = 5
SMALL = 0.5
"""A kernel that uses less of its engine's cores does not fill them."""
STARVED = 10
"""A task that waits so many times as long as it runs, while others overtake it, starves."""
EXCHANGES = frozenset({"h2d", "d2h", "callback"})
"""What can bring a host something, or takes something of its memory."""


def keep_ahead(case: Case) -> Finding | None:
    """Find a host that waits for all that it has enqueued before it enqueues more, so that the device stands still."""
    table = case.table
    idle = _idle(case, drained=True)
    total = sum(end - begin for begin, end, *_ in idle)
    if total < IDLE * case.span_ns and not (case.call_ns and len(idle) > SMALL * (table.engine >= 0).sum()):
        return None
    waits = np.array([wait for *_, wait in idle])
    return _worthwhile(
        "keep-ahead",
        "Keep the host ahead of the device",
        f"{len(idle)} times the device had nothing to do ({duration(total)}, {share(total, case.span_ns)} of the run) "
        "after the host had waited for its last task, until the host had enqueued the next one.",
        "Enqueue the next piece of work before you wait for this one; wait for an event of an earlier piece instead "
        f"of for all.{_calls(case)}",
        tuple(int(table.id[place]) for _, _, place, _ in idle[:FEW]),
        case.after_ns(table, call_ns=case.call_ns),
        case.after_ns(table, call_ns=case.call_ns, skipped=waits),
    )


def more_threads(case: Case) -> Finding | None:
    """Find the times at which the device had nothing to do though the host waited for nothing: it was too slow."""
    idle = _idle(case, drained=False)
    total = sum(end - begin for begin, end, *_ in idle)
    if total < IDLE * case.span_ns:
        return None
    return _worthwhile(
        "more-threads",
        "Use more threads: one cannot feed the device",
        f"{len(idle)} times the device stood still ({duration(total)}, {share(total, case.span_ns)} of the run) since "
        "the host was still busy, and not waiting.",
        "Let several threads enqueue, each on a stream of its own, or enqueue fewer and larger pieces. The expectation "
        "is for a host that is twice as fast.",
        tuple(int(case.table.id[place]) for _, _, place, _ in idle[:FEW]),
        case.before_ns,
        case.after_ns(case.table, pace=0.5),
    )


def stream_per_engine(case: Case) -> Finding | None:
    """Find copies and kernels that take turns in one stream while the engines of the others stand still."""
    table = case.table
    busy = [_busy(table, table.is_on(kind)) for kind in (frozenset({"h2d"}), COMPUTES, frozenset({"d2h"}))]
    times = [intervals.total for intervals in busy]
    alone = max(times)
    if sum(time > 0 for time in times) < 2 or case.span_ns < (1 + IDLE) * alone:
        return None
    return _worthwhile(
        "stream-per-engine",
        "Use one stream per kind of engine",
        f"copies in, kernels and copies out took {', '.join(map(duration, times))}, mostly one after the other in one "
        f"stream: the run took {duration(case.span_ns)}, where the busiest of them needs {duration(alone)}.",
        "Put copies in, kernels and copies out on streams of their own, with an event from each to the next, or deal "
        "batches out to several streams. This assumes that no batch needs the results of another, and two sets of "
        "buffers.",
        (),
        case.before_ns,
        case.after_ns(per_engine(table)),
    )


def stream_per_thread(case: Case) -> Finding | None:
    """Find streams that several threads of the host feed: the work of each stands behind that of the others."""
    shared = shared_streams(case.table)
    if not shared:
        return None
    streams = list(shared)
    tasks = case.table.id[np.isin(case.table.stream, streams)]
    return _worthwhile(
        "stream-per-thread",
        "Use one stream per thread",
        f"up to {max(map(len, shared.values()))} threads enqueued {len(tasks)} tasks on the same stream "
        f"({', '.join(map(str, streams[:FEW]))}), where the work of each stands behind that of the others.",
        "Give each thread a stream of its own; if one needs what another has done, let its stream wait for an event.",
        tuple(tasks[:FEW].tolist()),
        case.before_ns,
        case.after_ns(per_thread(case.table)),
    )


def fill_cores(case: Case) -> Finding | None:
    """Find kernels that leave most of their engine's cores without work while they run."""
    table = case.table
    small = [work.engine in COMPUTES and work.cores < SMALL * work.capacity for work in table.works]
    places = np.flatnonzero(table.of_works([int(each) for each in small]))
    if not len(places) or case.is_measured:
        return None
    engines = np.unique(table.engine[places]).tolist()
    mine = np.isin(table.engine, engines)
    used = int(((table.finished - table.started) * table.cores)[mine].sum())
    room = sum(_busy(table, table.engine == code).total * _capacity(table, code) for code in engines)
    if used > SMALL * room:
        return None
    names = ", ".join(sorted({table.engines[code][1] for code in engines}))
    ways = {
        "launch them with as many blocks as there are cores": case.after_ns(filled(table)),
        "merge those that follow each other into one": case.after_ns(merged(table)),
    }
    best = min(ways, key=lambda way: ways[way])
    return _worthwhile(
        "fill-cores",
        "Merge or parallelise kernels that do not fill the cores",
        f"{len(places)} kernels ran on less than half of the cores of {names}; "
        f"while these engines were busy, {share(used, room)} of their cores were.",
        f"Give the cores more to do: {best}, or run independent ones at once on several streams.",
        tuple(table.id[places[:FEW]].tolist()),
        case.before_ns,
        ways[best],
    )


def pageable(case: Case) -> Finding | None:
    """Find queued copies from or to memory that is not pinned: on an NPU the host is held up until they are done."""
    table = case.table
    places = np.flatnonzero(table.of_works([int(work.label == PAGEABLE and bool(work.engine)) for work in table.works]))
    if not len(places):
        return None
    queued = bool((table.stream[places] >= 0).all())
    return Finding(
        "pageable",
        "Copy from and to pinned memory",
        f"{len(places)} queued copies of {int(table.rows[places, 6].sum())} bytes were from or to memory that is not "
        "pinned. CANN waits for the stream and then copies at once, so neither host nor stream gets ahead"
        + (" (this runtime does not imitate that; the expectation does)." if queued else "."),
        "Allocate the host's arrays with malloc_host (aclrtMallocHost), or register them.",
        tuple(table.id[places[:FEW]].tolist()),
        case.after_ns(held_up(table, places)) if queued else None,
        case.before_ns if queued else None,
    )


def synchronize(case: Case) -> Finding | None:
    """Find waits of the host for work that neither brought it data nor read its memory, with more to come."""
    table, hosts = case.table, case.table.hosts
    places = table.index(hosts["task"])
    exchanges = table.is_on(EXCHANGES).astype(np.int64)
    last = int(table.submitted.max())
    needless = []
    waited: dict[int, int] = {}
    for wait in np.argsort(hosts["ended_ns"], kind="stable").tolist():
        place = int(places[wait])
        if place < 0:
            continue
        stream = int(table.stream[place])
        since = waited.get(stream, -1)
        waited[stream] = max(since, place)
        began, ended = int(hosts["started_ns"][wait]), int(hosts["ended_ns"][wait])
        if stream < 0 or began == ended or ended > last:
            continue
        among = np.arange(since + 1, place + 1)
        if not exchanges[among][table.stream[among] == stream].any():
            needless.append(wait)
    if len(needless) < 2:
        return None
    held = int((hosts["ended_ns"] - hosts["started_ns"])[needless].sum())
    return Finding(
        "synchronize",
        "Leave out synchronisation that nobody needs",
        f"{len(needless)} times the host waited ({duration(held)}) for kernels and the like that brought it no data, "
        "and then enqueued more.",
        "Let the order of the stream do it, or an event between streams; wait when you need the data. A kernel that "
        f"gives its result to the host is a reason to wait, too.{_calls(case)}",
        tuple(hosts["task"][needless[:FEW]].tolist()),
        case.after_ns(table, call_ns=case.call_ns),
        case.after_ns(table, call_ns=case.call_ns, skipped=np.array(needless)),
    )


def starvation(case: Case) -> Finding | None:
    """Find tasks that waited long for an engine while more urgent ones, ready later, went first."""
    table = case.table
    if len({row.priority for row in table.streams.values()}) < 2:
        return None
    priority = np.array([table.streams[n].priority if n >= 0 else 0 for n in table.stream.tolist()])
    ready = case.causes.ready
    waited = table.started - ready
    long = (waited > IDLE * case.span_ns) & (waited > STARVED * (table.finished - table.started)) & (table.engine >= 0)
    starved = []
    for place in np.flatnonzero(long & (priority > 0)).tolist():
        overtook = (table.engine == table.engine[place]) & (priority < priority[place]) & (ready > ready[place])
        overtook &= (table.started >= ready[place]) & (table.started < table.started[place])
        if overtook.sum() > 1 and case.causes.of_start(place).kind == ENGINE:
            starved.append(place)
    if not starved:
        return None
    worst = max(starved, key=lambda place: int(waited[place]))
    after = replay(of_equal_priority(table), measured=case.is_measured)
    at = int(after.index(table.id[worst : worst + 1])[0])
    return Finding(
        "starvation",
        "Streams of low priority starve",
        f"{len(starved)} tasks were overtaken again and again by more urgent ones that were ready later; the longest "
        f"wait was {duration(int(waited[worst]))}, of task {int(table.id[worst])} "
        f"({table.works[int(table.work[worst])].name}).",
        "Keep the high priority for what is short and rare, or give the streams the same priority. The expectation is "
        "for the longest wait with equal priorities.",
        tuple(table.id[starved[:FEW]].tolist()),
        int(waited[worst]),
        int(after.started[at] - Causes(after).ready[at]),
    )


def _worthwhile(
    name: str, title: str, evidence: str, change: str, tasks: tuple[int, ...], before_ns: int, after_ns: int
) -> Finding | None:
    """Give the finding if the change would bring anything worth mentioning."""
    if before_ns < LEAST_GAIN * after_ns:
        return None
    return Finding(name, title, evidence, change, tasks, before_ns, after_ns)


def _calls(case: Case) -> str:
    return f" The expectation takes {duration(case.call_ns)} for each call of the host." if case.call_ns else ""


def _idle(case: Case, *, drained: bool) -> list[tuple[int, int, int, int]]:
    """Give when the device had nothing to do as the next task had not been enqueued: begin, end, and that task's place.

    It was `drained` if the host had just waited for the device; then the fourth is the wait's place in the hosts' list.
    """
    table, hosts = case.table, case.table.hosts
    places = np.flatnonzero(table.engine >= 0)
    places = places[np.argsort(table.started[places], kind="stable")]
    reach = np.maximum.accumulate(table.finished[places])[:-1]
    nexts = places[1:]
    late = (table.started[nexts] >= reach) & (table.submitted[nexts] >= reach)
    waits = np.flatnonzero((hosts["ended_ns"] > hosts["started_ns"]) & (table.index(hosts["task"]) >= 0))
    waits = waits[np.argsort(hosts["ended_ns"][waits], kind="stable")]
    ends = hosts["ended_ns"][waits]
    found = []
    for begin, place in zip(reach[late].tolist(), nexts[late].tolist(), strict=True):
        last = int(np.searchsorted(ends, table.submitted[place], "right")) - 1
        waited = bool(last >= 0 and ends[last] >= begin)
        end = int(table.started[place])
        if waited is drained and (drained or end > begin):
            found.append((begin, end, place, int(waits[last])))
    return found


def _busy(table: Table, some: npt.NDArray[np.bool_]) -> Intervals:
    return Intervals.union(table.started[some], table.finished[some])


def _capacity(table: Table, code: int) -> int:
    return next(work.capacity for work in table.works if (work.device, work.engine) == table.engines[code])


CHECKS = (
    keep_ahead,
    stream_per_engine,
    stream_per_thread,
    more_threads,
    fill_cores,
    pageable,
    synchronize,
    starvation,
)
