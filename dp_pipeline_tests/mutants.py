"""Plant one fault after another in a copy of the package, and record which test catches it.

.venv/bin/python -m dp_pipeline_tests.mutants [part of a name, or of a file ...]

mutants.jsonl holds a line for each fault: its name, file, the text before and after, the test files
that have to catch it, and ``by``: the test that did, "survived", why no test can tell it
("harmless: …"), or null where it was not run to an end since its text was last changed. A run
writes ``by`` anew for the faults that it planted, all of them unless some are named.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

# ruff: noqa: T201

ROOT = Path(__file__).parents[1]
MUTANTS = Path(__file__).with_name("mutants.jsonl")
SECONDS = 900
HARMLESS, SURVIVED = "harmless: ", "survived"


def read_mutants() -> list[dict[str, Any]]:
    """Return every planted fault, in the order of the file."""
    return [json.loads(line) for line in MUTANTS.read_text(encoding="utf-8").splitlines()]


def planted(mutant: dict[str, Any], text: str) -> str:
    """Return the text of a file with the fault; ValueError unless its place is there once."""
    if text.count(mutant["old"]) != 1:
        raise ValueError(f"{mutant['name']}: expected its text once in {mutant['file']}")
    return text.replace(mutant["old"], mutant["new"])


def caught_by(mutant: dict[str, Any], copy: Path) -> str | None:
    """Return the first test that fails with the fault in a copy of the project, if any."""
    path = copy / "dp_pipeline" / mutant["file"]
    sound = path.read_text(encoding="utf-8")
    path.write_text(planted(mutant, sound), encoding="utf-8")
    try:
        # The test that caught it before is asked first: that takes seconds.
        last = [mutant["by"]] if "::" in str(mutant["by"]) else []
        return (failed_test(last, copy) if last else None) or failed_test(
            mutant["tests"].split(), copy
        )
    except subprocess.TimeoutExpired:
        return f"no end within {SECONDS} seconds"
    finally:
        path.write_text(sound, encoding="utf-8")


def failed_test(tests: list[str], copy: Path) -> str | None:
    """Return the first of some tests of a copy of the project that fails, if any."""
    command = [sys.executable, "-m", "pytest", "-xq", "-p", "no:cacheprovider", "--tb=no"]
    selected = ["-m", "not stack and not ui and not study", "-k", "not postgresql"]
    run = subprocess.run(
        [*command, *selected, *(f"dp_pipeline_tests/{test}" for test in tests)],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    failed = [line for line in run.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    # An argument that pytest cannot find is an error too, and no verdict.
    verdicts = [line for line in failed if "::" in line and "not found" not in line]
    if verdicts:
        return verdicts[0].split(" - ")[0].split(maxsplit=1)[1].removeprefix("dp_pipeline_tests/")
    return None


def main(*parts: str) -> int:
    """Plant the faults whose name or file has one of ``parts``; return how many no test caught."""
    mutants, survivors = read_mutants(), 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in ("dp_pipeline", "dp_pipeline_tests", "pyproject.toml"):
            source = ROOT / name
            shutil.copytree(source, copy / name) if source.is_dir() else shutil.copy(source, copy)
        for mutant in mutants:
            if parts and not any(part in mutant["name"] + mutant["file"] for part in parts):
                continue
            reason = mutant["by"] if str(mutant["by"]).startswith(HARMLESS) else SURVIVED
            try:
                mutant["by"] = caught_by(mutant, copy) or reason
            except (OSError, ValueError) as error:
                print(error, flush=True)
                continue
            survivors += mutant["by"] == SURVIVED
            print(mutant["by"], "|", mutant["name"], flush=True)
            lines = (json.dumps(each, ensure_ascii=False) + "\n" for each in mutants)
            MUTANTS.write_text("".join(lines), encoding="utf-8")
    return survivors


if __name__ == "__main__":
    raise SystemExit(min(1, main(*sys.argv[1:])))
