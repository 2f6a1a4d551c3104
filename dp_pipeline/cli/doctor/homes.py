"""What the doctor looks at in a home: releases beside the declarations of today, what killed
runs left behind, the ledger and its head, permissions, formats.

Only the leftovers are ever deleted. No Dagster is imported, and nothing is made.
"""

from __future__ import annotations

import json
import os
import shlex
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from dp_pipeline import __version__, files
from dp_pipeline.cli.doctor import Finding, collected
from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.discovery import dataset_files
from dp_pipeline.config.errors import follow_links
from dp_pipeline.config.formats import FORMAT, require_format
from dp_pipeline.config.parameters import fact_text, fact_values, texts_of
from dp_pipeline.config.parser import load_spec
from dp_pipeline.ledger import Entry
from dp_pipeline.ledger.entries import blocks_of
from dp_pipeline.ledger.head import Head
from dp_pipeline.orchestration.instance import dagster_folder
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.releases.domain_release import NAME as DOMAIN
from dp_pipeline.releases.domain_release import DomainRelease, with_discovered
from dp_pipeline.releases.epsilon_release import EpsilonRelease
from dp_pipeline.releases.home import HEAD_VARIABLE, Home
from dp_pipeline.releases.k_anonymous_release import KAnonymousRelease
from dp_pipeline.releases.noisy_release import NoisyRelease
from dp_pipeline.releases.release import Release
from dp_pipeline.releases.store import BUNDLE_FILE
from dp_pipeline.results.bundle import K_ANONYMITY, REFINED_FROM, REFINES, Key

_ENDS = {"settled", "dead"}


@dataclass(frozen=True)
class Charged:
    """One release.

    begun   the row that charged it
    state   ``settled``, ``dead`` or ``unfinished``
    """

    begun: Entry
    state: str

    @property
    def key(self) -> str:
        """Its release key."""
        return str(self.begun.key)

    @property
    def facts(self) -> Mapping[str, str]:
        """What was written when it was charged."""
        return self.begun.facts

    @property
    def windows(self) -> tuple[str, ...]:
        """The windows that it was charged to; none where rows are not cut."""
        return blocks_of(self.facts)

    @property
    def is_k_anonymous(self) -> bool:
        """Whether it is a k-anonymous table."""
        return K_ANONYMITY in self.facts

    @property
    def is_domain(self) -> bool:
        """Whether it is a discovered domain."""
        return self.facts.get("model") == DOMAIN

    @property
    def release_class(self) -> type[Release]:
        """What makes releases of its kind."""
        if self.is_domain:
            return DomainRelease
        return KAnonymousRelease if self.is_k_anonymous else EpsilonRelease

    @property
    def command(self) -> str:
        """What finishes it, or gives it again."""
        of = self.facts.get("dataset", "")
        if self.is_domain:
            return f"dp-pipeline run {of}"
        if self.is_k_anonymous:
            name, k = self.facts["model"], self.facts["k"]
            return f"dp-pipeline anonymize {of} --method {name} --k {k}"
        name, epsilon = self.facts["model"], self.facts["epsilon"]
        windows, refined = self.windows, self.facts.get(REFINED_FROM)
        ends = f" --window {windows[-1]} --span {len(windows)}" if windows else ""
        refine = f" --refine {refined}" if refined else ""
        return f"dp-pipeline run {of}{ends} --model {name} --epsilon {epsilon}{refine}"

    def release(self, spec: DatasetSpec, home: Home) -> Release:
        """The same release as it is declared today, with the domain of its snapshot.

        NotPrepared where that is to be discovered, and was not.
        """
        name = self.facts["model"]
        if self.is_domain:
            return DomainRelease(spec, home, self.facts["noise"])
        read = Snapshot(home.raw / spec.name / self.facts["snapshot"], b"")
        spec = with_discovered(spec, home, snapshot=read)
        if self.is_k_anonymous:
            return KAnonymousRelease(spec, name, int(self.facts["k"]), home)
        epsilon = Fraction(self.facts["epsilon"])
        span = max(1, len(self.windows))
        return EpsilonRelease(spec, name, epsilon, home, self.facts["noise"], span=span)

    def key_of_today(self, spec: DatasetSpec, home: Home) -> Key:
        """The key that this program gives the same question now."""
        release, snapshot = self.release(spec, home), self.facts["snapshot"]
        if isinstance(release, NoisyRelease):
            drawn = release.draw_key(snapshot, int(self.facts["replicate"]))
            return drawn.refining(self.facts.get(REFINES, ""))
        # Of a snapshot only its name enters a key.
        return release.key(Snapshot(home.raw / spec.name / snapshot, b""))

    def is_declared(self, spec: DatasetSpec) -> bool:
        """Whether the file of today still asks for it."""
        model = self.facts["model"]
        if self.is_domain:
            return bool(spec.to_discover)
        if self.is_k_anonymous:
            declared = spec.k_anonymity
            return declared is not None and model in declared.methods
        return model in spec.models and Fraction(self.facts["epsilon"]) in spec.partitions

    def changes(self, spec: DatasetSpec, home: Home) -> list[str]:
        """Why the key of today is another one, in words."""
        told = []
        release = self.release(spec, home)
        if self.facts["declaration"] != release.spec.digest:
            told.append("what is measured of the rows is declared otherwise")
        if isinstance(release, EpsilonRelease):
            told += _differences(self.facts["measuring"], texts_of(release.model, measuring=True))
            declared = release.evaluation
            now = "none" if declared is None else epsilon_text(declared)
            if self.facts["evaluation"] != now:
                told.append(f"evaluation: was {self.facts['evaluation']}, is {now}")
        if self.begun.population != spec.population:
            told.append(f"population: was {self.begun.population}, is {spec.population}")
        return told


