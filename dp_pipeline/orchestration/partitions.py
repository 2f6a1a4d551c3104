"""Partitions of a data set: ε, K or closed time windows, and the options of a run over one.

One partition is one run: a failed run has charged for one partition at most, and a successful one
has released exactly its partition.
"""

from collections.abc import Mapping
from datetime import datetime

import dagster as dg

from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.config.calendar import Period
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.windows import Windows
from dp_pipeline.orchestration.common import Pipeline, WindowConfig
from dp_pipeline.releases.outcome import is_prepared
from dp_pipeline.releases.release import Release
from dp_pipeline.releases.run_options import RunOptions, require_span

_RANGE = "dagster/asset_partition_range"
_PARTITION_TAGS = ("dagster/partition", f"{_RANGE}_start", f"{_RANGE}_end")

_CRON: dict[Period, str] = {
    "hour": "0 * * * *",
    "day": "0 0 * * *",
    "week": "0 0 * * 1",
    "month": "0 0 1 * *",
    "quarter": "0 0 1 1,4,7,10 *",
    "year": "0 0 1 1 *",
}
_KEY_FORMATS: dict[Period, str] = {
    "hour": "%Y-%m-%dT%HZ",
    "day": "%Y-%m-%d",
    "week": "%G-W%V-%u",
    "month": "%Y-%m",
    "quarter": "%Y-%m",
    "year": "%Y",
}
"""Form of a window's key, from which Dagster reads its first day: a week has its Monday, a quarter
its first month.
"""


def partition_key(windows: Windows, name: str) -> str:
    """Return Dagster's partition key of a window.

    >>> from dp_pipeline.config.clock import Clock
    >>> partition_key(Windows("at", "week", Clock("timestamp"), "2026-W01"), "2026-W03")
    '2026-W03-1'
    """
    return windows.clock.wall_time(windows.start(name)).strftime(_KEY_FORMATS[windows.every])


def window_of_key(windows: Windows, key: str) -> str | None:
    """Return the window with a partition key; None if there is none."""
    try:
        start = windows.clock.number_of(datetime.strptime(key, _KEY_FORMATS[windows.every]))
        name = windows.name_at(start)
    except (ValueError, OverflowError):
        return None
    return name if windows.is_name(name) and partition_key(windows, name) == key else None


def release_partitions(spec: DatasetSpec, kind: type[Release]) -> dg.PartitionsDefinition:
    """Return the partitions of a data set's releases: its windows, or else its ε or K."""
    return raw_partitions(spec) or dg.StaticPartitionsDefinition(list(kind.levels(spec)))


def raw_partitions(spec: DatasetSpec) -> dg.PartitionsDefinition | None:
    """Return the closed windows of a data set's rows as partitions; None without windows.

    Each window becomes a partition when it ends."""
    windows = spec.windows
    if windows is None:
        return None
    last = windows.last
    return dg.TimeWindowPartitionsDefinition(
        start=partition_key(windows, windows.first),
        end=partition_key(windows, windows.following(last)) if last else None,
        fmt=_KEY_FORMATS[windows.every],
        cron_schedule=_CRON[windows.every],
        timezone=windows.clock.zone,
    )


def spec_of_run(context: dg.AssetExecutionContext, spec: DatasetSpec) -> DatasetSpec:
    """Return the data set at the time window of a run; unchanged if its rows have no windows.

    Raises DeclarationError for a run over no window, over several, or over an unknown one."""
    if spec.windows is None:
        return spec
    key = _single_key(context.run.tags)
    name = None if key is None else window_of_key(spec.windows, key)
    if name is None:
        raise DeclarationError(
            f"{spec.name}: a run must have one window, such as "
            f"{partition_key(spec.windows, spec.windows.first)}, not "
            f"{_keys_text(context.run.tags)}"
        )
    return spec.at_window(name)


def options_of_run(
    context: dg.AssetExecutionContext,
    dataset: DatasetSpec,
    kind: type[Release],
    pipeline: Pipeline,
    config: WindowConfig,
) -> RunOptions:
    """Return the options of a run: every model at its ε or K, or all publications of its window; if
    ``config`` names an ε, every model at that ε over its window.

    Raises DeclarationError for a run over no partition, an undeclared one, or a range of them."""
    spec, names = spec_of_run(context, dataset), kind.names(dataset)
    if spec.windows is None:
        declared, key = kind.levels(spec), _single_key(context.run.tags)
        if key is None or key not in declared:
            # A GraphQL client may name any text, or none; Dagster's own error has many lines.
            raise DeclarationError(
                f"{spec.name}: a run must have one {kind.SYMBOL} partition of "
                f"{', '.join(declared)}, not {_keys_text(context.run.tags)}"
            )
        return RunOptions(spec, kind, names, [key], pipeline.home, pipeline.noise)
    levels = list(dict.fromkeys(epsilon_text(entry.epsilon) for entry in spec.publications))
    if config.epsilon:
        levels = [epsilon_text(spec.partition(config.epsilon))]
    return RunOptions(
        spec,
        kind,
        names,
        levels,
        pipeline.home,
        pipeline.noise,
        published=not config.epsilon,
        span=require_span(config.span),
    )


def _tagged_keys(tags: Mapping[str, str]) -> list[str]:
    return sorted({tags[name] for name in _PARTITION_TAGS if name in tags})


def _single_key(tags: Mapping[str, str]) -> str | None:
    keys = _tagged_keys(tags)
    return keys[0] if len(keys) == 1 else None


def _keys_text(tags: Mapping[str, str]) -> str:
    """Return the partition keys of a run that is refused, and what to do."""
    keys = [repr(key[:20]) for key in _tagged_keys(tags)]
    remedy = "launch one run for each" if len(keys) > 1 else "choose a declared one"
    return f"{' and '.join(keys) or 'none'}: {remedy}"


def is_release_run(context: dg.AssetExecutionContext, spec: DatasetSpec) -> bool:
    """Return whether a run is for an ε or a K: it then prepares rows only if they are not prepared.

    A run without a partition, or for a window, prepares its rows anew.
    """
    return spec.windows is None and bool(_tagged_keys(context.run.tags))


def can_reuse_rows(
    context: dg.AssetExecutionContext, spec: DatasetSpec, pipeline: Pipeline
) -> bool:
    """Return whether a run is for an ε or a K, and its rows are prepared already."""
    return is_release_run(context, spec) and is_prepared(spec, pipeline.home)
