"""Files that a run writes for its next stage, and whether a run would change any of them."""

from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.config.dataset import WINDOW, DatasetSpec
from dp_pipeline.config.errors import NotPrepared, PipelineError
from dp_pipeline.config.windows import range_text
from dp_pipeline.files import write_private
from dp_pipeline.raw.snapshot import current_snapshot, require_prepared
from dp_pipeline.releases import replay, report
from dp_pipeline.releases.account import limits_note, require_snapshot
from dp_pipeline.releases.domain_release import with_discovered
from dp_pipeline.releases.evaluate import compare_tables, evaluate
from dp_pipeline.releases.home import Home
from dp_pipeline.releases.publish import PublishedBundle
from dp_pipeline.releases.release import Release, digest_of, other_non_dp_releases, program_version
from dp_pipeline.releases.release_text import write_card
from dp_pipeline.releases.run_options import RunOptions
from dp_pipeline.reporting.metrics import QualityRow, to_documents
from dp_pipeline.reporting.plausibility import NoisyTotal, noisy_total
from dp_pipeline.results.bundle import Bundle


def write_pointer(release: Release, published: PublishedBundle) -> None:
    folder = published.folder.relative_to(release.store.root)
    pointer = {"folder": str(folder), "state": published.state, "nano": str(published.nano)}
    write_private(replay.pointer_path(release), replay.encode_document(pointer))


def write_evaluation(options: RunOptions) -> list[QualityRow]:
    """Evaluate all existing releases of a level or time window; store and return the numbers.

    The cards of releases of public rows, which show these numbers, are written again.
    """
    spec, home, releases = options.resolve_spec(), options.home, options.releases
    pointers = {
        release.name: replay.read_document(replay.pointer_path(release)) for release in releases
    }
    released = [release for release in releases if pointers[release.name]]
    bundles = {
        release.name: released_bundle(release, pointers[release.name]) for release in released
    }
    rows = evaluate(spec, home, bundles)
    digest = evaluation_digest(spec)
    value: dict[str, Any] = {"rows": to_documents(rows), "pointers": pointers, "by": digest}
    if compared := compare_tables(spec, home, bundles):
        value["compared"] = compared
    if spec.window:
        # Kept here, so that a report over years reads no bundle of them.
        value["totals"] = _noisy_totals(spec, bundles.values())
    write_private(replay.evaluation_path(releases[0]), replay.encode_document(value))
    if not spec.is_release:
        for release in released:
            folder = home.released / pointers[release.name]["folder"]
            write_card(release, bundles[release.name], folder)
    return rows


def write_comparison(spec: DatasetSpec, home: Home, kind: type[Release]) -> report.Comparison:
    """Write the report that compares all evaluated releases of a kind, and store its numbers.

    Return its content. NotPrepared if the domain is to be discovered first.
    """
    spec = with_discovered(spec, home)
    compare_all = report.compare_k_anonymous if kind.FOLDER else report.compare
    if spec.windows is not None:
        compare_all = report.compare_windows
    comparison = compare_all(spec, home, evaluations(spec, home, kind))
    value = {"rows": to_documents(comparison.rows), "of": report_digest(spec, home, kind)}
    write_private(_comparison_path(spec, home, kind), replay.encode_document(value))
    return comparison


def evaluations(spec: DatasetSpec, home: Home, kind: type[Release]) -> dict[str, Any]:
    """Return level → stored evaluation, or time window → it if the rows have windows.

    Levels and windows without an evaluation are left out.
    """
    folder = Path(home.internal, spec.name, *kind.FOLDER, "evaluation")
    names: Iterable[str] = kind.levels(spec)
    if spec.windows is not None:
        # Others belong to a sweep over ε, or to releases before there were windows.
        stems = (path.stem for path in folder.glob("*.json"))
        names = sorted(filter(spec.windows.is_name, stems))
    documents = {name: replay.read_document(folder / f"{name}.json") for name in names}
    return {name: document for name, document in documents.items() if document is not None}


def _noisy_totals(spec: DatasetSpec, bundles: Iterable[Bundle]) -> dict[str, list[float]]:
    """Return model → [noisy number of rows, its standard deviation], if the model releases it.

    The name of a model whose release covers several time windows also says how many."""
    totals = {}
    for bundle in bundles:
        name = bundle.facts["model"]
        span = len(spec.time_windows.parse_range(bundle.facts[WINDOW]))
        total = noisy_total(spec, bundle)
        if total is not None:
            name = name if span == 1 else f"{name} over {span} {spec.time_windows.every}s"
            totals[name] = [total.rows, total.deviation]
    return totals


def released_bundle(release: Release, pointer: dict[str, str]) -> Bundle:
    """Return the settled bundle that a pointer file names; Damaged if it is of another release.

    pointer   content of the file
    """
    expected = release.level_facts
    if release.windows:
        expected[WINDOW] = range_text(release.windows)
    return replay.pointed_bundle(
        release.spec, release.home, pointer, model=release.name, **expected
    )


def _comparison_path(spec: DatasetSpec, home: Home, kind: type[Release]) -> Path:
    return Path(home.internal, spec.name, *kind.FOLDER, "comparison", "value.json")


