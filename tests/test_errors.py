"""Errors: the table of codes, kinds, hints, what a failure says about its task, copies and pickles, odd texts."""

from __future__ import annotations

import ast
import copy
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import cann_async as ca
import cann_async.sync as blocking
from cann_async._machine.task import FAULTS, TIMEOUTS
from cann_async.error_codes import ALIASES, CODES, FAMILIES, TABLE
from cann_async.errors import error

from .helpers import LIMIT_S, Hold, boom, both, environment, open_device, rejects, work

pytestmark = pytest.mark.timeout(60)
PACKAGE = Path(ca.__file__).parent


# -- the table --------------------------------------------------------------------------------------------------------


def test_the_table_is_whole():
    """All 252 values of CANN's headers under 254 names, each once, and each with a family."""
    names = [name for name, _, _ in CODES.values()]
    assert len(CODES) == 252
    assert len({*names, *ALIASES}) == len(names) + len(ALIASES) == 254
    assert all(name.startswith("ACL_") and name.isupper() for name in (*names, *ALIASES))
    assert set(ALIASES.values()) <= set(CODES)
    assert {family for _, family, _ in CODES.values()} == set(FAMILIES)


def test_no_row_stands_twice():
    """A dict keeps the last of two rows without a word; the text shows both."""
    rows = [line for line in TABLE.splitlines() if line[:1].isdigit()]
    assert len(rows) == len(CODES)


@pytest.mark.parametrize(
    ("code", "name"),
    (
        (100000, "ACL_ERROR_INVALID_PARAM"),
        (107003, "ACL_ERROR_RT_STREAM_CONTEXT"),
        (200006, "ACL_ERROR_FEATURE_UNSUPPORTED"),
        (207001, "ACL_ERROR_RT_MEMORY_ALLOCATION"),
        (507015, "ACL_ERROR_RT_AICORE_EXCEPTION"),
        (507047, "ACL_ERROR_RT_EVENT_SYNC_TIMEOUT"),
    ),
)
def test_names_are_those_of_the_headers(code, name):
    """Some of them, by hand."""
    assert CODES[code][0] == error(code, "x").name == name


def test_every_code_but_success_has_a_hint():
    """Of its own or of its family, as one short sentence or two."""
    for code in CODES:
        hint = error(code, "x").hint
        assert bool(hint) == (code != 0), code
        assert not hint or (hint.endswith(".") and len(hint) <= 120), hint


def codes_raised() -> set[int]:
    """Give the codes that the package makes errors with, wherever they stand in its sources."""
    found = {*FAULTS.values(), *TIMEOUTS.values(), 507014, 507015}
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and node.args:
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                if name.endswith(("error", "Error", "Timeout", "Refusal")):
                    inside = [n.value for n in ast.walk(node.args[0]) if isinstance(n, ast.Constant)]
                    found |= {n for n in inside if isinstance(n, int) and n > 99999}
    return found


def test_every_code_that_is_raised_is_in_the_table_with_a_hint():
    """The package makes no code up."""
    raised = codes_raised()
    assert {100000, 107000, 107001, 107020, 207001, 507007, 507033, 507046} <= raised  # else nothing was found
    assert raised <= set(CODES)
    assert all(error(code, "x").hint for code in raised)


def test_the_table_imports_nothing():
    """It is data."""
    tree = ast.parse((PACKAGE / "error_codes.py").read_text(encoding="utf-8"))
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]


# -- kinds ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "kind"),
    (
        (100000, ca.UsageError),
        (148046, ca.UsageError),
        (200000, ca.ResourceError),
        (300000, ca.ResourceError),
        (345102, ca.ResourceError),
        (500000, ca.ExecutionError),
        (507045, ca.ExecutionError),
        (507046, ca.SyncTimeout),
        (507047, ca.SyncTimeout),
        (507048, ca.ExecutionError),
        (599999, ca.ExecutionError),
    ),
)
def test_the_kind_follows_from_the_code(code, kind):
    """Exactly that kind, also for a code that is in no table."""
    assert type(error(code, "x")) is kind


