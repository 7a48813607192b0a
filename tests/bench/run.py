"""Measure every row and print the table, ratios first.

    python tests/bench/run.py [--reps 7] [--only NAME] [--json FILE] [--markdown FILE]

`--only` takes a part of a row's name, and can be given more than once. A target that is missed is shown as such; the
exit status says nothing about speed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path

from harness import ROWS, Result, machine, markdown, measure, table

THEMES = ("launches", "virtual", "timelines", "copies", "pyacl", "processes")
"""Modules of rows, imported once `harness` has set the environment for NumPy."""


def main() -> None:
    """Read the command line, measure, and write what was asked for."""
    parser = argparse.ArgumentParser(description="Benchmarks of cann_async against its peers.")
    parser.add_argument("--reps", type=int, default=7, help="repetitions of each side (default 7)")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="rows whose name contains NAME")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the machine and the table as Markdown")
    options = parser.parse_args()
    for theme in THEMES:
        importlib.import_module(theme)
    chosen = [row for row in ROWS.values() if not options.only or any(part in row.name for part in options.only)]
    if not chosen:
        parser.error("no such row; there are:\n  " + "\n  ".join(ROWS))
    facts = machine()
    pocl = importlib.import_module("peers").find_pocl()
    facts["PoCL"] = pocl.version if pocl is not None else "not installed"
    results: list[Result] = []
    for number, row in enumerate(chosen, 1):
        print(f"[{number}/{len(chosen)}] {row.name}", file=sys.stderr, flush=True)
        results.append(measure(row, options.reps))
    print("\n".join(f"{name}: {fact}" for name, fact in facts.items()))
    print(f"\n{table(results)}")
    if options.json is not None:
        report = {"machine": facts, "reps": options.reps, "rows": [result.as_json() for result in results]}
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    if options.markdown is not None:
        options.markdown.write_text(markdown(results, facts, options.reps), encoding="utf-8")


if __name__ == "__main__":
    main()
