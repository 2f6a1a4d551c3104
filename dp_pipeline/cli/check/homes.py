"""Checks of the files of a home: formats, the ledger and its head, permissions, leftovers."""

import json
import os
import shlex
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from dp_pipeline import __version__, files
from dp_pipeline.cli.check.findings import Finding, collect_error
from dp_pipeline.config.catalogue import dataset_files, load_all
from dp_pipeline.config.formats import FORMAT, require_format
from dp_pipeline.config.parser import load_spec
from dp_pipeline.config.system_errors import follow_links
from dp_pipeline.ledger.head import Head
from dp_pipeline.orchestration.instance import dagster_folder
from dp_pipeline.releases.home import HEAD_VARIABLE, Home
from dp_pipeline.releases.store import BUNDLE_FILE


def check_leftovers(home: Home) -> Iterator[Finding]:
    """Yield a fault for each leftover file or folder of a killed run; if there is none, say so.

    Yield also a note for each snapshot whose rows were not read to the end.
    """
    leftovers = [*files.leftovers(home.root, below=True), *files.leftovers(_head_folder(home))]
    for path in leftovers:
        yield Finding("fault", f"{path} was left by a killed run", "dp-pipeline check --sweep")
    if not leftovers:
        yield Finding("ok", "no temporary file or folder of a killed run")
    for folder in sorted(path for path in home.raw.glob("[!.]*/*") if path.is_dir()):
        if not _is_read_completely(folder / "manifest.json"):
            dataset, window, name = folder.parent.name, "", folder.name
            spec = load_all()[0].get(dataset)
            if spec is not None and spec.windows is not None:
                window, _, name = name.partition(".")
            text = f"snapshot {dataset}/{folder.name}: its rows were never read to the end"
            options = [f" --window {window}" * bool(window), f" --snapshot {name}" * bool(name)]
            yield Finding("note", text, f"dp-pipeline run {dataset}{''.join(options)}")


def sweep_all(home: Home) -> list[Path]:
    """Delete the temporary files and folders of killed runs; return their paths.

    No bundle, transcript or snapshot is deleted, and nothing that a living process writes.
    """
    return [*files.sweep(home.root, below=True), *files.sweep(_head_folder(home))]


def _head_folder(home: Home) -> Path:
    """Return the folder of the ledger's head if it is outside the home, else that of the locks."""
    folder = Head.of(home.ledger_folder, declared=home.head).path.parent
    is_inside = folder.is_relative_to(follow_links(home.root))
    return home.ledger_folder / "locks" if is_inside else folder


