"""Write docs/compatibility.md: which calls of CANN's runtime have an answer here, and why the others have none.

    python docs/compatibility.py            writes the page
    python docs/compatibility.py --check    fails if the page is not what this would write

The docstrings of the package are the truth: a public name, or a function of pyACL, answers the calls that its
docstring says it "mirrors".
Every other call of tiers 1 and 2 stands in `REASONS`. What is mirrored and has a reason nevertheless, or has neither,
ends the script with an error: so who adds a call takes its reason away. The calls themselves are in cann-api.json.
"""  # noqa: INP001  # a script

from __future__ import annotations

import ast
import itertools
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).resolve().parent
PACKAGE = DOCS.parent / "cann_async"
PAGE = DOCS / "compatibility.md"

REASONS = {
    "await `Stream.memcpy_batch`": "aclrtMemcpyBatch",
    "later, with graph capture": """
        aclmdlRICaptureBegin aclmdlRICaptureGetInfo aclmdlRICaptureThreadExchangeMode aclmdlRICaptureEnd
        aclmdlRICaptureTaskGrpBegin aclmdlRICaptureTaskGrpEnd aclmdlRICaptureTaskUpdateBegin
        aclmdlRICaptureTaskUpdateEnd aclmdlRIBuildBegin aclmdlRIBindStream aclmdlRIEndTask aclmdlRIBuildEnd
        aclmdlRIUnbindStream aclmdlRIExecute aclmdlRIExecuteAsync aclmdlRIDestroy aclmdlRIAbort
        aclrtRecordEventWithFlag aclrtStreamWaitEventWithFlag
        """,
    "later, with allocators of the user": "aclrtAllocatorGetByStream",
    "rarely used, and not in pyACL either": """
        aclsysGetVersionNum aclsysGetVersionStr aclrtStreamGetFlags aclrtSubscribeHostFunc aclrtProcessHostFunc
        aclrtUnSubscribeHostFunc
        """,
    "only for streams that are used from the device side": "aclrtStreamStop",
    "share physical memory instead, `PhysicalMemory.export`; the rest of one device is of one process": """
        aclrtIpcGetEventHandle aclrtIpcOpenEventHandle
        """,
    "kernels are Python functions, with no binary to load and no function to look up": """
        aclrtBinaryGetFunctionByEntry aclrtBinarySetExceptionCallback aclrtGetFuncBySymbol aclrtGetFunctionAttribute
        """,
    "arguments are passed as Python passes them": "aclrtGetArgsFromExceptionInfo",
    "memory waits by itself for the work that uses it": "aclrtFreeWithDevSync aclrtFreeHostWithDevSync",
}
"""Why a call of tier 1 or 2 has no answer here; a call of tier 3 may stand here as well."""

PYACL = """
## pyACL programs

`cann-async run program.py` and `cann_async.acl.install()` give programs the modules `acl`, `acl.rt`, `acl.util` and,
of `acl.media`, `dvpp_malloc` and `dvpp_free`: all 213 functions of pyACL for the runtime, with their arguments, results
and codes. There is nothing else: no `acl.mdl`, `acl.op`, `acl.blas`, `acl.prof`, and no media processing; a program
that needs one gets an AttributeError.

What a program may notice:

- `acl.rt.get_run_mode()` is 1, yet device memory can be read directly, as programs for run mode 0 do.
- `acl.rt.free` takes a buffer out of use at once; work that is queued keeps what it uses.
- A launch runs the Python kernel that is registered under the function's name; what stands in the binary does not
  matter. `acl.rt.launch_kernel_with_config` takes attributes as `{"id": number, "value": value}`.
- The signatures of 18 functions are not published (`allocator_*`, notifies); they follow those of C.
- Streams with the flags PERSISTENT and DEVICE_USE_ONLY, events for the device only, for graphs and for other processes,
  another priority for a stream that is there, and a comparison as reduction are 207000.
- Groups of CPUs, caches, pages, and memory that needs repair do not exist: the calls answer as chips without them do.

### Programs that were run

As they are, on the wall clock and on the virtual clock; both ended alike.

| Repository, commit | Path | How it was run | How it ended |
|---|---|---|---|
| Ascend/samples, fc2aea93e4 | `python/level1_single_api/1_acl/2_memory_management/memcpy_host_device_async_python` | 4096 bytes, cycles bounded | "run success!" |
| | `…/memcpy_host_device_python` | 4096 bytes, cycles bounded | right data, all memory given back |
| | | the same with `--write_back_host --memory_reuse` and two cycles or more before a release | loops for ever: it frees its buffer and then sets it again, which is 107000 |
| | `…/memcpy_host_DVPP_python` | 4096 bytes, cycles bounded | "run success!" |
| | `python/level1_single_api/1_acl/4_blas/acl_operator_add` | as it is | AttributeError: it needs `acl.op` |
| | `python/common/acllite` (resource, utils, image, dvpp_vdec) | drivers: its copies, its resource list and threads; its decoder with the media calls replaced | all checks hold, nothing is left over |
| bazige/ascendfly, cb176fd35b | `ascend/resource`, `ascend/data`, `ascend/video/vdec.py` | drivers of contexts, memory and arrays with 2 devices, and of the decoder as above | all checks hold |
| | `tests/context_test.py`, `tests/ascendarray_test.py` | as they are, with 16 devices | they pass |
| ktuna26/PyACL-Samples, 4441bc29ea | `Common/acllite` | the same drivers as above | all checks hold, nothing is left over |
""".strip("\n").splitlines()  # noqa: E501  # rows of a table

