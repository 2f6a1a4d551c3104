"""What all assets of a data set have in common: ε, K or windows as partitions; failures of one line
that are never retried; the project's home as a resource; groups, icons and tags.

Code versions are here too: what Dagster compares to say that code has changed since a run. A
released asset's changes exactly when a new draw might give other answers: with the code that
measures, the declarations that are measured, and the model's parameters. A release that is replayed
keeps the version that it was drawn with, so the mark stays until a new draw.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Literal

import dagster as dg

from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import BudgetExceeded, DeclarationError, PipelineError, system_error
from dp_pipeline.config.parameters import texts_of
from dp_pipeline.config.windows import WindowKind, Windows
from dp_pipeline.files import private_files
from dp_pipeline.models import build_model
from dp_pipeline.releases.domain_release import DomainRelease
from dp_pipeline.releases.home import Home, find_home, noise_name
from dp_pipeline.releases.k_anonymous_release import declared_k_anonymity, declared_method
from dp_pipeline.releases.outcome import is_prepared
from dp_pipeline.releases.release import Release, code_version, digest_of
from dp_pipeline.releases.run_options import RunOptions, require_span
from dp_pipeline.results.bundle import Bundle

_RANGE = "dagster/asset_partition_range"
_TAGS = ("dagster/partition", f"{_RANGE}_start", f"{_RANGE}_end")
"""Where a run says which partitions it is for."""

_CRON: dict[WindowKind, str] = {
    "hour": "0 * * * *",
    "day": "0 0 * * *",
    "week": "0 0 * * 1",
    "month": "0 0 1 * *",
    "quarter": "0 0 1 1,4,7,10 *",
    "year": "0 0 1 1 *",
}
_KEYS: dict[WindowKind, str] = {
    "hour": "%Y-%m-%dT%HZ",
    "day": "%Y-%m-%d",
    "week": "%G-W%V-%u",
    "month": "%Y-%m",
    "quarter": "%Y-%m",
    "year": "%Y",
}
"""How Dagster calls a window: as we do, but for a week, which it calls by its Monday, and for a
quarter, which it calls by its first month. Dagster has to read the day from a key.
"""


def window_partitions(windows: Windows) -> dg.TimeWindowPartitionsDefinition:
    """The windows that have ended, as partitions: one more whenever one ends, up to the last."""
    behind = windows.following(windows.last) if windows.last else None
    return dg.TimeWindowPartitionsDefinition(
        start=partition_key(windows, windows.first),
        end=None if behind is None else partition_key(windows, behind),
        fmt=_KEYS[windows.every],
        cron_schedule=_CRON[windows.every],
        timezone=windows.clock.zone,
    )


def partition_key(windows: Windows, name: str) -> str:
    """How Dagster calls a window.

    >>> from dp_pipeline.config.clock import Clock
    >>> partition_key(Windows("at", "week", Clock("timestamp"), "2026-W01"), "2026-W03")
    '2026-W03-1'
    """
    return windows.clock.wall(windows.start(name)).strftime(_KEYS[windows.every])


def window_named(windows: Windows, key: str) -> str | None:
    """The window that Dagster calls so; None where none is."""
    try:
        start = windows.clock.number_of(datetime.strptime(key, _KEYS[windows.every]))
    except ValueError:
        return None
    name = windows.name_at(start)
    return name if partition_key(windows, name) == key else None


def partitions_of(spec: DatasetSpec, kind: type[Release]) -> dg.PartitionsDefinition:
    """The windows of one data set, where its rows are cut; else the listed ε, or K."""
    if spec.windows is not None:
        return window_partitions(spec.windows)
    return dg.StaticPartitionsDefinition(list(kind.levels(spec)))


def raw_partitions(spec: DatasetSpec) -> dg.PartitionsDefinition | None:
    """The windows, where rows are cut; none elsewhere."""
    return None if spec.windows is None else window_partitions(spec.windows)


def of_run(context: dg.AssetExecutionContext, spec: DatasetSpec) -> DatasetSpec:
    """The declaration about the rows of this run: those of its window, where rows are cut."""
    if spec.windows is None:
        return spec
    key = _only_key(context.run.tags)
    name = None if key is None else window_named(spec.windows, key)
    if name is None:
        got = _partitions_text(context.run.tags)
        raise DeclarationError(
            f"{spec.name}: expected one window a run, such as "
            f"{partition_key(spec.windows, spec.windows.first)}, got {got}: launch one run for each"
        )
    return spec.at_window(name)


def options_of_run(
    context: dg.AssetExecutionContext,
    asked: tuple[DatasetSpec, type[Release]],
    pipeline: Pipeline,
    config: WindowConfig | None = None,
) -> RunOptions:
    """What a run is asked for: every model or method at its level; of a window all that is
    published, or all of it as it is configured.

    One level is one run: a failed run then has charged for one partition at most, and a green one
    has released exactly what it names. DeclarationError for a run over no partition, over one that
    is not declared, or over a range of them.
    """
    whole, kind = asked
    spec, names = of_run(context, whole), kind.names(whole)
    if spec.windows is None:
        levels = [_declared_key(context.run.tags, spec, kind)]
        return RunOptions(spec, kind, names, levels, pipeline.home, pipeline.noise)
    swept = config or WindowConfig()
    levels = list(dict.fromkeys(epsilon_text(one.epsilon) for one in spec.publications))
    if swept.epsilon:
        levels = [epsilon_text(spec.partition(swept.epsilon))]
    return RunOptions(
        spec,
        kind,
        names,
        levels,
        pipeline.home,
        pipeline.noise,
        published=not swept.epsilon,
        span=require_span(swept.span),
    )


def _declared_key(tags: Mapping[str, str], spec: DatasetSpec, kind: type[Release]) -> str:
    """The one partition that the tags of a run name, as it is declared.

    Who asks by GraphQL names any text, or none, and Dagster looks it up only where it is used:
    its own errors would say so in many lines.
    """
    declared, key = kind.levels(spec), _only_key(tags)
    if key in declared:
        return str(key)
    raise DeclarationError(
        f"{spec.name}: expected one {kind.SYMBOL} partition a run, of {', '.join(declared)}, got "
        f"{_partitions_text(tags)}: launch one run for each"
    )


def _only_key(tags: Mapping[str, str]) -> str | None:
    named = {tags[name] for name in _TAGS if name in tags}
    return named.pop() if len(named) == 1 else None


def _partitions_text(tags: Mapping[str, str]) -> str:
    named = sorted({tags[name] for name in _TAGS if name in tags})
    return " and ".join(repr(key[:20]) for key in named) or "none"


def when_anything_is_new() -> dg.AutomationCondition:  # type: ignore[type-arg]
    """For a free report over partitions of which nobody need ever ask for all: eager waits until
    none is missing.
    """
    return dg.AutomationCondition.eager().without(~dg.AutomationCondition.any_deps_missing())


def is_for_release(context: dg.AssetExecutionContext, spec: DatasetSpec) -> bool:
    """Whether a run is for an ε or a K: then it prepares only rows that are not prepared. One
    without a partition is for the rows, and prepares them anew; so is one of a window.
    """
    return spec.windows is None and any(name in context.run.tags for name in _TAGS)


def may_leave_rows(context: dg.AssetExecutionContext, spec: DatasetSpec, home: Home) -> bool:
    """Whether a run is for a release, and finds its rows prepared."""
    return is_for_release(context, spec) and is_prepared(spec, home)


@contextmanager
def one_line_failures(spec: DatasetSpec) -> Iterator[None]:
    """The work of one asset: what it writes is for its owner only, in whosever process it runs, and
    a PipelineError becomes a Failure that Dagster does not retry.

    The exit code travels in the metadata, and for a refused budget a small table. What the
    operating system refuses is told with its reason. Of any other error on release data only type
    and place are kept: its words may quote rows, and the event log is read by more people than
    the raw store.
    """
    try:
        with private_files():
            yield
    except PipelineError as error:
        raise failure_of(error) from None
    except Exception as error:
        refused = system_error(error)
        if refused is not None:
            raise dg.Failure(f"{spec.name}: {refused}", allow_retries=False) from None
        if not spec.is_release:
            raise
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(last.filename).name}:{last.lineno}"
        raise dg.Failure(
            f"{spec.name}: unexpected {type(error).__name__} at {place}; its words are left out",
            allow_retries=False,
        ) from None


def failure_of(error: PipelineError) -> dg.Failure:
    """The line of an error with its exit code, never retried."""
    metadata: dict[str, dg.MetadataValue] = {"exit_code": dg.MetadataValue.int(error.exit_code)}
    if isinstance(error, BudgetExceeded):
        amounts = {
            "asked": error.asked,
            "spent": error.spent,
            "left": error.left,
            "ceiling": error.ceiling,
        }
        records = [
            dg.TableRecord({error.symbol: name, "amount": epsilon_text(amount)})
            for name, amount in amounts.items()
        ]
        metadata["budget"] = dg.MetadataValue.table(records)
    return dg.Failure(str(error), metadata=metadata, allow_retries=False)


@dataclass(frozen=True)
class Pipeline:
    """Folders and noise, fixed when the definitions are loaded.

    Not a configurable resource: a launchpad that could point a run at another home
    would point it at another, empty ledger.

    noise   ``opendp`` (default), ``exact``, or ``seeded:NUMBER`` for research on benchmark data
    """

    home: Home
    noise: str = "opendp"

    @classmethod
    def from_environment(cls) -> Pipeline:
        """Home and noise as the environment says; raises DeclarationError without a home."""
        return cls(find_home(), noise_name())


RESOURCE = "dp_pipeline"
"""The resource's name: that of the package, so that no other project has its own called alike."""

