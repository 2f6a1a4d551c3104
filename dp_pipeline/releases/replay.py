"""Settled releases: read and compared with the ledger, or rebuilt from their stored answers,
without reading a row and at no cost. Also the JSON documents that assets hand to each other.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Literal

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
"""The fact of a settled row that holds the digest of the bundle, as it was drawn."""
FOLDER = "folder"
"""The one that names its folder: others hold the same answers under another post-processing."""
MADE_AGAIN = "made again"
"""The fact of a bundle that was made again later and is not, byte for byte, what was settled."""


def settled_bundle(store: BundleStore, path: Path, *, ledger: Ledger, population: str) -> Bundle:
    """Return a settled bundle from the store after checking it.

    Everything that is shown, compared or exported is read by this function.

    Damaged, with what to do, unless a) its seal fits, b) it is made of the answers that the ledger
    settled, and c) the folder that was settled holds what was settled. A bundle of another
    post-processing is in no ledger row, so a) and b) hold for it; likewise one that was lost and
    rebuilt by code that draws other pictures of the same answers.
    """
    bundle = store.read_sealed(path, key=ledger.key(population))
    settled = ledger_row("settled", bundle.key, population, ledger).facts
    is_as_drawn = path.name == settled.get(FOLDER) and MADE_AGAIN not in bundle.facts
    is_changed = is_as_drawn and content_digest(bundle) != settled[CONTENT]
    if is_changed or bundle.transcript != settled.get(TRANSCRIPT, ""):
        raise store.damage_error(path)
    return bundle


def settled_facts(bundle: Bundle, path: Path) -> dict[str, str]:
    """Return the facts of the ledger row that settles a bundle.

    These are its content digest, the name of its folder and, if it has answers, their digest.
    """
    facts = {CONTENT: content_digest(bundle), FOLDER: path.name}
    return {**facts, TRANSCRIPT: bundle.transcript} if bundle.transcript else facts


def snapshot_by_name(spec: DatasetSpec, home: Home, name: str) -> Snapshot:
    """Return a snapshot by its name, without the key to its rows; it need not exist."""
    return Snapshot(Path(home.raw, spec.name, name), b"")


def key_of(release: Release, bundle: Bundle) -> Key:
    """Return the key of a stored release, as declared now; Damaged if its bundle has another."""
    key: Key = release.key(snapshot_by_name(release.spec, release.home, bundle.facts["snapshot"]))
    if isinstance(key, ReleaseKey):
        refines = bundle.facts.get(REFINES, "")
        key = key.with_replicate(int(bundle.facts["replicate"])).refining(refines)
    if key.digest != bundle.key:
        raise Damaged(
            f"{_message_start(release, bundle)}: as declared now, the release would be "
            f"{key.digest[:12]}: put back what has changed, such as `evaluation` or the noise, or "
            "release again"
        )
    return key


def rebuild_missing(release: Release, key: Key, path: Path) -> Bundle:
    """Return the bundle of a settled release, rebuilt from its stored answers; store nothing.

    If ``path`` is the folder that was settled, the fact MADE_AGAIN marks a bundle that is not what
    was settled.

    path   the missing folder of the bundle

    Raises Damaged if the settled transcript is missing or was changed.
    """
    bundle = release.rebuild(key)
    settled = ledger_row("settled", key.digest, key.population, release.home.ledger)
    if path.name != settled.facts.get(FOLDER) or content_digest(bundle) == settled.facts[CONTENT]:
        return bundle
    return replace(bundle, facts={**bundle.facts, MADE_AGAIN: "by other code or libraries"})


def content_digest(bundle: Bundle) -> str:
    """Return the SHA-256 in hex of everything in a bundle except its code version."""
    without_code = replace(bundle, facts={**bundle.facts, "code": ""})
    return hashlib.sha256(without_code.to_json().encode()).hexdigest()


def ledger_row(
    event: Literal["reserve", "settled"], key: str, population: str, ledger: Ledger
) -> Entry:
    """Return the ledger row that charged or settled a release; Damaged if the population has none.

    key   digest of the release's key
    """
    entries = [entry for entry in ledger.history(key) if entry.event == event]
    if entries and entries[0].population == population:
        return entries[0]
    deed = "settled" if event == "settled" else "charged"
    fault = f"that of population {entries[0].population}" if entries else "none"
    raise Damaged(
        f"The ledger must have a row that {deed} release {key[:12]} of population {population}, "
        f"but it has {fault}: `dp-pipeline budget verify` says whether rows are lost"
    )


def settled_answers(store: BundleStore, key: Key, settled: Entry) -> Transcript:
    """Return all stored answers of a settled release.

    Damaged, never AnswersLost, if they are not those that were settled: AnswersLost would end the
    release that is being drawn, such as one that refines this one.
    """
    path, fault = store.transcript_path(key), "is not the one that was settled"
    try:
        answers = Transcript.read(path)
        if answers.chain == settled.facts[TRANSCRIPT]:
            return answers
    except AnswersLost:
        fault = "is damaged"
    except FileNotFoundError:
        fault = "is missing"
    raise Damaged(f"The transcript of {settled.what} in {path} {fault}: restore it from a backup")


def spend_rows(bundle: Bundle) -> list[SpendRow]:
    """Return the charges of a bundle as rows for the ledger; [] if no finite ε holds."""
    if not bundle.is_dp:
        return []
    return [
        SpendRow(spend.what, spend.mechanism, cost, spend.scale)
        for spend, cost in zip(bundle.spends, bundle.costs, strict=True)
    ]


_PROMISED = (
    *("population", "dataset", "model", "epsilon", "kind", "composed", "evaluation", "snapshot"),
    *("replicate", "declaration", "measuring", "unit", "relation", "purpose", "noise"),
    *("releasable", WINDOW, LEARNED, REFINES, REFINED_FROM, PRIOR),
)
"""Facts that no later code or post-processing may change: what was charged for."""


def require_intact(release: Release, folder: Path) -> Bundle:
    """Return a stored bundle; Damaged unless seal, answers, facts and charges suit the ledger."""
    ledger, population = release.home.ledger, release.spec.population
    bundle = settled_bundle(release.store, folder, ledger=ledger, population=population)
    key = key_of(release, bundle)
    settled = ledger_row("settled", key.digest, key.population, ledger)
    if bundle.transcript:
        settled_answers(release.store, key, settled)
    # An evaluation of earlier centres is paid, and in no charge of this bundle.
    is_partial = EARLIER_EVALUATION in bundle.facts
    paid = settled.spends[: len(bundle.spends)] if is_partial else settled.spends
    faults = ["the charges are not those"] if tuple(spend_rows(bundle)) != paid else []
    reserved = ledger_row("reserve", key.digest, key.population, ledger)
    changed = [name for name in _PROMISED if bundle.facts.get(name) != reserved.facts.get(name)]
    faults += [f"the fact {name} is not that" for name in changed]
    if faults:
        raise Damaged(
            f"{_message_start(release, bundle)}: {faults[0]} of the ledger: restore the folder of "
            "the bundle, not the ledger, from a backup"
        )
    return bundle


def require_reproducible(release: Release, bundle: Bundle) -> None:
    """Raise Damaged unless the stored answers give the same bundle again, but for code version."""
    rebuilt = release.rebuild(key_of(release, bundle))
    # The digest of every table is in the text, so equal texts are equal tables.
    code = {name: bundle.facts[name] for name in ("code", MADE_AGAIN) if name in bundle.facts}
    if replace(rebuilt, facts={**rebuilt.facts, **code}).to_json() != bundle.to_json():
        raise Damaged(
            f"{_message_start(release, bundle)}: the stored answers do not give this release "
            f"again: rebuild it with {bundle.facts['code']} and the libraries of its time, or "
            "restore it from a backup"
        )


def _message_start(release: Release, bundle: Bundle) -> str:
    folder = Path(release.home.released, *release.path)
    return f"{release.what}: bundle {bundle.key[:12]} in {folder}"


def encode_document(value: Any) -> bytes:
    return json.dumps({"format": FORMAT, "value": value}, sort_keys=True, indent=1).encode()


def read_document(path: Path) -> Any:
    """Return the value in a document file, or None without it; PipelineError if unreadable."""
    if not path.is_file():
        return None
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        format_number = stored.get("format") if isinstance(stored, dict) else None
        require_format(format_number, of=str(path))
        return stored["value"]
    except OSError as error:
        raise PipelineError(system_line(error, path)) from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Damaged(
            f"{path} must hold JSON as this program writes it, but it does not: move it away and "
            "make the same release again (its model, ε or K, and time window), at no cost; "
            "`dp-pipeline plan` shows what else a run would draw"
        ) from None


def pointer_path(release: Release) -> Path:
    name = ".".join(release.partition)
    return Path(release.home.released, *release.path, f"partition-{name}.json")


def evaluation_path(release: Release) -> Path:
    """Return the path of the file with the evaluation of a release.

    All published releases of a time window share one file. Other releases share one if they
    have the same level and the same range of windows.
    """
    folder = Path(release.home.internal, *release.path[:-1])
    name = release.spec.window if is_published(release) else ".".join(release.partition)
    return folder / "evaluation" / f"{name}.json"


def is_published(release: Release) -> bool:
    """Return whether ``publish`` of the data set file lists a release, with its ε and its number of
    time windows; False for rows without windows."""
    published = {
        (publication.model, epsilon_text(publication.epsilon), publication.span)
        for publication in release.spec.publications
    }
    identity = (release.name, release.level, len(release.windows))
    return bool(release.spec.window) and identity in published


def exact_quality(release: Release, bundle: Bundle) -> "list[QualityRow]":
    """Return the stored exact quality numbers of a release of public rows.

    [] for sensitive rows, and if the numbers are missing, unreadable or outdated.
    """
    from dp_pipeline.reporting.metrics import from_documents

    if release.spec.is_release:
        return []
    try:
        pointer = read_document(pointer_path(release))
        evaluation = read_document(evaluation_path(release))
    except PipelineError:
        return []
    if pointer is None or evaluation is None:
        return []
    folder = (evaluation["pointers"].get(release.name) or {}).get("folder", "")
    if folder != pointer["folder"] or PurePath(folder).parent.name != bundle.key[:32]:
        return []
    rows = from_documents(evaluation["rows"])
    return [row for row in rows if row.model == bundle.model and row.scale is None]


_LAST = "last window"


def command_of(dataset: str, facts: Mapping[str, str], *, window: str = "", span: int = 0) -> str:
    """Return the words after ``dp-pipeline`` that make the release with some facts; what is left
    out or empty is as the data set file declares.

    facts   a model and its ε, or a method and its K; without ε and K, all models
    """
    command, options = "run", {"window": window, "span": span}
    if "k" in facts:
        command, options = "anonymize", {"method": facts["model"], "k": facts["k"]}
    elif "epsilon" in facts:
        options |= {"model": facts["model"], "epsilon": facts["epsilon"]}
    texts = [f" --{option} {value}" for option, value in options.items() if value]
    return f"{command} {dataset}{''.join(texts)}"


def pointed_bundle(
    spec: DatasetSpec, home: Home, pointer: Mapping[str, str], **expected: str
) -> Bundle:
    """Return the settled bundle that a pointer names.

    pointer    content of a pointer file
    expected   facts that the bundle must have, such as its model and ε

    Raises Damaged for a bundle with other facts, and for one that is not as it was settled.
    """
    folder = PurePath(pointer["folder"])
    ends = expected.get(WINDOW, "").split("..")
    span = len(spec.time_windows.between(*ends)) if len(ends) > 1 else 0
    again = (
        f"run `dp-pipeline {command_of(spec.name, expected, window=spec.window, span=span)}` again"
    )
    # Without a level the command may charge.
    again += ", at no cost" if expected.keys() & {"epsilon", "k"} else ""
    if folder.is_absolute() or ".." in folder.parts:
        raise Damaged(
            f"{spec.name}: a stored file must name the folder of a release in {home.released}, "
            f"not {folder}: {again}"
        )
    store, path = BundleStore(home.released), home.released / folder
    bundle = settled_bundle(store, path, ledger=home.ledger, population=spec.population)
    if spec.window:
        expected[_LAST] = spec.window
    # A release of several windows belongs to the last of them.
    facts = {**bundle.facts, _LAST: bundle.facts.get(WINDOW, "").rpartition("..")[2]}
    for name, text in {"dataset": spec.name, **expected}.items():
        if facts.get(name) != text:
            raise Damaged(
                f"{spec.name}: a stored file must name a release whose {name} is {text}, but it "
                f"names {folder}, whose {name} is {facts.get(name) or 'not stated'}: {again}"
            )
    return bundle
