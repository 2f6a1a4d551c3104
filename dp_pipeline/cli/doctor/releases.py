"""What this program, and the files of today, would make of what was released."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from dp_pipeline.cli.doctor import Finding, collected
from dp_pipeline.cli.doctor.homes import Charged, charged_releases
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.discovery import dataset_files
from dp_pipeline.config.errors import DeclarationError, NoAnswer, NotPrepared, PipelineError
from dp_pipeline.config.parser import load_spec
from dp_pipeline.files import is_locked
from dp_pipeline.raw.snapshot import current_snapshot
from dp_pipeline.releases.home import Home
from dp_pipeline.releases.noisy_release import NoisyRelease
from dp_pipeline.releases.publish import require_as_begun
from dp_pipeline.releases.replay import require_remade, require_whole
from dp_pipeline.results.bundle import ReleaseKey
from dp_pipeline.results.transcript import Transcript

TOPIC = "releases"


def releases(home: Home, *, remake: bool = False) -> Iterator[Finding]:
    """How many would be replayed at no cost; one line each of those that would be charged anew,
    of those that are charged and not finished, and of what cannot be finished.

    remake   also make every stored release again from its answers, and compare
    """
    specs, found = _declared(), list[Finding]()
    counts: Counter[str] = Counter()
    made: Counter[str] = Counter()
    for one in charged_releases(home.ledger.entries()):
        made[_maker(one)] += 1
        with collected(found, TOPIC, one.begun.what):
            counts[_counted(one, specs, home, found)] += 1
            if remake:
                found += _remade(one, specs, home)
    told = ", ".join(f"{many} {what}" for what, many in sorted(counts.items()))
    yield Finding(TOPIC, "ok", told or "nothing was released yet")
    for maker, many in sorted(made.items()):
        yield Finding(TOPIC, "ok", f"{many} made by {maker}")
    yield from found


def _counted(
    one: Charged, specs: Mapping[str, DatasetSpec], home: Home, found: list[Finding]
) -> str:
    """What becomes of one release; what somebody has to know of it is added to ``found``."""
    spec = _spec_of(one, specs)
    if one.state == "unfinished":
        found.append(_unfinished(one, spec, home))
        return "charged and not finished"
    if spec is None or not one.is_declared(spec):
        return "stored, and not asked for by any file of today"
    try:
        key = one.key_of_today(spec, home).digest
    except NotPrepared:
        return "stored, of a domain that is not discovered as the file declares it"
    if key == one.key:
        return "replayed at no cost" if one.state == "settled" else "dead"
    if not _is_current(one, spec, home):
        return "stored, of an earlier snapshot"
    why = "; ".join(one.changes(spec, home)) or "its key is made otherwise by this code"
    found.append(Finding(TOPIC, "note", f"{one.begun.what}: a run would charge it anew: {why}"))
    return "charged anew by the next run"


def _spec_of(one: Charged, specs: Mapping[str, DatasetSpec]) -> DatasetSpec | None:
    """What the file of today declares of the rows of a release, of its last window where they are
    cut; None where it declares no such rows.
    """
    spec, windows = specs.get(one.facts.get("dataset", "")), one.windows
    if spec is None or (spec.windows is None) != (not windows):
        return None
    try:
        return spec.at_window(windows[-1]) if windows else spec
    except DeclarationError:
        return None


def _is_current(one: Charged, spec: DatasetSpec, home: Home) -> bool:
    """Whether the snapshots that are read now are those of a release."""
    windows = one.windows or ("",)
    found = [current_snapshot(home.raw, spec.name, b"", window) for window in windows]
    return "+".join("" if it is None else it.id for it in found) == one.facts["snapshot"]


def _remade(one: Charged, specs: Mapping[str, DatasetSpec], home: Home) -> list[Finding]:
    """A fault where the code of today makes something else of the answers of a settled release."""
    spec = _spec_of(one, specs)
    if spec is None or one.state != "settled" or one.is_k_anonymous or not one.is_declared(spec):
        return []
    release, key = one.release(spec, home), one.key_of_today(spec, home)
    path = release.store.bundle_path(key, release.postprocessing)
    if key.digest != one.key or not path.exists():
        return []
    try:
        require_remade(release, require_whole(release, path))
    except PipelineError as error:
        return [Finding(TOPIC, "fault", f"{one.begun.what}: {error}")]
    return [Finding(TOPIC, "ok", f"{one.begun.what}: its answers give it again, byte by byte")]


def _unfinished(one: Charged, spec: DatasetSpec | None, home: Home) -> Finding:
    name = f"{one.begun.what}, key {one.key[:12]}"
    if _is_held(one, home):
        return Finding(TOPIC, "note", f"{name}: somebody is at work on it")
    if "dataset" not in one.facts:
        return Finding(TOPIC, "note", f"{name}: a fit that did not end; its ε is spent")
    obstacle = _obstacle(one, spec, home)
    if obstacle is None:
        return Finding(TOPIC, "fault", f"{name}: charged and not finished", one.command)
    return Finding(TOPIC, "fault", f"{name}: charged, and cannot be finished now: {obstacle}")


def _obstacle(one: Charged, spec: DatasetSpec | None, home: Home) -> str | None:
    """Why this program cannot finish a release, or None: by its answers so far, over nobody."""
    if spec is None or not one.is_declared(spec):
        return f"no file of today asks for it: declare it in {one.facts['dataset']}.yaml as it was"
    if one.key_of_today(spec, home).digest != one.key:
        why = "; ".join(one.changes(spec, home)) or "its key is made otherwise by this code"
        return f"{why}: declare it as it was, or use {one.facts['code']}"
    if not _is_current(one, spec, home):
        return f"another snapshot is read now: run it with --snapshot {one.facts['snapshot']}"
    return _refusal(one, spec, home)


def _refusal(one: Charged, spec: DatasetSpec, home: Home) -> str | None:
    release = one.release(spec, home)
    key = one.key_of_today(spec, home)
    if not isinstance(release, NoisyRelease) or not isinstance(key, ReleaseKey):
        return None
    try:
        require_as_begun(release, key)
        path = release.store.transcript_path(key)
        if not path.is_file():
            return "its answers are lost: the next run says so, and only --new-draw goes on"
        questions = release.questions(release.resolve(key))
        questions.bundle(None, Transcript.peek(path), release.noise)
    except NoAnswer:
        # Without rows the first answer that was never drawn ends it: that far it is the same.
        return None
    except PipelineError as error:
        return f"{error}: finish it with {one.facts['code']}, or give it up (`budget give-up`)"
    return None


def _is_held(one: Charged, home: Home) -> bool:
    """Whether a process on this computer holds the lock of a release."""
    path = home.ledger_folder / "locks" / f"{one.key}.lock"
    return path.is_file() and is_locked(path)


def _declared() -> dict[str, DatasetSpec]:
    """The data set files that can be read; the others are the formats' matter."""
    specs = {}
    for name, path in dataset_files().items():
        try:
            specs[name] = load_spec(path)
        except DeclarationError:
            continue
    return specs


def _maker(one: Charged) -> str:
    """The code that made a release, and where that is other code, the code of its kind today."""
    maker, today = one.facts.get("code", "unknown code"), one.release_class.version()
    return maker if maker == today else f"{maker}; this is {today}"
