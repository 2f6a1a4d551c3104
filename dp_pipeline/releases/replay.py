"""Settled releases: read back as the ledger settled them, compared with it, or made again from what
is stored of them, without a look at the rows and at no cost.

JSON documents that assets hand to each other: quality rows and pointers to bundles.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.config.dataset import WINDOW, DatasetSpec
from dp_pipeline.config.errors import Damaged, PipelineError
from dp_pipeline.config.formats import FORMAT, require_format
from dp_pipeline.config.system_errors import system_line
from dp_pipeline.ledger import Entry, Ledger, SpendRow
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.releases.home import Home
from dp_pipeline.releases.release import TRANSCRIPT, Release
from dp_pipeline.releases.store import BundleStore
from dp_pipeline.results.bundle import (
    EARLIER_EVALUATION,
    LEARNED,
    PRIOR,
    REFINED_FROM,
    REFINES,
    Bundle,
    Key,
    ReleaseKey,
)
from dp_pipeline.results.transcript import AnswersLost, Transcript

if TYPE_CHECKING:
    from dp_pipeline.reporting.metrics import QualityRow

CONTENT = "bundle"
"""The one that holds the digest of the bundle, as it was drawn."""
FOLDER = "folder"
"""The one that names the folder of that bundle: others hold the same answers, shaped otherwise."""
MADE_AGAIN = "made again"
"""The fact of a bundle that was made again later and is not, byte for byte, what was settled."""


def settled_bundle(store: BundleStore, path: Path, *, ledger: Ledger, population: str) -> Bundle:
    """A settled bundle: the one way in which whoever shows, compares or hands one out reads it.

    Damaged, naming it and saying what to do, unless a) its seal fits, b) it is of the answers that
    the ledger settled, and c) in the folder that was settled lies what was settled. A bundle of
    another post-processing is in no ledger row: it is bound by a) and b). So is one that was lost
    and made again by code that gives other pictures of the same answers.
    """
    bundle = store.sealed(path, key=ledger.key(population))
    settled = settled_entry(bundle.key, population, ledger).facts
    is_as_drawn = path.name == settled.get(FOLDER) and MADE_AGAIN not in bundle.facts
    is_another = is_as_drawn and content_digest(bundle) != settled[CONTENT]
    if is_another or bundle.transcript != settled.get(TRANSCRIPT, ""):
        raise store.another(path)
    return bundle


def facts_of(bundle: Bundle, path: Path) -> dict[str, str]:
    """What the settled row of a ledger keeps of the bundle that was drawn."""
    kept = {CONTENT: content_digest(bundle), FOLDER: path.name}
    return {**kept, TRANSCRIPT: bundle.transcript} if bundle.transcript else kept


def named_snapshot(spec: DatasetSpec, home: Home, name: str) -> Snapshot:
    """A snapshot of which nothing but its name is known or needed: that is what enters a key."""
    return Snapshot(Path(home.raw, spec.name, name), b"")


def key_of(release: Release, bundle: Bundle) -> Key:
    """The key of a stored release of this question, made from the declaration; Damaged where that
    is not the key that was stored.
    """
    key: Key = release.key(named_snapshot(release.spec, release.home, bundle.facts["snapshot"]))
    if isinstance(key, ReleaseKey):
        refines = bundle.facts.get(REFINES, "")
        key = key.with_replicate(int(bundle.facts["replicate"])).refining(refines)
    if key.digest != bundle.key:
        raise Damaged(f"bundle {bundle.key[:12]}: expected the release {key.digest[:12]}")
    return key


def rebuild_bundle(release: Release, key: Key) -> Bundle:
    """The bundle of a settled release, made again from its stored answers; no row is read."""
    return release.remade(key, settled_entry(key.digest, key.population, release.home.ledger))


def restored(release: Release, key: Key, path: Path) -> Bundle:
    """What is to be stored in the place of a settled bundle that is not there; no row is read.

    Raises Damaged where its transcript is not the one that was settled, or there is none.
    """
    settled = settled_entry(key.digest, key.population, release.home.ledger)
    bundle = release.remade(key, settled)
    if path.name != settled.facts.get(FOLDER) or content_digest(bundle) == settled.facts[CONTENT]:
        return bundle
    return replace(bundle, facts={**bundle.facts, MADE_AGAIN: "by other code or libraries"})


def content_digest(bundle: Bundle) -> str:
    """What the ledger keeps of a bundle when it is settled: a digest of its tables, charges,
    quality and facts; but for the code, which is another where a lost bundle is made again later.
    """
    same = replace(bundle, facts={**bundle.facts, "code": ""})
    return hashlib.sha256(same.to_json().encode()).hexdigest()


def settled_entry(key: str, population: str, ledger: Ledger) -> Entry:
    """The row that settled a release; Damaged where there is none."""
    found = [one for one in ledger.history(key) if one.event == "settled"]
    if not found or found[0].population != population:
        raise Damaged(f"ledger: expected that the release {key[:12]} is settled, got no such row")
    return found[0]


def reserved_entry(key: str, population: str, ledger: Ledger) -> Entry:
    """The row that a release was charged with; Damaged where there is none."""
    found = ledger.history(key)
    if not found or found[0].population != population:
        raise Damaged(f"ledger: expected that the release {key[:12]} is charged, got no such row")
    return found[0]


def settled_answers(store: BundleStore, key: Key, settled: Entry) -> Transcript:
    """Return the stored answers of a settled release, from the first.

    Damaged where they are not those that were settled. It never is AnswersLost: that would end the
    release at work, such as one that refines this one, whose own answers are whole.
    """
    path = store.transcript_path(key)
    with contextlib.suppress(AnswersLost, FileNotFoundError):
        answers = Transcript.read(path)
        if answers.chain == settled.facts[TRANSCRIPT]:
            return answers
    raise Damaged(f"transcript: expected that of {settled.what} as settled in {path}, got another")


def spend_rows(bundle: Bundle) -> list[SpendRow]:
    """What the ledger keeps of the charges: none where they add up to no ε of the release."""
    if not bundle.is_dp:
        return []
    return [
        SpendRow(one.what, one.mechanism, cost, one.scale)
        for one, cost in zip(bundle.spends, bundle.costs, strict=True)
    ]


_PROMISED = (
    *("population", "dataset", "model", "epsilon", "kind", "composed", "evaluation", "snapshot"),
    *("replicate", "declaration", "measuring", "unit", "relation", "purpose", "noise"),
    *("releasable", WINDOW, LEARNED, REFINES, REFINED_FROM, PRIOR),
)
"""Facts that no later code or post-processing may change: what was charged for."""


def require_intact(release: Release, folder: Path) -> Bundle:
    """The bundle, Damaged unless it is read as it was settled, the answers that lie beside it are
    those that were settled, and facts and charges are those of the ledger.
    """
    ledger = release.home.ledger
    bundle = settled_bundle(
        release.store, folder, ledger=ledger, population=release.spec.population
    )
    key = key_of(release, bundle)
    settled = settled_entry(key.digest, key.population, ledger)
    if bundle.transcript:
        settled_answers(release.store, key, settled)
    if tuple(spend_rows(bundle)) != _paid(settled, bundle):
        raise Damaged(f"{_name(bundle)}: expected the charges of the ledger, got others")
    begun = reserved_entry(key.digest, key.population, ledger)
    changed = [name for name in _PROMISED if bundle.facts.get(name) != begun.facts.get(name)]
    if changed:
        raise Damaged(f"{_name(bundle)}: expected {changed[0]} as in the ledger, got another")
    return bundle


def require_reproducible(release: Release, bundle: Bundle) -> None:
    """Damaged unless the code of today makes the same of its stored answers, byte by byte."""
    again = rebuild_bundle(release, key_of(release, bundle))
    # The digest of every table is in the text, so equal texts are equal tables.
    told = {name: bundle.facts[name] for name in ("code", MADE_AGAIN) if name in bundle.facts}
    if replace(again, facts={**again.facts, **told}).to_json() != bundle.to_json():
        raise Damaged(f"{_name(bundle)}: expected what its answers give again, got another")


def _paid(settled: Entry, bundle: Bundle) -> tuple[SpendRow, ...]:
    """The charges of the ledger; without those of an evaluation of earlier centres."""
    if EARLIER_EVALUATION not in bundle.facts:
        return settled.spends
    return settled.spends[: len(bundle.spends)]


def _name(bundle: Bundle) -> str:
    return f"bundle {bundle.key[:12]}"


_AGAIN = "run the data set again, at no cost"


def document(value: Any) -> bytes:
    """A value as ``read_document`` takes it."""
    return json.dumps({"format": FORMAT, "value": value}, sort_keys=True, indent=1).encode()


def read_document(path: Path) -> Any:
    """The value that was written to a file, None when there is none; UnknownFormat where another
    program wrote it, Damaged where none did, PipelineError where it cannot be read.
    """
    if not path.is_file():
        return None
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        found = stored.get("format") if isinstance(stored, dict) else None
        require_format(found, of=str(path))
        return stored["value"]
    except OSError as error:
        raise PipelineError(system_line(error, path)) from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Damaged(f"{path}: expected a document, got none: {_AGAIN}") from None


def level_facts(kind: type[Release], level: str) -> dict[str, str]:
    """The fact of a bundle that says at which level it was released."""
    return {"k" if kind.FOLDER else "epsilon": level}


def pointer_path(release: Release) -> Path:
    """The small file that names the bundle of a partition, or of a window at a level."""
    name = ".".join(release.partition)
    return Path(release.home.released, *release.path, f"partition-{name}.json")


def evaluation_path(release: Release) -> Path:
    """The evaluation of all releases of its level; of a window, of all that are published."""
    folder = Path(release.home.internal, *release.path[:-1])
    name = release.spec.window if is_published(release) else ".".join(release.partition)
    return folder / "evaluation" / f"{name}.json"


def is_published(release: Release) -> bool:
    """Whether it is what the data set file publishes of a window."""
    asked = {(one.model, epsilon_text(one.epsilon), one.span) for one in release.spec.publications}
    own = (release.name, release.level, len(release.windows))
    return bool(release.spec.window) and own in asked


def exact_rows(release: Release, bundle: Bundle) -> list[QualityRow]:
    """Return the exact quality numbers of a release of public rows; none where it was not
    evaluated, or the evaluation is of another release or cannot be read: a run makes it anew.
    """
    from dp_pipeline.reporting.metrics import from_documents

    if release.spec.is_release:
        return []
    try:
        pointer, evaluated = (
            read_document(pointer_path(release)),
            read_document(evaluation_path(release)),
        )
    except PipelineError:
        return []
    if pointer is None or evaluated is None:
        return []
    folder = (evaluated["pointers"].get(release.name) or {}).get("folder", "")
    if folder != pointer["folder"] or PurePath(folder).parent.name != bundle.key[:32]:
        return []
    rows = from_documents(evaluated["rows"])
    return [row for row in rows if row.model == bundle.model and row.scale is None]


_LAST = "last window"


def pointed_bundle(
    spec: DatasetSpec, home: Home, pointer: Mapping[str, str], **expected: str
) -> Bundle:
    """The settled bundle that a pointer names, as it was settled.

    expected   facts of it, such as its model and ε

    Raises Damaged for a bundle that is another one, or not as it was settled.
    """
    named = PurePath(pointer["folder"])
    if named.is_absolute() or ".." in named.parts:
        raise Damaged(
            f"{spec.name}: expected a pointer to a folder in {home.released}, got one to "
            f"{pointer['folder']}: materialize it again, at no cost"
        )
    store, path = BundleStore(home.released), home.released / named
    bundle = settled_bundle(store, path, ledger=home.ledger, population=spec.population)
    if spec.window:
        expected[_LAST] = spec.window
    # A release of several windows belongs to the last of them.
    facts = {**bundle.facts, _LAST: bundle.facts.get(WINDOW, "").rpartition("..")[2]}
    for name, text in {"dataset": spec.name, **expected}.items():
        if facts.get(name) != text:
            raise Damaged(
                f"{spec.name}: {name}: expected a pointer to a release of {text}, got one to "
                f"{pointer['folder']}: materialize it again, at no cost"
            )
    return bundle
