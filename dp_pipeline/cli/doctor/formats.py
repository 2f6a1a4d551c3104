"""Which formats are stored, and whether this program reads them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from dp_pipeline import __version__
from dp_pipeline.cli.doctor.finding import Finding, collected
from dp_pipeline.ledger.home import Home
from dp_pipeline.orchestration.storage import BUNDLE_FILE
from dp_pipeline.schema import formats
from dp_pipeline.schema.discovery import dataset_files
from dp_pipeline.schema.formats import require_format
from dp_pipeline.schema.parser import load_spec

TOPIC = "formats"


def stored_formats(home: Home) -> Iterator[Finding]:
    """One line a kind with how many there are of each format, and one line each of what is not
    read.
    """
    bundles = sorted(home.released.rglob(BUNDLE_FILE))
    transcripts = sorted(home.released.rglob("transcript.jsonl"))
    manifests = sorted(home.raw.glob("*/*/manifest.json"))
    documents = [*home.internal.rglob("*.json"), *home.released.rglob("partition-*.json")]
    yield from _tally("bundles", bundles, formats.BUNDLE, _whole_file)
    yield from _tally("transcripts", transcripts, formats.TRANSCRIPT, _first_line)
    yield from _tally("manifests", manifests, formats.MANIFEST, _whole_file)
    yield from _tally("documents", sorted(documents), formats.DOCUMENT, _whole_file)
    yield from _makers(manifests)


def dataset_formats() -> Iterator[Finding]:
    """The data set files that can be read, and one line each of the others."""
    found: list[Finding] = []
    good = 0
    for name, path in dataset_files().items():
        with collected(found, TOPIC, name):
            load_spec(path)
            good += 1
    yield Finding(TOPIC, "ok", f"data set files: {good} of format {formats.DATASET_FILE}")
    yield from found


def _tally(
    kind: str, paths: Iterable[Path], expected: int, number_in: Callable[[Path], object]
) -> Iterator[Finding]:
    """How many there are of each format."""
    found: list[Finding] = []
    counts: Counter[str] = Counter()
    for path in paths:
        with collected(found, TOPIC, str(path)):
            number = number_in(path)
            counts["none" if number is None else str(number)[:20]] += 1
            require_format(number, expected, of=str(path), older="use the version that made it")
    told = ", ".join(f"{count} of format {one}" for one, count in sorted(counts.items()))
    yield Finding(TOPIC, "ok", f"{kind}: {told or 'none yet'}")
    yield from found


def _makers(manifests: Iterable[Path]) -> Iterator[Finding]:
    """Which versions read the snapshots; a retired one does not say."""
    counts: Counter[str] = Counter()
    for path in manifests:
        # What cannot be read is said once, with its format.
        with collected([], TOPIC, str(path)):
            versions = json.loads(path.read_text(encoding="utf-8")).get("versions", {})
            counts[str(versions.get("dp_pipeline", "that they do not say"))[:20]] += 1
    for version, many in sorted(counts.items()):
        text = f"{many} snapshots by dp_pipeline {version}; this is {__version__}"
        yield Finding(TOPIC, "ok", text)


def _whole_file(path: Path) -> object:
    return _format_in(json.loads(path.read_text(encoding="utf-8")))


def _first_line(path: Path) -> object:
    with path.open("rb") as file:
        return _format_in(json.loads(file.readline())["record"])


def _format_in(fields: object) -> object:
    return fields.get("format") if isinstance(fields, dict) else None