def test_a_sync_timeout_is_a_timeout():
    """So ``except TimeoutError`` gets it, and nothing of OSError shows."""
    problem = ca.SyncTimeout(507046, "waited for 2 s", "Wait longer.")
    assert isinstance(problem, TimeoutError)
    assert isinstance(problem, ca.ExecutionError)
    assert problem.args == (507046, "waited for 2 s", "Wait longer.")
    assert problem.errno is problem.filename is None
    assert str(problem) == "waited for 2 s [507046 ACL_ERROR_RT_STREAM_SYNC_TIMEOUT]. Wait longer."
    assert blocking.SyncTimeout is ca.SyncTimeout


def test_texts():
    """Detail, code and name, hint: the one that was given, else the one of the code, else none."""
    assert str(error(107001, "there is no device 9", "Ask.")) == (
        "there is no device 9 [107001 ACL_ERROR_RT_INVALID_DEVICEID]. Ask."
    )
    assert error(107001, "x").hint == CODES[107001][2]
    assert error(507053, "x").hint == FAMILIES["device"]
    assert str(error(599999, "odd")) == "odd [599999 UNKNOWN]"


# -- what a failure says about its task -------------------------------------------------------------------------------


def what_failed(problem: ca.CannError) -> tuple[object, ...]:
    """Give what an error says about its task, without the line."""
    return problem.kernel, problem.stream_id, problem.task_id, problem.device_id


@both
@pytest.mark.asyncio
async def test_a_failure_says_which_task_it_was(clock):
    """Kernel, stream, task, device, line and cause, whoever raises it."""
    async with open_device(clock, devices=2) as first, first.runtime.device(1) as device:
        stream = device.create_stream()
        for waited in ("task", "stream", "device", "context", "exception"):
            task = stream.launch(boom, name="explode")
            with rejects(507015, "'explode'", f"task {task.id}", "ZeroDivisionError: boom", "test_errors.py") as caught:
                if waited == "exception":
                    while not task.done():
                        await first.runtime.clock.sleep(0.001)
                    raise task.exception()
                await {
                    "task": task.wait,
                    "stream": stream.synchronize,
                    "device": device.synchronize,
                    "context": device.default_context.synchronize,
                }[waited]()
            failure = caught.value
            assert what_failed(failure) == ("explode", stream.id, task.id, 1)
            assert failure.task is task
            assert failure.launched_at == task.launched_at
            assert isinstance(failure.__cause__, ZeroDivisionError)
        await stream.close()


@both
@pytest.mark.asyncio
async def test_an_error_of_a_call_is_about_no_task(clock):
    """Nothing was enqueued."""
    async with open_device(clock) as device, device.create_stream() as stream:
        with rejects(107000) as caught:
            stream.launch(boom, blocks=0)
        assert what_failed(caught.value) == (None,) * 4
        assert caught.value.task is caught.value.launched_at is None


@both
@pytest.mark.asyncio
async def test_tasks_that_are_dropped_together_have_an_error_each(clock):
    """The same code and text, and each says which task it was; asked again, a task gives the same one."""
    async with open_device(clock) as device:
        stream = device.create_stream()
        hold = Hold(stream)
        tasks = [stream.launch(work(1), name=f"late {i}") for i in range(3)]
        await stream.close(force=True)
        hold.let_go()
        for i, task in enumerate(tasks):
            with rejects(107023, f"launched at {task.launched_at}") as caught:
                await task
            assert what_failed(caught.value) == (f"late {i}", stream.id, task.id, 0)
            assert caught.value.task is task
            assert task.exception() is caught.value
        assert len({id(task.exception()) for task in tasks}) == 3