def _is_read_completely(manifest: Path) -> bool:
    """Return whether a manifest says that all rows were read or retired; a damaged one counts."""
    if not manifest.is_file():
        return False
    try:
        fields = json.loads(manifest.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return True  # `check_formats` names it.
    return not isinstance(fields, dict) or bool({"ingested_at", "retired"} & set(fields))


def check_ledger(home: Home) -> Iterator[Finding]:
    """Verify the ledger, and yield its newest row, whether its head is in step, and a note if the
    head is on the ledger's disk; without a ledger, that nothing was charged.

    A ledger that fails the verification raises the error of ``verify``.
    """
    ledger, head = home.ledger, Head.of(home.ledger_folder, declared=home.head)
    checkpoint, tip = head.read(), ledger.verify()
    if checkpoint is None and not tip.sequence:
        yield Finding("ok", "no ledger yet: nothing was ever charged here")
        return
    place = "rows on a server, format" if home.database is not None else "format"
    text = f"{place} {ledger.format()}; {tip.sequence} rows verified, newest {tip.hash[:16]}"
    yield Finding("ok", text)
    if checkpoint is None:
        return
    lag = tip.sequence - checkpoint.sequence
    text = f"{lag} rows behind, which the next charge corrects" if lag else "in step"
    yield Finding("note" if lag else "ok", f"head {head.path}: {text}")
    if head.path.stat().st_dev == home.ledger_folder.stat().st_dev:
        place = f"on the disk of the {'ledger' if home.database is None else 'keys'}"
        yield Finding(
            "note",
            f"head {head.path} is {place}: an older copy of that disk would not be noticed",
            f"name a file on another disk in {HEAD_VARIABLE}, and move the head there",
        )


def check_permissions(home: Home) -> Iterator[Finding]:
    """Yield a fault for each private path that others may use, or that another user owns.

    Where others may use none, the number of private paths.
    """
    states = {path: path.stat() for path in _private_paths(home) if path.exists()}
    open_paths = [path for path, state in states.items() if state.st_mode & 0o077]
    for path in open_paths:
        text = f"{path} must be for its owner alone, not {stat.filemode(states[path].st_mode)}"
        yield Finding("fault", text, f"chmod go-rwx {shlex.quote(str(path))}")
    for path, state in states.items():
        if state.st_uid != os.geteuid():
            text = f"{path} belongs to user {state.st_uid}, not to you: have it handed over"
            yield Finding("fault", text)
    if not open_paths:
        yield Finding("ok", f"{len(states)} private folders and files are their owner's")


def _private_paths(home: Home) -> Iterator[Path]:
    ledger = home.ledger_folder
    # Before its first use a home may be as git has made it: there is nothing private in it.
    if any(folder.exists() for folder in home.folders):
        yield home.root
    yield from (ledger, ledger / "keys", home.raw, dagster_folder(home))
    yield Head.of(ledger, declared=home.head).path
    yield from sorted(ledger.glob("ledger.sqlite*"))
    yield from sorted((ledger / "keys").glob("*"))
    # Deeper paths are reached through these alone.
    yield from sorted(path for path in home.raw.glob("*") if path.is_dir())


def check_formats(home: Home) -> Iterator[Finding]:
    """Yield the numbers of stored objects by kind and format, those of snapshots by version of this
    program, and a fault for each object that is unreadable or of an unknown format."""
    manifests = sorted(home.raw.glob("*/*/manifest.json"))
    documents = [*home.internal.rglob("*.json"), *home.released.rglob("partition-*.json")]
    yield from _count_formats("bundles", sorted(home.released.rglob(BUNDLE_FILE)))
    transcripts = sorted(home.released.rglob("transcript.jsonl"))
    yield from _count_formats("transcripts", transcripts, _read_first_record)
    yield from _count_formats("manifests", manifests)
    yield from _count_formats("documents", sorted(documents))
    versions: Counter[str] = Counter()
    for path in manifests:
        # `_count_formats` names the manifests that cannot be read.
        with collect_error([], str(path)):
            recorded = _read_json(path).get("versions", {})
            versions[str(recorded.get("dp_pipeline", "that they do not say"))[:20]] += 1
    for version, count in sorted(versions.items()):
        yield Finding("ok", f"{count} snapshots by dp_pipeline {version}; this is {__version__}")


def check_dataset_files() -> Iterator[Finding]:
    """Yield the number of valid data set files, and a fault for each invalid one."""
    faults: list[Finding] = []
    paths = dataset_files()
    for name, path in paths.items():
        with collect_error(faults, name):
            load_spec(path)
    count = len(paths) - len(faults)
    yield Finding("ok", f"data set files: {count} of format {FORMAT}")
    yield from faults


def _read_json(path: Path) -> dict[str, Any]:
    fields = json.loads(path.read_text(encoding="utf-8"))
    return fields if isinstance(fields, dict) else {}


def _read_first_record(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        fields = json.loads(file.readline())["record"]
    return fields if isinstance(fields, dict) else {}


def _count_formats(
    kind: str, paths: Sequence[Path], read: Callable[[Path], dict[str, Any]] = _read_json
) -> Iterator[Finding]:
    faults: list[Finding] = []
    counts: Counter[str] = Counter()
    for path in paths:
        with collect_error(faults, str(path)):
            number = read(path).get("format")
            counts["none" if number is None else str(number)[:20]] += 1
            require_format(number, of=str(path))
    text = ", ".join(f"{count} of format {number}" for number, count in sorted(counts.items()))
    yield Finding("ok", f"{kind}: {text or 'none yet'}")
    yield from faults
