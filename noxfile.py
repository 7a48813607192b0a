"""The checks of the project: `nox` runs the usual ones, `nox --list` names all, `nox -s tests-3.12` runs one.

The two event loops need no sessions of their own: tests/conftest.py runs every async test on both.
"""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path

import nox

nox.needs_version = ">=2025.10.14"
nox.options.default_venv_backend = "virtualenv"
nox.options.reuse_venv = "yes"
nox.options.download_python = "never"
nox.options.error_on_missing_interpreters = False  # they are skipped, and the summary says so
nox.options.sessions = ["lint", "typing", "tests", "package"]

ROOT = Path(__file__).parent
PYTHONS = ["3.11", "3.12", "3.13"]

# pyenv's `python3.12` on PATH works only for the versions that it has made current; the others are in these folders.
pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
folders = [str(folder) for version in PYTHONS for folder in sorted(pyenv.glob(f"versions/{version}.*/bin"))]
os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), *folders])


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run the tests on the installed package, on asyncio and uvloop."""
    session.install(".", "--group", "test")
    session.run("pytest", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, format, and which way imports point."""
    session.install("--group", "lint")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("lint-imports", "--no-cache")


@nox.session
def typing(session: nox.Session) -> None:
    """Check types, strictly, of the package and of its typed uses."""
    session.install("-e", ".", "--group", "typing")
    session.run("mypy")


@nox.session
def examples(session: nox.Session) -> None:
    """Run the examples as a user runs them; they are among the tests as well."""
    session.install(".", "--group", "test")
    session.run("pytest", "tests/test_examples.py", *session.posargs)


@nox.session(reuse_venv=False)
def package(session: nox.Session) -> None:
    """Build the wheel from the sdist, look into it, and use it in a clean environment, away from the sources."""
    session.install("build")
    tmp = Path(session.create_tmp()).resolve()
    for name in ("dist", "user"):
        shutil.rmtree(tmp / name, ignore_errors=True)
    session.run("python", "-m", "build", "--outdir", str(tmp / "dist"))
    (wheel,) = (tmp / "dist").glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    strangers = [name for name in names if not name.startswith(("cann_async/", "cann_async-", "pytest_cann_async."))]
    lacking = {"cann_async/py.typed", "cann_async/timeline/html/page.html"} - set(names)
    if strangers or lacking:
        session.error(f"{wheel.name} lacks {sorted(lacking)}, or has what is not ours: {strangers}")

    session.run("python", "-m", "venv", str(tmp / "user"))
    programs = tmp / "user" / ("Scripts" if os.name == "nt" else "bin")
    python, command = str(programs / "python"), str(programs / "cann-async")
    session.run(python, "-m", "pip", "install", "--quiet", str(wheel), external=True)
    example = shutil.copy(ROOT / "examples" / "ten_steps.py", tmp / "user")
    with session.chdir(tmp / "user"):
        away = {"PYTHONPATH": None}
        version = session.run(command, "--version", external=True, silent=True, env=away)
        if str(version).split()[-1] != wheel.name.split("-")[1]:
            session.error(f"{wheel.name} says that it is {version}")
        session.run(command, "demo", external=True, env=away)
        printed = session.run(python, example, external=True, silent=True, env=away)
    if printed != (ROOT / "examples" / "ten_steps.out").read_text(encoding="utf-8"):
        session.error(f"the example printed:\n{printed}")


@nox.session
def bench(session: nox.Session) -> None:
    """Measure, beside what the project is compared with; the OpenCL peer needs a driver, such as PoCL's."""
    session.install(".", "--group", "bench")
    session.run("python", "tests/bench/run.py", *session.posargs)


@nox.session
def model(session: nox.Session) -> None:
    """Compare 20,000 random programs with the reference models; a quarter of an hour or more, not for CI."""
    session.install(".", "--group", "test")
    tests = ("tests/test_model.py", "tests/test_model_semantics.py", "tests/test_memory_tasks.py")
    session.run("pytest", *tests, *session.posargs, env={"MODEL_EXAMPLES": "20000"})


@nox.session
def soak(session: nox.Session) -> None:
    """Random work with faults for ten minutes, from four threads and two loops; not for CI."""
    session.install(".")
    session.run("python", "tests/soak.py", *session.posargs)
