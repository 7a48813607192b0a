"""The last error and the recent messages: of threads, of asyncio's tasks, of the process."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator

import pytest

import cann_async as ca
import cann_async.sync as blocking
from cann_async import last_error
from cann_async.errors import error
from cann_async.last_error import RECENT, get_last_error, note, peek_last_error, recent_error_message, set_message_scope

from .helpers import boom, both, in_threads, open_device

pytestmark = pytest.mark.timeout(30)


@pytest.fixture(autouse=True)
def nothing_noted() -> Iterator[None]:
    """Start and end without errors, thread by thread."""
    get_last_error()
    recent_error_message()
    yield
    for scope in ("process", "thread"):
        set_message_scope(scope)
        recent_error_message()
    get_last_error()


def test_get_forgets_and_peek_does_not():
    """A new failure overwrites, success changes nothing, 0 is no error."""
    assert peek_last_error() == get_last_error() == 0
    assert note(error(107001, "first")) == 107001
    assert note(error(207001, "second")) == 207001
    assert peek_last_error() == peek_last_error() == 207001
    assert get_last_error() == 207001
    assert peek_last_error() == get_last_error() == 0


def test_messages_come_newest_first_and_once():
    """With code, name and hint."""
    assert recent_error_message() is None
    note(error(107001, "first", "Do this."))
    note(error(207001, "second", "Do that."))
    assert recent_error_message() == (
        "second [207001 ACL_ERROR_RT_MEMORY_ALLOCATION]. Do that.\n"
        "first [107001 ACL_ERROR_RT_INVALID_DEVICEID]. Do this."
    )
    assert recent_error_message() is None
    assert peek_last_error() == 207001  # the one is not the other


def test_messages_are_bounded():
    """The oldest go."""
    for i in range(3 * RECENT):
        note(error(107000, f"number {i}", "Hint."))
    lines = recent_error_message().split("\n")
    assert len(lines) == RECENT
    assert lines[0].startswith(f"number {3 * RECENT - 1} ")
    assert lines[-1].startswith(f"number {2 * RECENT} ")


@pytest.mark.parametrize("code", (100000, 100037, 148046, 200000, 200006, 145000, 500000, 545001))
def test_layers_in_front_of_the_runtime_set_no_last_error(code):
    """But they leave a message; an earlier error stays."""
    note(error(507015, "before"))
    assert note(error(code, "refused")) == code
    assert get_last_error() == 507015
    assert recent_error_message().startswith("refused")


@pytest.mark.parametrize("code", (507004, 507006))
def test_not_finished_is_no_error(code):
    """Neither last error nor message."""
    assert note(error(code, "not yet")) == code
    assert get_last_error() == 0
    assert recent_error_message() is None


@pytest.mark.parametrize("code", (107000, 207000, 507012, 507046))
def test_the_runtime_sets_it(code):
    """Timeouts too."""
    note(error(code, "x"))
    assert get_last_error() == code


def test_threads_have_their_own_and_inherit_nothing():
    """Each sees what it has noted."""
    note(error(107001, "main"))
    everybody = threading.Barrier(4)

    def one(index: int) -> tuple[int, str | None, str | None]:
        assert peek_last_error() == 0
        assert recent_error_message() is None
        note(error(507000 + index, f"thread {index}"))
        everybody.wait(10)
        return get_last_error(), recent_error_message(), recent_error_message()

    for index, (code, text, again) in enumerate(in_threads(4, one)):
        assert code == 507000 + index
        assert text.startswith(f"thread {index} ")
        assert "\n" not in text
        assert again is None
    assert get_last_error() == 107001


@pytest.mark.asyncio
async def test_tasks_of_a_loop_have_their_own_and_inherit_nothing():
    """Though they take turns in one thread; a call back on the loop is in no task."""
    note(error(107001, "parent"))

    async def one(code: int) -> tuple[int, str | None]:
        assert peek_last_error() == 0
        note(error(code, "child"))
        await asyncio.sleep(0)
        return get_last_error(), recent_error_message()

    results = await asyncio.gather(one(507015), one(207001))
    assert [code for code, _ in results] == [507015, 207001]
    assert all(text.count("child") == 1 for _, text in results)
    assert await asyncio.to_thread(peek_last_error) == 0
    seen = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(lambda: seen.set_result(peek_last_error()))
    assert await seen == 0
    assert peek_last_error() == 107001


def test_what_a_task_has_noted_goes_with_it():
    """And outside of the loop it was never there."""

    async def main() -> int:
        note(error(507015, "in the loop"))
        return peek_last_error()

    assert asyncio.run(main()) == 507015
    assert peek_last_error() == 0
    gc.collect()
    assert len(last_error._thread.tasks) == 0


def test_the_scope_of_the_messages():
    """For the process, any thread reads all of them, once; the last error stays the thread's."""
    set_message_scope("process")
    in_threads(3, lambda index: note(error(507000 + index, f"thread {index}")))
    assert get_last_error() == 0
    lines = recent_error_message().split("\n")
    assert sorted(line.split(" [")[0] for line in lines) == ["thread 0", "thread 1", "thread 2"]
    assert in_threads(1, lambda _: recent_error_message()) == [None]
    set_message_scope("thread")
    in_threads(1, lambda _: note(error(507000, "elsewhere")))
    assert recent_error_message() is None


def test_another_scope_is_refused():
    """And the one that was stays."""
    with pytest.raises(ValueError, match="'thread' or 'process', not 'task'"):
        set_message_scope("task")
    in_threads(1, lambda _: note(error(507000, "elsewhere")))
    assert recent_error_message() is None


def test_many_threads_read_the_messages_of_the_process():
    """Each message is given to exactly one of them."""
    set_message_scope("process")

    noted: list[str] = []

    def one(index: int) -> list[str]:
        got: list[str] = []
        for i in range(500):
            if index % 2:
                got += (recent_error_message() or "").splitlines()
            elif len(last_error._everybody) < RECENT - 2:  # none is pushed out
                noted.append(f"{index}.{i} [507000 ACL_ERROR_RT_INTERNAL_ERROR]. Hint.")
                note(error(507000, f"{index}.{i}", "Hint."))
        return got

    got = [line for lines in in_threads(4, one) for line in lines] + (recent_error_message() or "").splitlines()
    assert sorted(got) == sorted(noted) != []


@both
@pytest.mark.asyncio
async def test_with_a_failure_of_a_kernel(clock):
    """As a layer uses it that gives codes back: catch, note, return the code."""
    async with open_device(clock) as device, device.create_stream() as stream:
        stream.launch(boom, name="explode")
        with pytest.raises(ca.CannError) as caught:
            await stream.synchronize()
        assert note(caught.value) == 507015
        assert get_last_error() == 507015
        assert "'explode'" in recent_error_message()


@both
def test_with_a_failure_of_a_kernel_in_blocking_code(clock):
    """The same, and another thread sees nothing of it."""
    with blocking.open_device(clock=clock) as device, device.create_stream() as stream:
        stream.launch(boom)
        with pytest.raises(ca.CannError) as caught:
            stream.synchronize()
        note(caught.value)
        assert in_threads(1, lambda _: get_last_error()) == [0]
        assert get_last_error() == 507015
