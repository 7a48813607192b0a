"""Every async test runs on asyncio's own loop and on uvloop."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator, Mapping

import pytest

from cann_async import acl
from cann_async._acl import process

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
if sys.platform != "win32":  # uvloop does not exist there
    import uvloop

    LOOPS["uvloop"] = uvloop.new_event_loop


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Name the loops; the name stands in the id of the test."""
    return LOOPS


@pytest.fixture(params=["wall", "virtual"])
def drop_in(request: pytest.FixtureRequest) -> Iterator[str]:
    """Have pyACL as a new process has it, on either clock; the value is the clock's name."""
    process.end()
    acl.configure(clock=request.param)
    acl.rt.get_last_error(0)
    acl.get_recent_err_msg()
    yield request.param
    process.end()