PipelineResource = dg.ResourceParam[Pipeline]
"""How an asset asks for it, as its parameter of that name."""


@cache
def resource_of(pipeline: Pipeline) -> dg.ResourceDefinition:
    """One object for one home and noise: Dagster merges definitions that share a resource, and
    refuses those that name two alike.
    """
    return dg.ResourceDefinition.hardcoded_resource(pipeline)


REPEATS = ("dagster/parent_run_id", "dagster/parent_backfill_id")
"""Tags of a run that executes another one again."""


class DrawConfig(dg.Config):
    """new_draw   draw once more, at the full price, although this release exists; a run that is
    executed again finishes or replays what it has paid for, and never draws another
    """

    new_draw: bool = False


class ReleaseConfig(DrawConfig):
    """refine   a smaller declared ε whose release is refined, for what is between the two;
    `previous` for the next smaller one
    """

    refine: str = ""


class WindowConfig(ReleaseConfig):
    """epsilon   of a sweep over one window: a declared ε, in place of those that are published
    span      how many windows each release is of, in place of as many as are published together
    """

    epsilon: str = ""
    span: int = 0


Side = Literal["raw", "release", "monitoring", "k_anonymous"]

_PLACES: dict[Side, int] = {"raw": 1, "release": 2, "monitoring": 3, "k_anonymous": 4}
"""Groups are shown by their names, and a reader follows the rows."""

