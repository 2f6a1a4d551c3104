"""What a run has released: written down for the next stage, read back for a person; and whether
there is anything left to run.

A level whose releases are settled, whole, drawn by this very code and evaluated by it needs no run:
the ledger and the stored bundles say everything that one would say again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.config.dataset import WINDOW, DatasetSpec
from dp_pipeline.config.errors import NotPrepared, PipelineError
from dp_pipeline.config.windows import range_text
from dp_pipeline.raw.snapshot import current_snapshot, require_prepared
from dp_pipeline.releases.account import limits_word, require_snapshot
from dp_pipeline.releases.domain_release import with_discovered
from dp_pipeline.releases.evaluate import compared_tables, evaluate
from dp_pipeline.releases.home import Home
from dp_pipeline.releases.publish import PublishedBundle
from dp_pipeline.releases.release import Release, digest_of, other_non_dp_releases, program_code
from dp_pipeline.releases.release_text import write_card
from dp_pipeline.releases.replay import (
    document,
    evaluation_path,
    level_facts,
    pointed_bundle,
    pointer_path,
    read_document,
    require_intact,
)
from dp_pipeline.releases.report import (
    Comparison,
    compare,
    compare_k_anonymous,
    compare_windows,
    page_path,
)
from dp_pipeline.releases.run_options import RunOptions
from dp_pipeline.releases.store import store_file
from dp_pipeline.reporting.metrics import QualityRow, to_documents
from dp_pipeline.reporting.plausibility import NoisyTotal, noisy_total
from dp_pipeline.results.bundle import Bundle


def write_pointer(release: Release, published: PublishedBundle) -> None:
    """Say which bundle is the one of a partition. The bundle itself lies in the store before its
    charge is settled.
    """
    folder = published.folder.relative_to(release.store.root)
    pointer = {"folder": str(folder), "state": published.state, "nano": str(published.nano)}
    store_file(pointer_path(release), document(pointer))


def write_evaluation(options: RunOptions) -> list[QualityRow]:
    """Evaluate all releases of a request, of one level or window, and keep what came of it. What
    was never released is left out.
    """
    spec, home, releases = options.resolve_spec(), options.home, options.releases
    pointers = {one.name: read_document(pointer_path(one)) for one in releases}
    bundles = {
        one.name: released_bundle(one, pointers[one.name]) for one in releases if pointers[one.name]
    }
    rows = evaluate(spec, home, bundles)
    value = {"rows": to_documents(rows), "pointers": pointers, "by": evaluated_by(spec)}
    if compared := compared_tables(spec, home, bundles):
        value["compared"] = compared
    if spec.window:
        # Kept here, so that a report over years reads no bundle of them.
        value["totals"] = _noisy_totals(spec, bundles)
    store_file(evaluation_path(releases[0]), document(value))
    for one in releases:
        if one.name in bundles and not spec.is_release:
            # Its card shows these numbers.
            write_card(one, bundles[one.name], home.released / pointers[one.name]["folder"])
    return rows


def write_comparison(spec: DatasetSpec, home: Home, kind: type[Release]) -> Comparison:
    """Compare everything that was evaluated, write the report, and keep what it was made of."""
    spec = with_discovered(spec, home)
    comparing = compare_k_anonymous if kind.FOLDER else compare
    if spec.windows is not None:
        comparing = compare_windows
    compared = comparing(spec, home, evaluations(spec, home, kind))
    value = {"rows": to_documents(compared.rows), "of": report_made_of(spec, home, kind)}
    store_file(_comparison_path(spec, home, kind), document(value))
    return compared


def evaluations(spec: DatasetSpec, home: Home, kind: type[Release]) -> dict[str, Any]:
    """Level → its evaluation, for all that were evaluated; of windows, window → evaluation."""
    folder = Path(home.internal, spec.name, *kind.FOLDER, "evaluation")
    names: Iterable[str] = kind.levels(spec)
    if spec.windows is not None:
        # A window's name has no point in it: those with one are of a sweep over ε.
        names = sorted(one.stem for one in folder.glob("*.json") if "." not in one.stem)
    found = {name: read_document(folder / f"{name}.json") for name in names}
    return {name: one for name, one in found.items() if one is not None}


def _noisy_totals(spec: DatasetSpec, bundles: Mapping[str, Bundle]) -> dict[str, list[float]]:
    """Model → its noisy number of rows and the deviation of that, where it tells one."""
    found = {
        _named_by_windows(spec, bundle): noisy_total(spec, bundle) for bundle in bundles.values()
    }
    return {name: [one.rows, one.deviation] for name, one in found.items() if one is not None}


def _named_by_windows(spec: DatasetSpec, bundle: Bundle) -> str:
    """The model; with how many windows it has counted together, where that is more than one."""
    many, name = len(spec.cut.parse_range(bundle.facts[WINDOW])), bundle.facts["model"]
    return name if many == 1 else f"{name} over {many} {spec.cut.every}s"


def released_bundle(release: Release, pointer: dict[str, str]) -> Bundle:
    """The settled bundle that the pointer of a release names; Damaged where that is another."""
    expected = level_facts(type(release), release.level)
    if release.windows:
        expected[WINDOW] = range_text(release.windows)
    return pointed_bundle(release.spec, release.home, pointer, model=release.name, **expected)


def _comparison_path(spec: DatasetSpec, home: Home, kind: type[Release]) -> Path:
    return Path(home.internal, spec.name, *kind.FOLDER, "comparison", "value.json")


def published_windows(spec: DatasetSpec, home: Home) -> tuple[str, ...]:
    """The windows of which all that is declared was released, oldest first."""
    found: set[str] | None = None
    for one in spec.publications:
        folder, end = (
            Path(home.released, spec.name, one.model),
            f".{epsilon_text(one.epsilon)}.json",
        )
        names = {path.name for path in folder.glob("partition-*.json")}
        ours = (name for name in names if name.endswith(end))
        # A sweep's 0.5 ends like a 5: what is left of it has a dot, which no window has.
        named = (name.removeprefix("partition-").removesuffix(end).split("..") for name in ours)
        own = {each[-1] for each in named if _are_published(spec, each, one.span)}
        found = own if found is None else found & own
    return tuple(sorted(found or (), key=spec.cut.start))


def is_run_dry(spec: DatasetSpec, home: Home, published: Sequence[str]) -> bool:
    """Whether a model tells of next to no rows in the newest published window, and of many in one
    before, by the noisy numbers that were released of them: as where a file has come to its end. A
    smoothed number takes some windows to say so.

    published   oldest first
    """
    newest, *before = map(partial(_released_totals, spec, home), reversed(published))
    dry = {name for name, total in newest.items() if total.is_noise}
    return any(name in dry and total.is_signal for one in before for name, total in one.items())


def _released_totals(spec: DatasetSpec, home: Home, window: str) -> dict[str, NoisyTotal]:
    """Model → its noisy number of rows of a window, where it tells one; none before it was
    evaluated.
    """
    evaluated = read_document(Path(home.internal, spec.name, "evaluation", f"{window}.json")) or {}
    return {name: NoisyTotal(*one) for name, one in evaluated.get("totals", {}).items()}


def _are_published(spec: DatasetSpec, ends: Sequence[str], span: int) -> bool:
    """Whether a pointer is named by the windows of a release of so many: one, or the first and the
    last.
    """
    if any("." in name for name in ends):
        return False
    return len(spec.cut.between(ends[0], ends[-1])) == span


def is_level_complete(options: RunOptions, level: str) -> bool:
    """Whether a run at this level would find everything as it is: then none is started.

    Whatever is damaged, unfinished, of other code or evaluated otherwise does not stand: a run
    says what is wrong, or mends it.
    """
    if options.new_draw or options.snapshot or not is_prepared(options.spec, options.home):
        return False
    try:
        return all(_stands(release) for release in options.at(level))
    except PipelineError:
        return False


def is_prepared(spec: DatasetSpec, home: Home) -> bool:
    """Whether the current snapshot has what a release needs: prepared rows, or what was released of
    it before its rows were taken away.
    """
    snapshot = current_snapshot(home.raw, spec.name, home.ledger.key(spec.population), spec.window)
    if snapshot is None:
        return False
    if snapshot.is_retired():
        # Its rows are gone, and what was released of it is replayed without any.
        return True
    try:
        require_prepared(with_discovered(spec, home), snapshot)
    except NotPrepared:
        return False
    return True


def _stands(release: Release) -> bool:
    home, spec = release.home, release.spec
    key = release.key(require_snapshot(spec, home, release.windows))
    if home.ledger.state(key.digest) != "settled":
        return False
    path = release.store.bundle_path(key, release.postprocessing)
    pointer, evaluated = (
        read_document(pointer_path(release)),
        read_document(evaluation_path(release)),
    )
    named = str(path.relative_to(release.store.root))
    if pointer is None or evaluated is None or pointer["folder"] != named:
        return False
    seen = (evaluated["pointers"].get(release.name) or {}).get("folder")
    if seen != named or evaluated.get("by") != evaluated_by(spec):
        return False
    return require_intact(release, path).facts["code"] == release.version()


def evaluated_by(spec: DatasetSpec) -> str:
    """Digest of what an evaluation or a report is made by: the program's code, the declarations.
    Where the rows come from is none of these: a snapshot says which they are.
    """
    declared = [getattr(spec, field.name) for field in fields(spec) if field.name != "source"]
    return digest_of(program_code(), *map(repr, declared))


def report_made_of(spec: DatasetSpec, home: Home, kind: type[Release]) -> str:
    """Digest of everything that the comparison and the budget report of a data set show."""
    spec = spec.of_all_windows()
    evaluated, ledger = list(evaluations(spec, home, kind).items()), home.ledger
    account = (
        ledger.balance(spec.population),
        other_non_dp_releases(spec, ledger),
        limits_word(spec, home),
    )
    return digest_of(evaluated_by(spec), evaluated, *account)


def is_report_current(options: RunOptions) -> bool:
    """Whether the comparison was made of exactly what there is now."""
    spec, home = options.resolve_spec(), options.home
    try:
        made = read_document(_comparison_path(spec, home, options.kind)) or {}
    except PipelineError:
        return False
    is_there = report_path(options).is_file()
    return is_there and made.get("of") == report_made_of(spec, home, options.kind)


def report_path(options: RunOptions) -> Path:
    """The HTML report of a data set, or the page of its k-anonymous releases."""
    if options.kind.FOLDER:
        return page_path(options.spec, options.home)
    return options.home.reports / f"{options.spec.name}.html"
