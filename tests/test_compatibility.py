"""The page of what is compatible is what the docstrings say, and every call of tiers 1 and 2 is on it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "docs" / "compatibility.py"


def load() -> ModuleType:
    """Import the script."""
    spec = importlib.util.spec_from_file_location("compatibility", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


compatibility = load()
CALLS = [
    {"name": "aclrtOne", "group": "01 first", "tier": 1},
    {"name": "aclrtTwo", "group": "01 first", "tier": 2},
    {"name": "aclrtThree", "group": "02 second (reserved)", "tier": 3},
]


def test_the_page_is_up_to_date():
    """Else run python docs/compatibility.py; it also says which call has neither an answer nor a reason."""
    done = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_check_fails_if_the_page_differs(tmp_path, monkeypatch):
    """By a word, or if it is not there."""
    page = tmp_path / "compatibility.md"
    monkeypatch.setattr(compatibility, "PAGE", page)
    assert "not up to date" in compatibility.main(["--check"])
    assert compatibility.main([]) is None
    assert compatibility.main(["--check"]) is None
    page.write_text(page.read_text(encoding="utf-8") + "x", encoding="utf-8")
    assert "not up to date" in compatibility.main(["--check"])


@pytest.mark.parametrize(
    ("found", "reasons", "wrong"),
    (
        ({"aclrtOne": ["one()"]}, {"later": "aclrtTwo"}, None),
        ({"aclrtOne": ["one()"], "aclrtTwo": ["two()"]}, {}, None),
        ({}, {"later": "aclrtTwo"}, "aclrtOne: no docstring"),
        ({"aclrtOne": ["one()"]}, {}, "aclrtTwo: no docstring"),
        ({"aclrtOne": ["one()"]}, {"later": "aclrtOne aclrtTwo"}, "aclrtOne: one() mirrors it, so its reason"),
        ({"aclrtThree": ["x"]}, {"later": "aclrtOne aclrtTwo aclrtThree"}, "aclrtThree: x mirrors it, so its reason"),
        ({"aclrtOne": ["one()"]}, {"later": "aclrtTwo", "never": "aclrtTwo"}, "aclrtTwo has two reasons"),
        ({"aclrtOne": ["one()"]}, {"later": "aclrtTwo aclrtFour"}, "aclrtFour has a reason, and CANN has no such"),
        ({"aclrtOne": ["a"], "aclrtOen": ["b"]}, {"later": "aclrtTwo"}, "aclrtOen: b mirrors it, and CANN has no such"),
    ),
)
def test_what_does_not_fit_is_said(found, reasons, wrong):
    """One line for each."""
    lines = compatibility.problems(CALLS, found, reasons)
    assert len(lines) == (wrong is not None)
    assert not lines or lines[0].startswith(wrong)


def test_problems_end_the_script(monkeypatch):
    """Nothing is written then."""
    monkeypatch.setattr(compatibility, "PAGE", ROOT / "nowhere" / "page.md")
    monkeypatch.setitem(compatibility.REASONS, "wrong", "aclrtMalloc")
    assert compatibility.main([]).startswith("aclrtMalloc: Device.malloc(), acl.rt.malloc mirrors it")


def test_docstrings_are_read(tmp_path):
    """Public names only: functions, classes, methods, properties, attributes; up to the end of the sentence."""
    (tmp_path / "__init__.py").write_text("from .thing import Thing as Thing\n", encoding="utf-8")
    (tmp_path / "_hidden.py").write_text('def f():\n    """Mirrors aclrtHidden."""\n', encoding="utf-8")
    (tmp_path / "sync.py").write_text('class Thing:\n    """Mirrors aclrtTwin."""\n', encoding="utf-8")
    (tmp_path / "thing.py").write_text(
        '''
class Thing(Base):
    """A thing; mirrors aclrtClass. As aclrtNot, which it does not mirror."""

    def __init__(self):
        self.number = 1
        """Mirrors aclrtAttribute."""
        self._secret = 1
        """Mirrors aclrtSecret."""

    def method(self):
        """Do.

        Mirrors aclrtOne, ``aclrtTwo`` and
        aclrtThree. Not aclrtNot.
        """

    def _private(self):
        """Mirrors aclrtPrivate."""

    @property
    def value(self):
        """Mirrors aclrtOne."""

def function():
    """Mirrors aclrtOne"""

class Base:
    def inherited(self):
        """Mirrors aclrtFour[WithTimeout]."""
''',
        encoding="utf-8",
    )
    assert compatibility.mirrored(tmp_path) == {
        "aclrtClass": ["Thing"],
        "aclrtAttribute": ["Thing.number"],
        "aclrtOne": ["Thing.method()", "Thing.value", "thing.function()"],
        "aclrtTwo": ["Thing.method()"],
        "aclrtThree": ["Thing.method()"],
        "aclrtFour": ["Thing.inherited()"],
        "aclrtFourWithTimeout": ["Thing.inherited()"],
    }


def test_the_page_names_everything():
    """Answers, reasons, and the rest in short."""
    page = compatibility.page(CALLS, {"aclrtOne": ["one()"]}, {"later": "aclrtTwo"})
    assert "of these 2 calls 1\n" in page
    assert "## First" in page
    assert "| `aclrtOne` | 1 | `one()` |" in page
    assert "| `aclrtTwo` | 2 | none: later |" in page
    assert "- Second: `aclrtThree`" in page
    assert "- `aclrtThree`: `three`" in compatibility.page(CALLS, {"aclrtThree": ["three"]}, {"x": "aclrtOne aclrtTwo"})