Calls = list[dict[str, str | int]]
MIRRORS = re.compile(r"\bmirrors\b(.*?)(?:\.\s|\.?$)", re.IGNORECASE | re.DOTALL)


def mirrored(package: Path) -> dict[str, list[str]]:
    """Give for each call of CANN the public names whose docstrings say that they mirror it."""
    exported = set(re.findall(r" as (\w+)$", (package / "__init__.py").read_text(encoding="utf-8"), re.MULTILINE))
    modules = {
        file.stem: ast.parse(file.read_text(encoding="utf-8")).body
        for file in sorted(package.glob("*.py"))
        if not file.name.startswith("_") and file.name != "sync.py"  # a twin has no names of its own
    }
    heirs = {
        base.id: node.name
        for node in itertools.chain(*modules.values())
        if isinstance(node, ast.ClassDef) and node.name in exported
        for base in node.bases
        if isinstance(base, ast.Name) and base.id not in exported
    }
    found: dict[str, list[str]] = {}
    for module, body in modules.items():
        for name, docstring in _documented(body):
            first = re.split(r"\W", name)[0]
            shown = name if first in exported else f"{module}.{name}"
            if first in heirs:
                shown = heirs[first] + name.removeprefix(first)
            for sentence in MIRRORS.findall(docstring):
                for call, suffix in re.findall(r"\b(acl\w+)(?:\[(\w+)\])?", sentence):
                    for one in dict.fromkeys((call, call + suffix)):
                        places = found.setdefault(one, [])
                        if shown not in places:
                            places.append(shown)
    for file in sorted((package / "_acl").glob("*.py")):
        for name, docstring in _of_pyacl(ast.parse(file.read_text(encoding="utf-8"))):
            for sentence in MIRRORS.findall(docstring):
                for call in re.findall(r"\bacl\w+", sentence):
                    found.setdefault(call, []).append(f"acl.{name}")
    return found


def _of_pyacl(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Give the functions of pyACL with their docstrings: decorated ones, and those that are made in rows."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Name) and mark.func.id == "pyacl":
                    yield ast.literal_eval(mark.args[0]), ast.get_docstring(node) or ""
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name):
            given = [one.value for one in node.value.args if isinstance(one, ast.Constant)]
            if node.value.func.id == "_same_number":
                yield f"rt.{given[0]}", str(given[1])
            elif node.value.func.id == "_setter":
                yield f"rt.allocator_set_{given[0]}_to_desc", f"Mirrors {given[1]}."


