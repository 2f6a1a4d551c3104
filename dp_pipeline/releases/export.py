"""Bringing a release out of its home: which one, whether it may leave, and into which folder.

Bundle, ledger and public declarations are read, and no row. An export is checked from its own files
before it takes its name: nobody is handed one that does not verify.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.config.dataset import DatasetSpec, Publication
from dp_pipeline.config.errors import Damaged, DeclarationError, NotPrepared, PipelineError, one_of
from dp_pipeline.export.contents import is_cleared, write_contents
from dp_pipeline.export.folder import digest_of_export, files_of, replace_whole
from dp_pipeline.export.verify import verified
from dp_pipeline.ledger import Entry
from dp_pipeline.ledger.entries import blocks_of
from dp_pipeline.releases.domain_release import with_discovered
from dp_pipeline.releases.epsilon_release import EpsilonRelease
from dp_pipeline.releases.home import Home
from dp_pipeline.releases.k_anonymous_release import KAnonymousRelease
from dp_pipeline.releases.release import Release
from dp_pipeline.releases.release_text import reported, write_card
from dp_pipeline.releases.replay import (
    FOLDER,
    level_facts,
    named_snapshot,
    pointed_bundle,
    pointer_path,
    read_document,
)
from dp_pipeline.results.bundle import Bundle


def publications_of(spec: DatasetSpec) -> tuple[Publication, ...]:
    """What a data set file publishes, of the current rows or of each window."""
    return spec.publications or ((spec.publish,) if spec.publish else ())


@dataclass(frozen=True)
class Asked:
    """Which release is to be brought out.

    name     of a model or method; empty: of what the data set publishes
    level    its ε or K as a partition key; empty: of any
    window   of rows that are cut, the last one that it is of; empty: any
    span     how many windows it is of; 0: however many
    """

    name: str
    level: str = ""
    window: str = ""
    span: int = 0

    @classmethod
    def of(
        cls, spec: DatasetSpec, *, name: str = "", epsilon: str = "", k: str = "", window: str = ""
    ) -> Asked:
        """What the options of a command ask for; DeclarationError for what is not declared."""
        published = publications_of(spec)
        known = (*EpsilonRelease.names(spec), *KAnonymousRelease.names(spec))
        if not name and not published:
            raise DeclarationError(
                f"{spec.name}: MODEL: expected a model or method, as the data set file publishes "
                f"nothing, got none: it declares {', '.join(known)}"
            )
        if name and name not in known:
            raise DeclarationError(f"{spec.name}: MODEL: expected {one_of(known, name)}")
        if window:
            spec.at_window(window)
        if not name:
            name, epsilon = published[0].model, epsilon or epsilon_text(published[0].epsilon)
        return cls(name, _level(spec, name, epsilon=epsilon, k=k), window)

    def fits(self, facts: Mapping[str, str], kind: type[Release]) -> bool:
        """Whether a release with these facts is one of those."""
        level, windows = facts.get("k" if kind.FOLDER else "epsilon"), blocks_of(facts)
        return (
            facts.get("model") == self.name
            and level is not None
            and self.level in ("", level)
            and self.window in ("", *windows[-1:])
            and self.span in (0, len(windows))
        )


def _level(spec: DatasetSpec, name: str, *, epsilon: str, k: str) -> str:
    """The declared ε or K that is asked for, empty where none is; DeclarationError for a K of a
    model and an ε of a method.
    """
    is_method = spec.k_anonymity is not None and name in KAnonymousRelease.names(spec)
    if epsilon and is_method:
        raise DeclarationError(f"{spec.name}: --epsilon: expected none for {name}, which has a K")
    if k and not is_method:
        raise DeclarationError(f"{spec.name}: --k: expected none for {name}, which has an ε")
    if epsilon:
        return epsilon_text(spec.partition(epsilon))
    return str(spec.k_anonymity.partition(k)) if k and spec.k_anonymity else ""


@dataclass(frozen=True)
class Found:
    """A settled release, as it was settled.

    folder   where its bundle lies
    """

    release: Release
    bundle: Bundle
    folder: Path

    @property
    def words(self) -> str:
        """For a person."""
        return f"{self.release.what}, snapshot {self.bundle.facts['snapshot']}"

    @property
    def standing(self) -> str:
        """What it may be used for, in words."""
        return str(reported(self.release, self.bundle).standing)


def find_newest_settled(
    spec: DatasetSpec, home: Home, asked: Asked, *, only_cleared: bool = False
) -> Found:
    """The release that was settled last of those that are asked for, under the declaration as it is
    now; where rows are cut, of the last of their windows. NotPrepared where there is none.
    """
    is_k_anonymous = asked.name in KAnonymousRelease.names(spec)
    kind: type[Release] = KAnonymousRelease if is_k_anonymous else EpsilonRelease
    for begun, settled in _settled(spec, home):
        if asked.fits(begun.facts, kind):
            found = _found(spec, home, kind, begun, settled)
            if found is not None and (not only_cleared or is_cleared(found.bundle)):
                return found
    where = " ".join(one for one in (asked.level and f"at {asked.level}", asked.window) if one)
    raise NotPrepared(
        f"{spec.name}: {asked.name}: expected a settled release {f'{where} ' if where else ''}of "
        f"this declaration, got none: `dp-pipeline {'anonymize' if is_k_anonymous else 'run'} "
        f"{spec.name}` makes it"
    )


def _settled(spec: DatasetSpec, home: Home) -> Iterator[tuple[Entry, Entry]]:
    """Of every settled release of a data set the row that charged it and the one that settled it,
    newest first; of rows that are cut, the newest window first.
    """
    entries = home.ledger.entries(spec.population)
    begun = {one.key: one for one in entries if one.event == "reserve"}
    settled = [one for one in entries if one.event == "settled"]
    own = [one for one in settled if begun[one.key].facts.get("dataset") == spec.name]
    if spec.windows is not None:
        windows = spec.windows
        last = {one.key: blocks_of(begun[one.key].facts)[-1:] for one in own}
        own = [one for one in own if last[one.key]]
        own.sort(key=lambda one: (windows.start(last[one.key][0]), one.sequence))
    for one in reversed(own):
        yield begun[one.key], one


def _found(
    spec: DatasetSpec, home: Home, kind: type[Release], begun: Entry, settled: Entry
) -> Found | None:
    """One release; None where it is of another declaration than that of now."""
    facts, windows = begun.facts, blocks_of(begun.facts)
    level = facts["k" if kind.FOLDER else "epsilon"]
    if level not in kind.levels(spec):
        return None
    own = spec.at_window(windows[-1]) if windows else spec
    try:
        own = with_discovered(own, home, snapshot=named_snapshot(own, home, facts["snapshot"]))
    except NotPrepared:
        return None
    if own.digest != facts["declaration"]:
        return None
    release = kind.at(own, facts["model"], level, home, noise=facts.get("noise", ""))
    if windows and isinstance(release, EpsilonRelease):
        release = replace(release, span=len(windows))
    folder = _folder(release, settled)
    named = {"model": release.name, "snapshot": facts["snapshot"], **level_facts(kind, level)}
    bundle = pointed_bundle(own, home, {"folder": folder}, **named)
    if bundle.key != settled.key:
        raise Damaged(f"bundle {bundle.key[:12]}: expected the release {str(settled.key)[:12]}")
    return Found(release, bundle, home.released / folder)


def _folder(release: Release, settled: Entry) -> str:
    """Where its bundle lies below the store: the one that its partition points at, which may be
    other centres of the same answers, else the one that was settled.
    """
    own = PurePath(*release.path, str(settled.key)[:32])
    pointer = read_document(pointer_path(release))
    if pointer is not None and PurePath(pointer["folder"]).parent == own:
        return str(pointer["folder"])
    return str(own / settled.facts[FOLDER])


def require_cleared(found: Found, *, allow_not_dp: bool) -> None:
    """DeclarationError for a release that is not cleared and was not asked for in spite of that;
    BoundaryViolation for one of sensitive rows that must never leave.
    """
    bundle = found.bundle
    if is_cleared(bundle):
        return
    if bundle.facts["purpose"] != "benchmark":
        bundle.require_exportable()
    if not allow_not_dp:
        why = bundle.caveat or f"one drawn from {bundle.facts['noise']} noise"
        raise DeclarationError(
            f"{found.release.what}: expected a release that is cleared for publication, got {why}: "
            "--allow-not-dp exports it in spite of that, and its card says so"
        )


@dataclass(frozen=True)
class Exported:
    """An export that was made.

    digest   of the list of all digests
    """

    found: Found
    folder: Path
    files: Mapping[str, int]
    digest: str


def export(found: Found, target: Path, *, ending: str) -> Exported:
    """Write a release into a folder, whole; an earlier export of the same data set and model is
    replaced.

    ending   ``csv``, ``parquet`` or ``arrow``
    """
    release, bundle = found.release, found.bundle
    of_reader = reported(release, bundle)
    card = write_card(release, bundle, found.folder).read_text(encoding="utf-8")

    def write(folder: Path) -> None:
        write_contents(folder, of_reader, card, ending)
        bad = next((one for one in verified(folder) if not one.is_good), None)
        if bad is not None:
            raise PipelineError(f"{release.what}: expected an export that verifies, got {bad.line}")

    replace_whole(target, write, dataset=release.spec.name, model=release.name)
    files = {name: (target / name).stat().st_size for name in files_of(target)}
    return Exported(found, target, files, digest_of_export(target))
