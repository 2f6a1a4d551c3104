"""The export of a release to a folder for readers, without a look at the rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Self

from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import Damaged, DeclarationError, NotPrepared, PipelineError, one_of
from dp_pipeline.config.sections import Publication
from dp_pipeline.config.windows import now
from dp_pipeline.export.contents import is_cleared, write_contents
from dp_pipeline.export.folder import digest_of_export, files_of, replace_folder
from dp_pipeline.export.verify import FETCH, verify_export
from dp_pipeline.releases import replay
from dp_pipeline.releases.charged import ChargedRelease, charged_releases
from dp_pipeline.releases.epsilon_release import EpsilonRelease
from dp_pipeline.releases.home import Home
from dp_pipeline.releases.k_anonymous_release import KAnonymousRelease
from dp_pipeline.releases.release import Release
from dp_pipeline.releases.release_text import reported, write_card
from dp_pipeline.results.bundle import Bundle


def publications_of(spec: DatasetSpec) -> tuple[Publication, ...]:
    """Return the models, each at one ε, that a file publishes, for all rows or each time window."""
    return spec.publications or ((spec.publish,) if spec.publish else ())


@dataclass(frozen=True)
class ExportRequest:
    """The properties of the release to export.

    name     a model or method
    level    its ε or K as a partition key; empty: any
    window   the last of its time windows; empty: any
    span     number of its time windows; 0: any
    """

    name: str
    level: str = ""
    window: str = ""
    span: int = 0

    @classmethod
    def of(
        cls, spec: DatasetSpec, *, name: str = "", epsilon: str = "", k: str = "", window: str = ""
    ) -> Self:
        """Return the request of a command's options; DeclarationError for undeclared values.

        name         by default the first model that the data set publishes, at its ε unless
                     ``epsilon`` is given; where it publishes none, its only model or method
        epsilon, k   the level of a model, of a method; empty: any

        DeclarationError also without a name where no default exists.
        """
        published = publications_of(spec)
        model_names = (*EpsilonRelease.names(spec), *KAnonymousRelease.names(spec))
        if not name and not published and len(model_names) == 1:
            (name,) = model_names
        if not name and not published:
            raise DeclarationError(
                f"{spec.name}: MODEL must be named, as the data set file publishes nothing: "
                f"choose from {', '.join(model_names)}"
            )
        if name and name not in model_names:
            raise DeclarationError(f"{spec.name}: MODEL {one_of(model_names, name)}")
        if window:
            spec.at_window(window)
        if not name:
            name, epsilon = published[0].model, epsilon or epsilon_text(published[0].epsilon)
        is_method = name in KAnonymousRelease.names(spec)
        if epsilon and is_method:
            raise DeclarationError(
                f"{spec.name}: --epsilon: the release of {name} has a K and no ε: use --k"
            )
        if k and not is_method:
            raise DeclarationError(
                f"{spec.name}: --k: the release of {name} has an ε and no K: use --epsilon"
            )
        level = epsilon_text(spec.partition(epsilon)) if epsilon else ""
        if k and spec.k_anonymity:
            level = str(spec.k_anonymity.partition(k, of=spec.name))
        return cls(name, level, window)

    def matches(self, charged: ChargedRelease) -> bool:
        """Return whether a charged release matches the request."""
        return (
            charged.facts.get("model") == self.name
            and self.level in ("", charged.level)
            and self.window in ("", *charged.windows[-1:])
            and self.span in (0, len(charged.windows))
        )


@dataclass(frozen=True)
class SettledRelease:
    """A settled release together with its bundle.

    folder   the folder of the bundle
    day      the day on which it was settled, such as 2026-11-27
    """

    release: Release
    bundle: Bundle
    folder: Path
    day: str

    @property
    def words(self) -> str:
        """A phrase that names the release, its level and its snapshot."""
        return f"{self.release.what}, snapshot {self.bundle.facts['snapshot']}"

    @property
    def standing(self) -> str:
        """A phrase that says what the release may be used for."""
        return str(reported(self.release, self.bundle).standing)


def find_newest_settled(
    spec: DatasetSpec, home: Home, request: ExportRequest, *, only_cleared: bool = False
) -> SettledRelease:
    """Return the newest settled release that matches a request; NotPrepared if there is none.

    With time windows the newest is that of the latest window. Releases of other declarations than
    the file has now are passed over. Damaged if the release is not as it was settled;
    DeclarationError if there is none of a time window that is not closed yet.

    only_cleared   whether releases that may not be published are passed over, too
    """
    matching = [
        charged
        for charged in charged_releases(home, {spec.name: spec}, spec.population)
        if charged.state == "settled" and charged.declared and request.matches(charged)
    ]
    for charged in sorted(matching, key=_recency, reverse=True):
        release = _settled_release(charged)
        if release is not None and (not only_cleared or is_cleared(release.bundle)):
            return release
    if request.window:
        spec.time_windows.require_closed(request.window, now())
    is_k_anonymous = request.name in KAnonymousRelease.names(spec)
    kind: type[Release] = KAnonymousRelease if is_k_anonymous else EpsilonRelease
    where = f" at {kind.SYMBOL}={request.level}" if request.level else ""
    where += f" of {request.window}" if request.window else ""
    # Of sensitive rows one K has to be named.
    level = request.level or ("K" if is_k_anonymous and spec.is_release else "")
    facts = {"model": request.name, kind.LEVEL_FACT: level}
    command = replay.command_of(spec.name, facts, window=request.window, span=request.span)
    raise NotPrepared(
        f"{spec.name}: {request.name}: no settled release of this declaration "
        f"exists{where}: `dp-pipeline {command}` makes it"
    )


def _recency(charged: ChargedRelease) -> tuple[tuple[str, ...], int]:
    return charged.windows[-1:], charged.end.sequence if charged.end else 0


def _settled_release(charged: ChargedRelease) -> SettledRelease | None:
    """Return a settled release; None if the data set file no longer declares it, or if its domain
    is no longer known. Damaged if it is not as it was settled."""
    settled, home = charged.end, charged.home
    if settled is None or not charged.is_declared:
        return None
    try:
        release = charged.release()
    except NotPrepared:
        return None
    if release.spec.digest != charged.facts["declaration"]:
        return None
    draws = PurePath(*release.path, str(settled.key)[:32])
    pointer = replay.read_document(replay.pointer_path(release))
    if pointer is not None and PurePath(pointer["folder"]).parent == draws:
        folder = str(pointer["folder"])
    else:
        folder = str(draws / settled.facts[replay.FOLDER])
    expected = {"model": release.name, "snapshot": charged.facts["snapshot"], **release.level_facts}
    bundle = replay.pointed_bundle(release.spec, home, {"folder": folder}, **expected)
    if bundle.key != settled.key:
        raise Damaged(
            f"{release.what}: the stored release in {home.released / folder} must be "
            f"{str(settled.key)[:12]}, which the ledger names, but it is {bundle.key[:12]}: "
            "restore that folder from a backup"
        )
    return SettledRelease(release, bundle, home.released / folder, settled.time[:10])


def require_cleared(settled: SettledRelease, *, allow_not_dp: bool) -> None:
    """Raise DeclarationError for a release that may not be published, unless ``allow_not_dp``.

    BoundaryViolation, in any case, for one of sensitive rows that must never leave the project.
    """
    bundle = settled.bundle
    if is_cleared(bundle):
        return
    if bundle.facts["purpose"] != "benchmark":
        bundle.require_exportable()
    if not allow_not_dp:
        why = bundle.caveat or f"it was drawn from {bundle.facts['noise']} noise"
        raise DeclarationError(
            f"{settled.release.what}: the release is not cleared for publication ({why}): "
            "--allow-not-dp exports it in spite of that, and its card says so"
        )


@dataclass(frozen=True)
class Export:
    """A finished export in a folder.

    files    name → size in bytes of every file
    digest   SHA-256 in hex, of the list of the files' digests
    """

    settled: SettledRelease
    folder: Path
    files: Mapping[str, int]
    digest: str


def export(settled: SettledRelease, target: Path, *, ending: str) -> Export:
    """Write a release into a folder, in place of an earlier export of the same data set and model.

    Its card is written anew too. PipelineError if the written files do not verify: the folder then
    stays as it was.

    ending   table format: ``csv``, ``parquet`` or ``arrow``
    """
    release, bundle = settled.release, settled.bundle
    card = write_card(release, bundle, settled.folder).read_text(encoding="utf-8")

    def write(folder: Path) -> None:
        write_contents(folder, reported(release, bundle), card, ending, day=settled.day)
        fault = next((check for check in verify_export(folder) if not check.is_good), None)
        if fault is not None:
            raise PipelineError(
                f"{release.what}: the written export does not verify, so it was not kept: "
                f"{fault.line.removesuffix(FETCH)}: export once more, or report this fault"
            )

    replace_folder(target, write, dataset=release.spec.name, model=release.name)
    files = {name: (target / name).stat().st_size for name in files_of(target)}
    return Export(settled, target, files, digest_of_export(target))
