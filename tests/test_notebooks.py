"""The notebooks: each is executed, and shows what it shows as it is; virtual time makes that exact.

Set UPDATE_GOLDEN=1 to keep the new outputs, and look at them.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import cann_async as ca

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
NOTEBOOKS = sorted(EXAMPLES.rglob("*.ipynb"))
MISSING = [name for name in ("nbclient", "nbformat", "ipykernel") if importlib.util.find_spec(name) is None]
EXECUTE = """
import json, sys
import nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], 4)
NotebookClient(notebook, timeout=120, kernel_name="python3", record_timing=False).execute()
if len(sys.argv) > 2:
    nbformat.write(notebook, sys.argv[2])
json.dump([cell.get("outputs", []) for cell in notebook.cells], sys.stdout)
"""


def executed(path: Path) -> list[list[dict[str, Any]]]:
    """Run all cells in a kernel of their own; give the outputs of each."""
    keep = [str(path)] if os.environ.get("UPDATE_GOLDEN") else []
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CANN_ASYNC_")}
    done = subprocess.run(
        [sys.executable, "-c", EXECUTE, str(path), *keep],
        env={**kept, "PYTHONPATH": str(Path(ca.__file__).resolve().parents[1])},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def shown(outputs: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Give what a reader sees, by its kind; a file may keep a text as a list of lines."""
    found = []
    for output in outputs:
        data = output["data"] if "data" in output else {output["output_type"]: output.get("text", "")}
        found.append({kind: "".join(text) for kind, text in data.items()})
    return found


@pytest.mark.timeout(180)
@pytest.mark.skipif(bool(MISSING), reason=f"executing notebooks needs {', '.join(MISSING)}")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_a_notebook_shows_what_it_shows(path):
    """Every cell runs, and every output, pictures too, is the one that the file has."""
    outputs = executed(path)
    notebook = json.loads(path.read_text(encoding="utf-8"))
    kept = [shown(cell.get("outputs", [])) for cell in notebook["cells"]]
    assert [shown(fresh) for fresh in outputs] == kept
    assert any("image/svg+xml" in output for cell in kept for output in cell)
    assert not any("error" in output for cell in kept for output in cell)


def test_there_are_notebooks():
    """The two that the README names."""
    assert {"overlap", "what_if"} <= {path.stem for path in NOTEBOOKS}
