"""The pyACL programs under examples/ run unchanged, on either clock, and print what stands beside them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = sorted((Path(__file__).parents[1] / "examples" / "pyacl").glob("*.py"))
OPTIONS = {"multi_device": ["--devices", "2"]}


def run(*arguments: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    """Run ``cann-async run`` as a process of its own."""
    command = [sys.executable, "-X", "dev", "-W", "error", "-m", "cann_async", "run", *map(str, arguments)]
    settings = {"capture_output": True, "text": True, "timeout": 60, **options}
    return subprocess.run(command, check=False, **settings)  # type: ignore[call-overload]  # settings of any kind


@pytest.mark.parametrize("clock", ["wall", "virtual"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_prints_what_it_should(program, clock):
    """Nothing goes to the error output, also while the interpreter ends."""
    ended = run("--clock", clock, *OPTIONS.get(program.stem, []), program)
    assert ended.stderr == ""
    assert ended.stdout == program.with_suffix(".out").read_text()
    assert ended.returncode == 0


def test_there_are_a_dozen():
    """So that an empty folder does not pass."""
    assert len(PROGRAMS) >= 12


def test_arguments_modules_kernels_and_traces(tmp_path):
    """The program sees its arguments; it may be a module; kernels are imported before it; the trace is saved."""
    (tmp_path / "kernels_of_mine.py").write_text(
        "import cann_async as ca\nfrom cann_async import acl\n"
        "@ca.kernel\ndef twice(block, x):\n    x[:1] *= 2\n"
        "acl.register_kernel('twice', twice)\n"
    )
    (tmp_path / "program.py").write_text(
        "import sys\nimport acl.rt\nfrom acl.rt import set_device\n"
        "print(sys.argv[1:], __name__, set_device(0))\n"
        "binary, _ = acl.rt.binary_load_from_file(__file__, [])\n"
        "function, ret = acl.rt.binary_get_function(binary, 'twice')\n"
        "x, _ = acl.rt.malloc(1, 0); acl.rt.memset(x, 1, 21, 1)\n"
        "word = x.to_bytes(8, 'little'); block, _ = acl.rt.malloc(8, 0)\n"
        "acl.rt.memcpy(block, 8, acl.util.bytes_to_ptr(word), 8, 1)\n"
        "print(ret, acl.rt.launch_kernel(function, 1, block, 8, 0), acl.rt.synchronize_stream(0))\n"
        "print(acl.util.ptr_to_bytes(x, 1)[0])\nsys.exit(3)\n"
    )
    expected = "['a', '-b'] __main__ 0\n0 0 0\n42\n"
    common = ["--kernels", "kernels_of_mine", "--trace", tmp_path / "t.json"]
    for how in ([tmp_path / "program.py"], ["-m", "program"]):
        ended = run(*common, *how, "a", "-b", cwd=tmp_path)
        assert (ended.stdout, ended.stderr, ended.returncode) == (expected, "", 3)
        assert '"twice"' in (tmp_path / "t.json").read_text()
        (tmp_path / "t.json").unlink()


@pytest.mark.parametrize(
    "arguments",
    [["nowhere.py"], ["-m", "nowhere_at_all"], ["--soc", "none", __file__], ["--devices", "65", __file__]],
    ids=" ".join,
)
def test_what_cannot_be_run_is_said_in_one_line(arguments):
    """The exit code is 2, and there is no traceback."""
    ended = run(*arguments)
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    assert ended.stderr.startswith("cann-async: ")


def test_a_real_pyacl_is_not_hidden(tmp_path):
    """`install` refuses when another `acl` can be imported."""
    (tmp_path / "acl.py").write_text("")
    (tmp_path / "program.py").write_text("import acl\n")
    ended = run(tmp_path / "program.py")
    assert ended.returncode == 2
    assert "real pyACL" in ended.stderr


def test_keyboard_interrupt_gets_through(tmp_path):
    """A blocking call lets Ctrl-C through, as a program on hardware would not even."""
    (tmp_path / "program.py").write_text(
        "import acl, os, signal, threading\nacl.rt.set_device(0)\n"
        "x, _ = acl.rt.malloc(8, 0)\nacl.rt.memset(x, 8, 0, 8)\nacl.rt.value_wait(x, 1, 1, 0)\n"
        "threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "try:\n    acl.rt.synchronize_stream(0)\nexcept KeyboardInterrupt:\n    print('interrupted')\n"
        "print(acl.rt.reset_device_force(0))\n"
    )
    ended = run(tmp_path / "program.py")
    assert (ended.stdout, ended.stderr, ended.returncode) == ("interrupted\n0\n", "", 0)


def test_a_deadlock_on_virtual_time_is_an_error(tmp_path):
    """One thread, and nobody who could ever write the value: 107020 instead of a hang."""
    (tmp_path / "program.py").write_text(
        "import acl\nacl.rt.set_device(0)\nx, _ = acl.rt.malloc(8, 0)\nacl.rt.memset(x, 8, 0, 8)\n"
        "acl.rt.value_wait(x, 1, 1, 0)\nprint(acl.rt.synchronize_stream(0))\n"
    )
    ended = run("--clock", "virtual", tmp_path / "program.py")
    assert (ended.stdout, ended.stderr) == ("107020\n", "")


def test_a_thread_that_processes_its_own_reports_moves_virtual_time(tmp_path):
    """Nobody else waits for the device."""
    (tmp_path / "program.py").write_text(
        """\
import acl, threading
acl.init(); acl.rt.set_device(0)
stream, _ = acl.rt.create_stream(); called = []
acl.rt.subscribe_report(threading.get_ident(), stream)
device, _ = acl.rt.malloc(1 << 24, 0)
for number in range(3):
    acl.rt.memset_async(device, 1 << 24, 0, 1 << 24, stream)
    acl.rt.launch_callback(called.append, number, 1, stream)
while len(called) < 3:
    acl.rt.process_report(1)
print(called, acl.rt.process_report(1), acl.rt.synchronize_stream(stream))
"""
    )
    ended = run("--clock", "virtual", tmp_path / "program.py")
    assert ended.stdout == "[0, 1, 2] 507012 0\n"


@pytest.mark.parametrize("clock", ["wall", "virtual"])
@pytest.mark.parametrize("nbytes", [64, 1 << 26])
@pytest.mark.parametrize("is_warm", [False, True])
def test_a_finalizer_at_the_end_uses_the_device(tmp_path, clock, nbytes, is_warm):
    """No thread can be started any more, and those that were are gone."""
    (tmp_path / "program.py").write_text(
        f"""\
import acl
N = {nbytes}
acl.init(); acl.rt.set_device(0)
class Resource:
    def __init__(self):
        self.stream, _ = acl.rt.create_stream(); self.x, _ = acl.rt.malloc(N, 0); self.y, _ = acl.rt.malloc_host(N)
        if {is_warm}:
            self.use()
    def use(self):
        print(acl.rt.memcpy_async(self.x, N, self.y, N, 1, self.stream), acl.rt.synchronize_stream(self.stream))
    def __del__(self):
        self.use()
        print(acl.rt.memcpy(self.y, N, self.x, N, 2), acl.rt.destroy_stream(self.stream), acl.rt.free(self.x))
        print(acl.rt.reset_device(0), acl.finalize())
resource = Resource()
"""
    )
    ended = run("--clock", clock, tmp_path / "program.py")
    assert (ended.stdout, ended.stderr) == ("0 0\n" * (1 + is_warm) + "0 0 0\n0 0\n", "")
