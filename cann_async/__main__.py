"""The command line: ``cann-async`` and ``python -m cann_async``. It reads the arguments; the work is done elsewhere."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from . import __version__


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code."""
    arguments = _parser().parse_args(argv)
    try:
        code = cast("Callable[[argparse.Namespace], int]", arguments.command)(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read the output, such as `head`, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="cann-async", description="The CANN Runtime programming model for asyncio, on a simulated NPU."
    )
    parser.add_argument("--version", action="version", version=f"cann-async {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_demo(commands)
    _add_run(commands)
    return parser


def _add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = (
        "Run the ten steps of a CANN program, then the same work on one and on three streams; check the results, "
        "draw the timelines, and save the trace."
    )
    parser = commands.add_parser("demo", help="see the programming model at work", description=text)
    parser.add_argument(
        "--output",
        type=_trace_path,
        default=Path("cann-async-demo.json"),
        metavar="FILE",
        help="where to save the trace (default: %(default)s)",
    )
    parser.set_defaults(command=_demo)


def _demo(arguments: argparse.Namespace) -> int:
    from .demo import demo  # it needs all of the package, and --help does not

    return demo(arguments.output)


def _add_run(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "Run a pyACL program unchanged: `import acl` gives the simulated NPU."
    parser = commands.add_parser(
        "run",
        help="run a pyACL program",
        description=text,
        usage="%(prog)s [options] (program.py | -m module) [args ...]",
    )
    parser.add_argument("--clock", choices=("wall", "virtual", "paced"), help="wall (default): as fast as it goes")
    parser.add_argument("--soc", help="the chip to simulate (default: ascend910b)")
    parser.add_argument("--devices", type=int, help="how many devices there are (default: 1)")
    parser.add_argument(
        "--strict", action="store_true", help="refuse queued copies whose direction contradicts the addresses"
    )
    parser.add_argument(
        "--kernels", action="append", default=[], metavar="MODULE", help="import a module that registers kernels"
    )
    parser.add_argument("--trace", type=_trace_path, metavar="FILE", help="save what has run, for Perfetto")
    parser.add_argument("-m", dest="module", action="store_true", help="the program is a module")
    parser.add_argument("program", help="the program to run")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what it is given")
    parser.set_defaults(command=_run)


def _run(arguments: argparse.Namespace) -> int:
    from .launcher import launch

    return launch(
        arguments.program,
        arguments.arguments,
        is_module=arguments.module,
        kernels=arguments.kernels,
        trace=arguments.trace,
        clock=arguments.clock,
        soc=arguments.soc,
        devices=arguments.devices,
        strict=arguments.strict,
    )


def _trace_path(text: str) -> Path:
    path = Path(text)
    if path.suffix != ".json":
        raise argparse.ArgumentTypeError(f"{text!r} must end in .json")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {str(path.parent)!r}")
    return path


if __name__ == "__main__":
    sys.exit(main())
