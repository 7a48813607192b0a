"""Every async test runs on asyncio's own loop and on uvloop."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping

import pytest

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
if sys.platform != "win32":  # uvloop does not exist there
    import uvloop

    LOOPS["uvloop"] = uvloop.new_event_loop


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Name the loops; the name stands in the id of the test."""
    return LOOPS
