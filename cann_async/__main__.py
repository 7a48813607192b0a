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
    _add_trace(commands)
    _add_info(commands)
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


def _add_trace(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = (
        "Say what a saved trace (.json, .json.gz) holds. Without an action: the summary and the advice. The trace of "
        "`cann-async demo` is a good one to begin with."
    )
    parser = commands.add_parser("trace", help="look into a saved trace", description=text)
    parser.add_argument("--soc", help="replay it on this Soc first: a preset, or a .toml file")
    parser.add_argument("file", type=Path, help="a trace that cann_async has saved")
    parser.set_defaults(command=_trace, action="", other=None, format=None)
    actions = parser.add_subparsers(title="actions", metavar="ACTION")
    for name, help_text in (
        ("summary", "figures per engine, stream and kind of work"),
        ("advice", "what to change so that the device stands still less"),
        ("path", "the critical path"),
        ("gaps", "when engines stood still, and why"),
        ("show", "draw it in the terminal"),
    ):
        actions.add_parser(name, help=help_text).set_defaults(action=name)
    compare = actions.add_parser("compare", help="put it beside another trace")
    compare.add_argument("other", type=Path, help="the trace of the later run")
    compare.set_defaults(action="compare")
    convert = actions.add_parser("convert", help="write it as .html, .svg, .pftrace, .json, .json.gz, or for msprof")
    convert.add_argument("other", metavar="OUTPUT", type=Path, help="the file, or for msprof the folder")
    convert.add_argument("--format", help="msprof, or another format than the suffix says")
    convert.set_defaults(action="convert")


def _trace(arguments: argparse.Namespace) -> int:
    from .reports import trace

    return trace(arguments.file, arguments.action, arguments.other, arguments.format, arguments.soc)


def _add_info(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("info", help="see what is simulated", description="Print the devices and the presets.")
    parser.add_argument("--soc", help="the chip of the devices: a preset, or a .toml file")
    parser.set_defaults(command=_info)


def _info(arguments: argparse.Namespace) -> int:
    from .reports import info

    return info(arguments.soc)


def _trace_path(text: str) -> Path:
    from .timeline.files import writer

    path = Path(text)
    try:
        writer(path)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {str(path.parent)!r}")
    return path


if __name__ == "__main__":
    sys.exit(main())