def _documented(body: list[ast.stmt], owner: str = "") -> Iterator[tuple[str, str]]:
    """Give the public names of a module or class with their docstrings, those of attributes too."""
    for number, node in enumerate(body):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            is_property = any(isinstance(mark, ast.Name) and mark.id == "property" for mark in node.decorator_list)
            if not node.name.startswith("_"):
                yield owner + node.name + ("" if is_property else "()"), ast.get_docstring(node) or ""
            elif node.name == "__init__":
                yield from _documented(node.body, owner)
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield owner + node.name, ast.get_docstring(node) or ""
            yield from _documented(node.body, f"{owner}{node.name}.")
        elif isinstance(node, ast.Assign | ast.AnnAssign) and number + 1 < len(body):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            name = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "_")
            after = body[number + 1]
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and not name.startswith("_"):
                yield owner + name, str(after.value.value)


def problems(calls: Calls, found: dict[str, list[str]], reasons: dict[str, str]) -> list[str]:
    """Say what does not fit together; an empty list if everything does."""
    excused = [call for names in reasons.values() for call in names.split()]
    known = {call["name"] for call in calls}
    wanted = [str(call["name"]) for call in calls if call["tier"] in (1, 2)]
    return [
        *(f"{call}: {', '.join(found[call])} mirrors it, and CANN has no such call" for call in found.keys() - known),
        *(f"{call} has a reason, and CANN has no such call" for call in excused if call not in known),
        *(f"{call} has two reasons" for call in sorted(set(excused)) if excused.count(call) > 1),
        *(
            f"{call}: {', '.join(found[call])} mirrors it, so its reason in docs/compatibility.py must go"
            for call in excused
            if call in found
        ),
        *(
            f"{call}: no docstring says that it is mirrored, and docs/compatibility.py has no reason why not"
            for call in wanted
            if call not in found and call not in excused
        ),
    ]


def page(calls: Calls, found: dict[str, list[str]], reasons: dict[str, str]) -> str:
    """Write the page."""
    why = {call: reason for reason, names in reasons.items() for call in names.split()}
    main = [call for call in calls if call["tier"] in (1, 2)]
    answered = sum(call["name"] in found for call in main)
    lines = [
        "# Which calls of CANN's runtime are there",
        "",
        "Written by `python docs/compatibility.py` from the docstrings of the package; do not edit it.",
        "",
        f"Tier 1 is what nearly every program uses, tier 2 what larger ones use: of these {len(main)} calls {answered}",
        "have an answer under a name of this package; for the others the table says why not. Tier 3 is the rest.",
        "Every name is in `cann_async`; what is awaited there blocks in `cann_async.sync`. Names that begin with",
        "`acl.` are those of [pyACL](#pyacl-programs).",
    ]
    for group in dict.fromkeys(call["group"] for call in main):
        lines += ["", f"## {_title(str(group))}", "", "| CANN | tier | here |", "| --- | --- | --- |"]
        for call in main:
            if call["group"] == group:
                name = str(call["name"])
                here = ", ".join(f"`{place}`" for place in found[name]) if name in found else f"none: {why[name]}"
                lines.append(f"| `{name}` | {call['tier']} | {here} |")
    lines += ["", "## Tier 3", ""]
    rest = [call for call in calls if call["tier"] == 3]
    lines += [
        f"{len(rest)} calls that few programs use. Those that have an answer nevertheless stand first; the others",
        "have none.",
        "",
        *(
            f"- `{call['name']}`: {', '.join(map('`{}`'.format, found[str(call['name'])]))}"
            for call in rest
            if call["name"] in found
        ),
        *(
            f"- {_title(str(group))}: "
            + ", ".join(f"`{call['name']}`" for call in rest if call["group"] == group and call["name"] not in found)
            for group in dict.fromkeys(call["group"] for call in rest)
        ),
    ]
    return "\n".join([*lines, "", *PYACL]) + "\n"


def _title(group: str) -> str:
    """Give the name of a group without its number in CANN's manual."""
    name = re.sub(r"^[\d-]+ | \(.*\)$", "", group)
    return name[0].upper() + name[1:]


def main(arguments: list[str]) -> str | None:
    """Write the page, or check it; give what is wrong."""
    if arguments not in ([], ["--check"]):
        return __doc__
    calls: Calls = json.loads((DOCS / "cann-api.json").read_text(encoding="utf-8"))
    found = mirrored(PACKAGE)
    if wrong := problems(calls, found, REASONS):
        return "\n".join(wrong)
    text = page(calls, found, REASONS)
    if not arguments:
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        return "docs/compatibility.md is not up to date: run python docs/compatibility.py"
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
