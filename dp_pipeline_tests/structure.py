"""The structure of the package in figures: how it is cut, and how far ε travels to its noise.

.venv/bin/python -m dp_pipeline_tests.structure [folder of a checkout, default this one]

files, lines          every file of the package; median and 90th percentile of lines
imports               lines of import statements, share of the lines that are neither blank,
                      comment nor docstring
called once           private functions and methods that one place of their file names
class names           names that two or more classes of the package share
circles               groups of files that import each other, late imports counted
long headers          files whose docstring has three paragraphs or more
tests                 files and lines of the tests
rooms                 lines, and lines of code, of every folder
one sibling importer  files that exactly one file imports, which lies in the same folder
a release             ``dp-pipeline run census --model independent``, the raw rows prepared:
                      functions of the package that run, and their files
from ε to its noise   the deepest stack of frames from ``publish`` to the noise source
"""

import ast
import os
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path

import networkx as nx

# ruff: noqa: T201


PACKAGE, TESTS = "dp_pipeline", "dp_pipeline_tests"
NEWLINE = repeat("\n")


def modules(root: Path) -> dict[str, tuple[Path, str, ast.Module]]:
    """Name → path, text and tree of every file of the package."""
    found = {}
    for path in sorted((root / PACKAGE).rglob("*.py")):
        name = ".".join(path.relative_to(root).with_suffix("").parts)
        text = path.read_text(encoding="utf-8")
        found[name.removesuffix(".__init__")] = (path, text, ast.parse(text))
    return found


def code_lines(text: str, tree: ast.Module) -> set[int]:
    """Numbers of the lines that are neither blank, comment nor docstring."""
    lines = enumerate(text.splitlines(), 1)
    code = {at for at, line in lines if line.strip() and not line.strip().startswith("#")}
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_text and isinstance(node.value.value, str):  # type: ignore[attr-defined]
            code -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))  # type: ignore[attr-defined]
    return code


def imported(tree: ast.Module, known: set[str]) -> Iterator[str]:
    """Modules of the package that a file imports, at its top or late."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for name in node.names:
                inner = f"{node.module}.{name.name}"
                yield from [one for one in (inner, node.module) if one in known][:1]
        if isinstance(node, ast.Import):
            yield from [name.name for name in node.names if name.name in known]


def with_one_sibling_importer(found: dict[str, tuple[Path, str, ast.Module]]) -> list[str]:
    """Names of the files that exactly one file imports, from beside it."""
    importers: dict[str, set[str]] = {name: set() for name in found}
    for name, (_, _, tree) in found.items():
        for other in imported(tree, set(found)):
            if other != name:
                importers[other].add(name)
    return [
        name
        for name, by in importers.items()
        if len(by) == 1
        and found[name][0].name != "__init__.py"
        and found[next(iter(by))][0].parent == found[name][0].parent
    ]


def called_once(found: dict[str, tuple[Path, str, ast.Module]]) -> int:
    """Private functions and methods that are named in exactly one other place of their file."""
    many = 0
    for _, _, tree in found.values():
        names = Counter(
            node.id if isinstance(node, ast.Name) else node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Name | ast.Attribute)
        )
        many += sum(
            names[node.name] == 1
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef)
            and node.name.startswith("_")
            and not node.name.startswith("__")
        )
    return many


def shared_class_names(found: dict[str, tuple[Path, str, ast.Module]]) -> set[str]:
    """Return the names that two or more classes of the package have."""
    names = Counter(
        node.name
        for _, _, tree in found.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    )
    return {name for name, count in names.items() if count > 1}


def import_circles(found: dict[str, tuple[Path, str, ast.Module]]) -> list[set[str]]:
    """Return the groups of files that import each other, at their top or late.

    The package itself is left out: every file may take the version from it.
    """
    graph = nx.DiGraph(
        (name, other)
        for name, (_, _, tree) in found.items()
        for other in imported(tree, set(found) - {PACKAGE, name})
    )
    return [group for group in nx.strongly_connected_components(graph) if len(group) > 1]


def long_headers(found: dict[str, tuple[Path, str, ast.Module]]) -> list[str]:
    """Return the files whose docstring has three paragraphs or more."""
    return [
        name
        for name, (_, _, tree) in found.items()
        if (ast.get_docstring(tree) or "").count("\n\n") >= 2
    ]


PROFILED = """
import os, sys, threading