def charged_releases(entries: tuple[Entry, ...]) -> Iterator[Charged]:
    """Every release that was charged, in order."""
    ends = {one.key: one.event for one in entries if one.event in _ENDS}
    for one in entries:
        if one.event == "reserve":
            yield Charged(one, ends.get(one.key, "unfinished"))


def _differences(stored: str, today: Mapping[str, str]) -> list[str]:
    """What parameters were when they were charged, and are now."""
    before, now = fact_values(stored) or {}, fact_values(fact_text(today)) or {}
    return [
        f"{name}: was {before.get(name, 'not there')}, is {now.get(name, 'not there')}"
        for name in sorted({*before, *now})
        if before.get(name, "not there") != now.get(name, "not there")
    ]


LEFTOVERS = "leftovers"


def left_behind(home: Home) -> Iterator[Finding]:
    """Temporary files and folders without a writer, and snapshots that were never finished."""
    found = [*files.leftovers(home.root, below=True), *files.leftovers(_elsewhere(home))]
    for path in found:
        yield Finding(
            LEFTOVERS, "fault", f"{path}: left by a killed run", "dp-pipeline doctor --sweep"
        )
    if not found:
        yield Finding(LEFTOVERS, "ok", "no temporary file or folder of a killed run")
    yield from _half_read(home)


def sweep_all(home: Home) -> list[Path]:
    """Delete the temporary files and folders of killed runs; never a bundle, a transcript, a
    snapshot or anything that a living process writes. Gives what was deleted.
    """
    return [*files.sweep(home.root, below=True), *files.sweep(_elsewhere(home))]


def _elsewhere(home: Home) -> Path:
    """The folder of the ledger's head, where that is not in the home; else one of no files."""
    folder = Head.of(home.ledger_folder, named=home.head).path.parent
    is_inside = folder.is_relative_to(follow_links(home.root))
    return home.ledger_folder / "locks" if is_inside else folder


def _half_read(home: Home) -> Iterator[Finding]:
    """Snapshots without the last thing that is written: nothing is ever released from them."""
    for folder in sorted(path for path in home.raw.glob("[!.]*/*") if path.is_dir()):
        if not _is_finished(folder / "manifest.json"):
            dataset = folder.parent.name
            yield Finding(
                LEFTOVERS,
                "note",
                f"snapshot {dataset}/{folder.name}: its rows were never read to the end",
                f"dp-pipeline run {dataset} --snapshot {folder.name}",
            )