@both
@pytest.mark.asyncio
async def test_a_cancelled_task_says_which_it_was(clock):
    """107023 with kernel, stream and line."""
    async with open_device(clock) as device, device.create_stream() as stream:
        hold = Hold(stream)
        task = stream.launch(work(1), name="unwanted")
        assert task.cancel()
        hold.let_go()
        with rejects(107023, "unwanted", "test_errors.py") as caught:
            await task
        assert what_failed(caught.value) == ("unwanted", stream.id, task.id, 0)


@both
@pytest.mark.asyncio
async def test_a_task_that_took_too_long_says_which_it_was(clock):
    """A kernel that is killed, and a wait that gives up."""
    async with open_device(clock) as device, device.create_stream() as stream, device.create_stream() as other:
        gate = threading.Event()
        if clock == "virtual":  # the body runs at the end of its time, if it comes to that
            gate.set()
        endless = work(1e6, gate.wait, LIMIT_S)
        waiting = stream.wait(other.launch(endless), timeout=1e-3)
        with rejects(107020, "test_errors.py") as caught:
            await waiting
        assert what_failed(caught.value) == ("wait", stream.id, waiting.id, 0)
        late = stream.launch(endless, timeout=1e-3, name="late\nriser")
        with rejects(507014, "'late riser'", "test_errors.py") as caught:
            await late
        assert what_failed(caught.value) == ("late riser", stream.id, late.id, 0)
        gate.set()


# -- copies and pickles -----------------------------------------------------------------------------------------------

KINDS = (
    ca.CannError,
    ca.UsageError,
    ca.MismatchError,
    ca.ResourceError,
    ca.ExecutionError,
    ca.SyncTimeout,
    ca.DeadlockError,
)