_ICONS = {"sklearn": "scikitlearn", "generator": "python"}
"""Kinds of sources that Dagster calls otherwise."""


def group_name(spec: DatasetSpec, side: Side) -> str:
    """The group of one side of one data set; collapsed, it is all that Dagster shows."""
    return f"{spec.name}_{_PLACES[side]}_{side}"


def side_tags(spec: DatasetSpec, side: Side) -> dict[str, str]:
    """Tags to filter by."""
    return {"side": side, "purpose": spec.purpose, "population": spec.population}


def source_kind(spec: DatasetSpec) -> str:
    """The kind of the source, by the name under which Dagster knows its icon."""
    return _ICONS.get(spec.source.kind, spec.source.kind)


CODE_TAG = "dagster/code_version"
"""The tag of a materialization that Dagster compares with the asset's own version."""


def raw_code(spec: DatasetSpec) -> str:
    """Of a stage that prepares rows: the code that reads and prepares, and what is declared."""
    return digest_of(code_version(("config", "raw")), spec.digest)


def checking_code(spec: DatasetSpec) -> str:
    """Of the stage that validates rows: also what is declared of its checks alone."""
    return digest_of(raw_code(spec), spec.checks) if spec.checks else raw_code(spec)


def ingesting_code(spec: DatasetSpec) -> str:
    """Of the stage that reads the source: also what is read, wherever the project's folder lies."""
    source = spec.source
    names = [Path(location).name for location in source.locations]
    read = replace(source, location=names[0], more=tuple(names[1:]))
    return digest_of(raw_code(spec), read)


def released_code(
    spec: DatasetSpec, kind: type[Release], name: str, *, drawn: str | None = None
) -> str:
    """Of a release: the code that measures, what is declared, and the parameters.

    drawn   version of the code that a release was drawn with; None: as it is now
    """
    return digest_of(drawn or kind.version(), spec.digest, *_declared_of(spec, kind, name))


def _declared_of(spec: DatasetSpec, kind: type[Release], name: str) -> Iterator[object]:
    """What the answers of a release depend on, beside the code and what is measured."""
    if kind is DomainRelease:
        yield name
    elif kind.FOLDER:
        yield texts_of(declared_method(spec, name), measuring=True)
        declared = declared_k_anonymity(spec)
        # What is declared of other methods, and of other K, changes nothing.
        yield replace(declared, methods={}, partitions=())
        yield spec.label
    else:
        yield spec.evaluation
        model = build_model(spec, name)
        yield from (texts_of(model, measuring=one) for one in (True, False))
        yield [attribute.name for attribute in spec.domain if attribute.whole]


def data_version(bundle: Bundle) -> dg.DataVersion:
    """Of a stored release: the same after every replay, so nothing downstream is called stale."""
    return dg.DataVersion(digest_of(bundle.to_json()))