def _is_finished(manifest: Path) -> bool:
    """Whether a manifest says so; one that cannot be read is the formats' matter."""
    if not manifest.is_file():
        return False
    try:
        stored = json.loads(manifest.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return True
    return not isinstance(stored, dict) or bool({"ingested_at", "retired"} & set(stored))


LEDGERS = "ledger"


def ledger_and_head(home: Home) -> Iterator[Finding]:
    """The newest row, verified, and the external checkpoint."""
    ledger = home.ledger
    head = Head.of(home.ledger_folder, named=home.head)
    stored = head.read()
    tip = ledger.verify()
    if stored is None and not tip.sequence:
        yield Finding(LEDGERS, "ok", "no ledger yet: nothing was ever charged here")
        return
    where = "rows on a server, format" if home.database is not None else "format"
    yield Finding(
        LEDGERS,
        "ok",
        f"{where} {ledger.format()}; {tip.sequence} rows verified, newest {tip.hash[:16]}",
    )
    if stored is None:
        return
    behind = tip.sequence - stored.sequence
    step = "in step" if not behind else f"{behind} rows behind, which the next charge mends"
    yield Finding(LEDGERS, "ok" if not behind else "note", f"head {head.path}: {step}")
    yield from _disk(home, head.path)


def _disk(home: Home, head: Path) -> Iterator[Finding]:
    if head.stat().st_dev != home.ledger_folder.stat().st_dev:
        return
    where = "beside the keys" if home.database is not None else "on the disk of the ledger"
    yield Finding(
        LEDGERS,
        "note",
        f"head {head} is {where}: who puts back an older copy of that disk is not noticed",
        f"name a file on another disk in {HEAD_VARIABLE}, and move the head there",
    )


PERMISSIONS = "permissions"


def private_places(home: Home) -> Iterator[Finding]:
    """One line a folder or file that others may enter or read, with the command that mends it."""
    places = [path for path in _places(home) if path.exists()]
    open_places = [path for path in places if _is_open(path)]
    for path in open_places:
        yield Finding(
            PERMISSIONS,
            "fault",
            f"{path}: expected for its owner alone, got {stat.filemode(path.stat().st_mode)}",
            f"chmod go-rwx {shlex.quote(str(path))}",
        )
    for path in places:
        if path.stat().st_uid != os.geteuid():
            owner = f"user {path.stat().st_uid}"
            yield Finding(PERMISSIONS, "fault", f"{path}: expected to be yours, got one of {owner}")
    if not open_places:
        yield Finding(
            PERMISSIONS, "ok", f"{len(places)} private folders and files are their owner's"
        )


def _places(home: Home) -> Iterator[Path]:
    ledger = home.ledger_folder
    # Before its first use it may be as git has made it: there is nothing private in it.
    if any(folder.exists() for folder in home.folders):
        yield home.root
    yield from (ledger, ledger / "keys", home.raw, dagster_folder(home))
    yield Head.of(ledger, named=home.head).path
    yield from sorted(ledger.glob("ledger.sqlite*"))
    yield from sorted((ledger / "keys").glob("*"))
    # What lies deeper is reached through these alone.
    yield from sorted(path for path in home.raw.glob("*") if path.is_dir())


def _is_open(path: Path) -> bool:
    return bool(stat.S_IMODE(path.stat().st_mode) & (stat.S_IRWXG | stat.S_IRWXO))


FORMATS = "formats"


def stored_formats(home: Home) -> Iterator[Finding]:
    """One line a kind with how many there are of each format, and one line each of what is not
    read.
    """
    bundles = sorted(home.released.rglob(BUNDLE_FILE))
    transcripts = sorted(home.released.rglob("transcript.jsonl"))
    manifests = sorted(home.raw.glob("*/*/manifest.json"))
    documents = [*home.internal.rglob("*.json"), *home.released.rglob("partition-*.json")]
    yield from _tally("bundles", bundles, _whole_file)
    yield from _tally("transcripts", transcripts, _first_line)
    yield from _tally("manifests", manifests, _whole_file)
    yield from _tally("documents", sorted(documents), _whole_file)
    yield from _makers(manifests)


def dataset_formats() -> Iterator[Finding]:
    """The data set files that can be read, and one line each of the others."""
    found: list[Finding] = []
    good = 0
    for name, path in dataset_files().items():
        with collected(found, FORMATS, name):
            load_spec(path)
            good += 1
    yield Finding(FORMATS, "ok", f"data set files: {good} of format {FORMAT}")
    yield from found


def _tally(
    kind: str, paths: Iterable[Path], number_in: Callable[[Path], object]
) -> Iterator[Finding]:
    """How many there are of each format."""
    found: list[Finding] = []
    counts: Counter[str] = Counter()
    for path in paths:
        with collected(found, FORMATS, str(path)):
            number = number_in(path)
            counts["none" if number is None else str(number)[:20]] += 1
            require_format(number, of=str(path))
    told = ", ".join(f"{count} of format {one}" for one, count in sorted(counts.items()))
    yield Finding(FORMATS, "ok", f"{kind}: {told or 'none yet'}")
    yield from found


def _makers(manifests: Iterable[Path]) -> Iterator[Finding]:
    """Which versions read the snapshots; a retired one does not say."""
    counts: Counter[str] = Counter()
    for path in manifests:
        # What cannot be read is said once, with its format.
        with collected([], FORMATS, str(path)):
            versions = json.loads(path.read_text(encoding="utf-8")).get("versions", {})
            counts[str(versions.get("dp_pipeline", "that they do not say"))[:20]] += 1
    for version, many in sorted(counts.items()):
        text = f"{many} snapshots by dp_pipeline {version}; this is {__version__}"
        yield Finding(FORMATS, "ok", text)


def _whole_file(path: Path) -> object:
    return _format_in(json.loads(path.read_text(encoding="utf-8")))


def _first_line(path: Path) -> object:
    with path.open("rb") as file:
        return _format_in(json.loads(file.readline())["record"])


def _format_in(fields: object) -> object:
    return fields.get("format") if isinstance(fields, dict) else None