def same(twin: ca.CannError, problem: ca.CannError) -> None:
    """Check that two errors say the same."""
    assert twin is not problem
    assert type(twin) is type(problem)
    assert str(twin) == str(problem)
    assert twin.args == problem.args
    assert twin.__dict__ == {**problem.__dict__, "task": twin.task}
    assert repr(twin.__cause__) == repr(problem.__cause__)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_kind_can_be_pickled(kind, protocol):
    """With its hint, its notes and its cause."""
    problem = kind(507047, "detail", "hint")
    problem.launched_at = "file.py:7"
    problem.add_note("a note")
    problem.__cause__ = ValueError("why", 3)
    twin = pickle.loads(pickle.dumps(problem, protocol))
    same(twin, problem)
    assert twin.__notes__ == ["a note"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("copied", (copy.copy, copy.deepcopy))
def test_every_kind_can_be_copied(kind, copied):
    """And what is copied has its own attributes."""
    problem = kind(107000, "detail")
    problem.__cause__ = ValueError("why")
    twin = copied(problem)
    same(twin, problem)
    assert twin.__cause__ is problem.__cause__
    assert not twin.__suppress_context__ or problem.__suppress_context__
    twin.launched_at = "elsewhere"
    assert problem.launched_at is None


class StubbornError(Exception):
    """Pickles, and cannot be unpickled: the usual mistake."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


class UnpicklableError(Exception):
    """Cannot be pickled."""

    def __reduce__(self):
        raise RuntimeError("no")


@both
@pytest.mark.parametrize("cause", (ZeroDivisionError("plain"), StubbornError(1, 2), UnpicklableError("never")))
def test_a_failure_of_a_kernel_can_be_pickled(clock, cause):
    """The task stays here, and so does a cause that would break whoever unpickles it; its text is in the message."""

    def fail():
        raise cause

    with blocking.open_device(clock=clock) as device, device.create_stream() as stream:
        task = stream.launch(work(1, fail, engine="ai_vector"))
        with rejects(507035) as caught:
            task.result()
        failure = caught.value
        twin = pickle.loads(pickle.dumps(failure))
        assert twin.task is None
        assert what_failed(twin) == what_failed(failure)
        assert str(twin) == str(failure)
        assert str(cause) in str(twin)
        assert type(twin.__cause__) is (ZeroDivisionError if type(cause) is ZeroDivisionError else type(None))
        assert copy.copy(failure).task is copy.deepcopy(failure).task is task
        assert copy.copy(failure).__cause__ is cause


POOL = """
import multiprocessing
import cann_async as ca
import cann_async.sync as blocking

@ca.kernel(per_block=False)
def boom(launch):
    raise ZeroDivisionError("boom")

def fail_in_a_child(_):
    with blocking.open_device(clock="virtual") as device, device.create_stream() as stream:
        stream.launch(boom, name="far away").result()

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        try:
            pool.apply_async(fail_in_a_child, (0,)).get(60)
        except ca.ExecutionError as problem:
            print(problem.code, problem.kernel, problem.launched_at.rpartition(":")[2], problem)
"""


def test_multiprocessing_hands_errors_on(tmp_path):
    """A pool's `get` raises what the kernel's failure was over there."""
    file = tmp_path / "pool.py"
    file.write_text(POOL, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(file)], env=environment(), capture_output=True, text=True, timeout=100, check=False
    )
    assert done.stdout.startswith("507015 far away 12 "), done.stdout + done.stderr
    assert "ZeroDivisionError: boom" in done.stdout


# -- odd texts --------------------------------------------------------------------------------------------------------


class MuteError(Exception):
    """Has no text."""

    def __str__(self) -> str:
        raise LookupError("no text")


class QuitterError(Exception):
    """Ends the program when asked for its text."""

    def __str__(self) -> str:
        raise SystemExit(3)


class LiarError(Exception):
    """Gives a number as its text."""

    def __str__(self) -> str:
        return 5  # noqa: PLE0307  # that is the point


@both
@pytest.mark.parametrize(
    ("problem", "text"),
    (
        (MuteError(), "raised MuteError: <MuteError whose str() raises LookupError>"),
        (QuitterError(), "raised QuitterError: <QuitterError whose str() raises SystemExit>"),
        (LiarError(), "raised LiarError: <LiarError whose str() raises TypeError>"),
        (ValueError("one\n  two\n\nthree\t."), "raised ValueError: one two three ."),
        (ValueError(), "raised ValueError [507015"),
        (ValueError(" \n"), "raised ValueError [507015"),
        (ValueError("x" * 10_000), f"raised ValueError: {'x' * 297}... [507015"),
    ),
)
@pytest.mark.asyncio
async def test_whatever_a_kernel_raises_gives_one_readable_line(clock, problem, text):
    """And the stream goes on."""

    def fail():
        raise problem

    async with open_device(clock) as device, device.create_stream() as stream:
        with rejects(507015, text) as caught:
            await stream.launch(work(1, fail))
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 1000
        assert caught.value.__cause__ is problem
        assert await stream.launch(work(1, lambda: "on")) == "on"


@both
@pytest.mark.parametrize(
    ("name", "shown"),
    (
        ("two\nlines", "two lines"),
        ("", ""),
        ("'quoted'", "'quoted'"),
        ("n" * 1000, "n" * 297 + "..."),
        ("加法", "加法"),
    ),
)
@pytest.mark.asyncio
async def test_odd_names_stay_readable(clock, name, shown):
    """On one line, and not too long."""
    async with open_device(clock) as device, device.create_stream() as stream:
        with rejects(507015, f"{shown!r} (task") as caught:
            await stream.launch(boom, name=name)
        assert caught.value.kernel == shown
        assert "\n" not in str(caught.value)


@both
@pytest.mark.asyncio
async def test_a_cann_error_in_a_body_keeps_its_code(clock):
    """A fault stays what it is; a wrong call in a body is a fault of the kernel."""

    def raises(problem):
        raise problem

    async with open_device(clock) as device, device.create_stream() as stream:
        for code, seen in ((507014, 507014), (507046, 507046), (107000, 507015), (207001, 507015)):
            with rejects(seen) as caught:
                await stream.launch(work(1, raises, error(code, "inner")))
            assert type(caught.value) is ca.ExecutionError
            assert caught.value.__cause__.code == code
