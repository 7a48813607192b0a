"""Change a recorded program, for the advice to find out what the change would bring: tables in, tables out.

A changed table is only good for `replay`: its times are still those of the program as it was.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np

from .._machine.record import SHIFT, StreamRow, WorkRow
from .table import COMPUTES, Codes, Ints, Table

ROOM = 4
"""Ids are spread so far apart that waits fit in between."""


def restreamed(table: Table, streams: Codes, rows: dict[int, StreamRow], waits: Iterable[tuple[int, int]]) -> Table:
    """Put each task into another stream, and have tasks wait for others: pairs of places, the second one earlier.

    `rows` describes the streams that are new. Nobody waits for more than three others.
    """
    changed = table.rows.copy()
    changed[:, 0] *= ROOM
    changed[:, 1] = table.work | (streams.astype(np.int64) + 1) << SHIFT
    changed[:, 6] *= np.where(table.target > 0, ROOM, 1)
    works, numbers = list(table.works), {work: number for number, work in enumerate(table.works)}
    added: list[Ints] = []
    behind: dict[int, int] = {}
    for place, target in waits:
        wait = WorkRow("wait", "", 0, 1, int(table.device[place]), 1, None)
        number = numbers.setdefault(wait, len(works))
        if number == len(works):
            works.append(wait)
        behind[place] = behind.get(place, 0) + 1
        row = changed[place].copy()
        row[[0, 1, 2, 6, 7]] = (
            row[0] - behind[place], number | (int(streams[place]) + 1) << SHIFT, 0, changed[target, 0], -1
        )  # fmt: skip
        row[5] = max(row[4], changed[target, 5])
        added.append(row)
    whole = np.concatenate((changed, np.array(added, np.int64).reshape(-1, changed.shape[1])))
    hosts, feeds = table.hosts.copy(), table.feeds.copy()
    hosts["task"] *= ROOM
    hosts["following"] = np.maximum(hosts["following"] * ROOM - (ROOM - 1), 0)  # before the waits that are put in
    feeds["task"] *= ROOM
    return dataclasses.replace(
        table,
        rows=whole[np.argsort(whole[:, 0], kind="stable")],
        works=tuple(works),
        streams=table.streams | rows,
        hosts=hosts,
        feeds=feeds,
    )


def per_engine(table: Table) -> Table:
    """Give each stream's copies in, kernels and copies out a stream of their own, with waits where data passes on.

    A stream's work is cut into batches, each of which begins with the copies in that follow something else. Within a
    batch everything keeps its order; a copy in waits for the batch before the last, whose buffers it takes: so it is
    as if there were two sets of buffers, and no batch needed another one's results.
    """
    kinds = np.zeros(len(table), np.int64)
    for kind, engines in enumerate((frozenset({"h2d"}), COMPUTES, frozenset({"d2h"}))):
        kinds[table.is_on(engines)] = kind + 1
    streams, rows = table.stream.copy(), {}
    following = max(table.streams, default=0) + 1
    waits: list[tuple[int, int]] = []
    for stream in np.unique(table.stream[table.stream >= 0]).tolist():
        places = np.flatnonzero(table.stream == stream)
        if len(set(kinds[places]) - {0}) < 2:
            continue
        row, kind = table.streams[stream], 0
        last: dict[int, int] = {}
        finals: list[int] = []
        """The last task of each batch that is over."""
        previous = -1
        for place in places.tolist():
            before, kind = kind, int(kinds[place]) or kind or 1
            if kind == 1 and before > 1:
                finals.append(previous)
                last = {}
            source = max((at for other, at in last.items() if other != kind), default=-1)
            if source >= 0 and (before != kind or not kinds[place]):
                waits.append((place, source))
            if kind == 1 and len(finals) > 1 and before != 1:
                waits.append((place, finals[-2]))
            number = following + kind - 1
            rows[number] = row
            streams[place] = number
            last[kind] = previous = place
        following += 3
    return restreamed(table, streams, rows, waits)


def per_thread(table: Table) -> Table:
    """Give each thread of the host a stream of its own where several feed one."""
    streams, rows = table.stream.copy(), {}
    following = max(table.streams, default=0) + 1
    for stream, threads in shared_streams(table).items():
        for thread in threads[1:]:
            streams[(table.stream == stream) & (table.thread == thread)] = following
            rows[following] = table.streams[stream]
            following += 1
    return restreamed(table, streams, rows, ())


def shared_streams(table: Table) -> dict[int, list[int]]:
    """Give, by stream, the threads that feed it, where these are more than one."""
    found = {}
    for stream in np.unique(table.stream[table.stream >= 0]).tolist():
        threads = np.unique(table.thread[(table.stream == stream) & (table.engine >= 0)]).tolist()
        if len(threads) > 1:
            found[stream] = threads
    return found


def with_works(table: Table, works: list[WorkRow]) -> Table:
    """Give the table with each work replaced by another one."""
    return dataclasses.replace(table, works=tuple(works))


def held_up(table: Table, copies: Ints) -> Table:
    """Hold the host up at each of these copies until it is done: whatever is enqueued later waits for it."""
    waits = []
    seen: dict[int, int] = {}
    """Per stream the last of the copies that it stands behind."""
    latest, some = -1, set(copies.tolist())
    for place, stream in enumerate(table.stream.tolist()):
        if latest >= 0 and (seen.get(stream) != latest or stream < 0):
            waits.append((place, latest))
            seen[stream] = latest
        if place in some:
            latest = seen[stream] = place
    return restreamed(table, table.stream, {}, waits)


def of_equal_priority(table: Table) -> Table:
    """Give all streams the same priority."""
    rows = {number: row._replace(priority=0) for number, row in table.streams.items()}
    return dataclasses.replace(table, streams=rows)


def merged(table: Table) -> Table:
    """Have kernels that follow each other in a stream pay for one launch: as if they were one kernel."""
    rows = table.rows.copy()
    order = np.lexsort((table.id, table.stream))
    work, stream = table.work[order], table.stream[order]
    follows = np.append(False, (work[1:] == work[:-1]) & (stream[1:] == stream[:-1])) & table.is_on(COMPUTES)[order]
    saved = np.array([soc.launch_ns for soc in table.socs])[table.device[order]]
    took = (table.finished - table.started)[order]
    rows[order[follows], 7] = ~np.maximum(took - saved, 0)[follows]
    return dataclasses.replace(table, rows=rows)


def filled(table: Table) -> Table:
    """Launch every kernel with as many blocks as its engine has cores."""
    return with_works(
        table,
        [
            work._replace(blocks=work.capacity, cores=work.capacity)
            if work.engine in COMPUTES and work.blocks < work.capacity
            else work
            for work in table.works
        ],
    )