root = os.path.join(sys.argv[1], "dp_pipeline", "")
noise = os.path.join("gate", "noise.py")
ran, deepest, publishing = set(), [], []


def profile(frame, event, _):
    code = frame.f_code
    if event not in ("call", "return") or not code.co_filename.startswith(root):
        return
    if code.co_name == "publish" and code.co_filename.endswith(("publish.py", "publishing.py")):
        publishing.append(1) if event == "call" else publishing.pop()
    if event == "return" or not publishing:
        return
    ran.add((code.co_filename, code.co_qualname))
    if not code.co_filename.endswith(noise):
        return
    frames = []
    while frame is not None and frame.f_code.co_name != "publish":
        if frame.f_code.co_filename.startswith(root):
            frames.append(frame.f_code)
        frame = frame.f_back
    if frame is None or any(one.co_filename.endswith(noise) for one in frames[1:]):
        return
    if len(frames) >= len(deepest):
        deepest[:] = [*frames, frame.f_code]


from dp_pipeline.cli import main

sys.argv[1:] = ["run", "census", "--model", "independent", "--epsilon", os.environ["EPSILON"]]
if "PROFILE" in os.environ:
    sys.setprofile(profile)
    threading.setprofile(profile)
try:
    main()
finally:
    sys.setprofile(None)
    files = {code.co_filename for code in deepest}
    print("PROFILED", len({file for file, _ in ran}), len(ran), len(deepest), len(files))
    if "FRAMES" in os.environ:
        for code in deepest:
            print(code.co_filename[len(root):], code.co_qualname)
"""


def a_release(root: Path) -> list[str]:
    """Files and functions that ran, frames and files from ``publish`` to the noise source."""
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "DP_PIPELINE_HOME": home, "PYTHONPATH": str(root)}
        for more in ({"EPSILON": "0.1"}, {"EPSILON": "0.5", "PROFILE": "yes"}):
            done = subprocess.run(
                [sys.executable, "-c", PROFILED, str(root)],
                cwd=root,
                env={**environment, **more},
                capture_output=True,
                text=True,
                check=True,
            )
    found = done.stdout[done.stdout.index("PROFILED") :].splitlines()
    print(*found[1:], sep="\n", end="\n" if found[1:] else "")
    return found[0].split()[1:]


def print_rooms(found: dict[str, tuple[Path, str, ast.Module]]) -> None:
    """Print the lines, and the lines of code, of every folder of the package."""
    lines, code = Counter[str](), Counter[str]()
    for name, (_, text, tree) in found.items():
        room = [*name.split("."), ""][1]
        lines[room] += len(text.splitlines())
        code[room] += len(code_lines(text, tree))
    for room in sorted(lines):
        print(f"  {room:20}{lines[room]:6} {code[room]:6}")


def main(root: Path) -> None:
    """Print the figures of one checkout."""
    found = modules(root)
    lines = sorted(len(text.splitlines()) for _, text, _ in found.values())
    every = sum(lines)
    print(f"files                 {len(found)}")
    print(f"lines                 {every}")
    print(f"median, p90           {statistics.median(lines):.0f}, {lines[int(len(lines) * 0.9)]}")
    code = imports = 0
    for _, text, tree in found.values():
        of_code = code_lines(text, tree)
        of_imports = {
            at
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for at in range(node.lineno, (node.end_lineno or node.lineno) + 1)
        }
        code, imports = code + len(of_code), imports + len(of_code & of_imports)
    print(f"imports               {imports / code:.1%} of {code} lines of code")
    print(f"called once           {called_once(found)}")
    print(f"class names           {len(shared_class_names(found))}")
    circles = import_circles(found)
    print(f"circles               {len(circles)} of {sum(map(len, circles))} files")
    for circle in circles:
        print("  ", *sorted(circle))
    print(f"long headers          {len(long_headers(found))} files")
    alone = with_one_sibling_importer(found)
    share = sum(len(found[name][1].splitlines()) for name in alone) / every
    print(f"one sibling importer  {len(alone)} files, {share:.0%} of the lines")
    tests = [path.read_text(encoding="utf-8") for path in (root / TESTS).rglob("*.py")]
    print(f"tests                 {len(tests)} files, {sum(map(str.count, tests, NEWLINE))} lines")
    print_rooms(found)
    files, functions, frames, passed = a_release(root)
    print(f"a release             runs {functions} functions of {files} files")
    print(f"from ε to its noise   {frames} frames in {passed} files")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1]).resolve())