def published_windows(spec: DatasetSpec, home: Home) -> tuple[str, ...]:
    """Return the time windows in which every declared publication is released, oldest first.

    A release of several windows counts for the last of them. Pointer files show what is released;
    without a publication there is no window.
    """
    published = []
    for publication in spec.publications:
        folder = Path(home.released, spec.name, publication.model)
        ending = f".{epsilon_text(publication.epsilon)}.json"
        names = [
            path.name.removeprefix("partition-").removesuffix(ending).split("..")
            for path in folder.glob("partition-*.json")
            if path.name.endswith(ending)
        ]
        # A sweep's 0.5 ends like a 5: the rest of its name has a dot, which no window has.
        spans = [ends for ends in names if all(map(spec.time_windows.is_name, ends))]
        span = publication.span
        between = spec.time_windows.between
        own = (ends[-1] for ends in spans if len(between(ends[0], ends[-1])) == span)
        published.append(set(own))
    windows = set.intersection(*published) if published else set()
    return tuple(sorted(windows, key=spec.time_windows.start))


DRY_WINDOWS = 3
"""Nearly empty windows in a row that show that the rows have ended: one may be a holiday."""


def has_source_ended(spec: DatasetSpec, home: Home, published: Sequence[str]) -> bool:
    """Return whether noisy counts show next to no rows in the newest three windows, many before.

    One model must show both: its noisy total is noise in each of the three, and far above it in an
    earlier window. So it is False for three windows or fewer. Counts that are smoothed over windows
    show it some windows later.

    published   names of the released windows, oldest first: at least one
    """
    folder = Path(home.internal, spec.name, "evaluation")
    totals = []
    for window in reversed(published):
        document = replay.read_document(folder / f"{window}.json") or {}
        numbers = document.get("totals", {}).items()
        totals.append({name: NoisyTotal(*total) for name, total in numbers})
    newest, earlier = totals[:DRY_WINDOWS], totals[DRY_WINDOWS:]
    noise = [{name for name, total in of.items() if total.is_noise} for of in newest]
    dry = set.intersection(*noise)
    return any(
        name in dry and total.is_signal for totals in earlier for name, total in totals.items()
    )


def is_level_complete(options: RunOptions, level: str) -> bool:
    """Return whether a run at this ε or K would change nothing.

    That is so if all its releases are settled and intact, and were drawn and evaluated by this
    code. With a new draw or a new snapshot a run always changes something. A PipelineError, such as
    for damage, is not raised: it counts as incomplete.
    """
    if options.new_draw or options.snapshot or not is_prepared(options.spec, options.home):
        return False
    try:
        return all(_is_complete(release) for release in options.at(level))
    except PipelineError:
        return False


def is_prepared(spec: DatasetSpec, home: Home) -> bool:
    """Return whether the current snapshot has prepared rows, or had them before it was retired."""
    snapshot = current_snapshot(home.raw, spec.name, home.ledger.key(spec.population), spec.window)
    if snapshot is None:
        return False
    if snapshot.is_retired():
        return True
    try:
        require_prepared(with_discovered(spec, home), snapshot)
    except NotPrepared:
        return False
    return True


def _is_complete(release: Release) -> bool:
    home, spec = release.home, release.spec
    key = release.key(require_snapshot(spec, home, release.windows))
    if home.ledger.state(key.digest) != "settled":
        return False
    path = release.store.bundle_path(key, release.postprocessing)
    pointer = replay.read_document(replay.pointer_path(release))
    evaluation = replay.read_document(replay.evaluation_path(release))
    folder = str(path.relative_to(release.store.root))
    if pointer is None or evaluation is None or pointer["folder"] != folder:
        return False
    evaluated = (evaluation["pointers"].get(release.name) or {}).get("folder")
    if evaluated != folder or evaluation.get("by") != evaluation_digest(spec):
        return False
    return replay.require_intact(release, path).facts["code"] == release.version()


def evaluation_digest(spec: DatasetSpec) -> str:
    declared = [getattr(spec, field.name) for field in fields(spec) if field.name != "source"]
    return digest_of(program_version(), *map(repr, declared))


def report_digest(spec: DatasetSpec, home: Home, kind: type[Release]) -> str:
    """Return a digest of everything that the comparison and the budget report show."""
    spec, ledger = spec.of_all_windows(), home.ledger
    return digest_of(
        evaluation_digest(spec),
        list(evaluations(spec, home, kind).items()),
        ledger.balance(spec.population),
        other_non_dp_releases(spec, ledger),
        limits_note(spec, home),
    )


def is_report_current(options: RunOptions) -> bool:
    spec, home = options.resolve_spec(), options.home
    try:
        stored = replay.read_document(_comparison_path(spec, home, options.kind)) or {}
    except PipelineError:
        return False
    is_there = report_path(options).is_file()
    return is_there and stored.get("of") == report_digest(spec, home, options.kind)


def report_path(options: RunOptions) -> Path:
    return options.home.reports / ".".join((options.spec.name, *options.kind.FOLDER, "html"))
