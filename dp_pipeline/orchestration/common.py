"""What all assets of a data set have in common: ε, or K, as partitions; failures of one line that
are never retried; the project's home as a resource; groups, icons and tags; files in place of
values between assets, written whole or not at all.

Code versions are here too: what Dagster compares to say that code has changed since a run. A
released asset's changes exactly when a new draw might give other answers: with the code that
measures, the declarations that are measured, and the model's parameters. A release that is replayed
keeps the version that it was drawn with, so the mark stays until a new draw.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import dagster as dg

from dp_pipeline.publish.home import Home, find_home, noise_name
from dp_pipeline.publish.release import Release, code_version, digest_of
from dp_pipeline.publish.replay import document, read_json
from dp_pipeline.publish.store import write_atomically
from dp_pipeline.release.bundle import Bundle
from dp_pipeline.spec.amounts import epsilon_text
from dp_pipeline.spec.dataset import DatasetSpec
from dp_pipeline.spec.errors import BudgetExceeded, DeclarationError, PipelineError, system_error

_RANGE = "dagster/asset_partition_range"
_TAGS = ("dagster/partition", f"{_RANGE}_start", f"{_RANGE}_end")
"""Where a run says which partitions it is for."""


def partitions_of(spec: DatasetSpec, kind: type[Release]) -> dg.StaticPartitionsDefinition:
    """The listed ε, or K, of one data set."""
    return dg.StaticPartitionsDefinition(list(kind.levels(spec)))


def level_of(context: dg.AssetExecutionContext, spec: DatasetSpec, kind: type[Release]) -> str:
    """The ε or K of this run; DeclarationError for a run over none, over one that is not declared,
    or over a range of partitions.

    One level is one run: a failed run then has charged for one partition at most, and
    a green one has released exactly what it names.
    """
    return _only(context.run.tags, spec, kind.SYMBOL, kind.levels(spec))


def _only(tags: Mapping[str, str], spec: DatasetSpec, symbol: str, declared: Sequence[str]) -> str:
    """The one partition that the tags of a run name, as it is declared.

    Who asks by GraphQL names any text, or none, and Dagster looks it up only where it is used:
    its own errors would say so in many lines.
    """
    named = sorted({tags[name] for name in _TAGS if name in tags})
    if len(named) == 1 and named[0] in declared:
        return named[0]
    got = " and ".join(repr(key[:20]) for key in named) or "none"
    raise DeclarationError(
        f"{spec.name}: expected one {symbol} partition a run, of {', '.join(declared)}, got {got}: "
        "launch one run for each"
    )


def when_anything_is_new() -> dg.AutomationCondition:  # type: ignore[type-arg]
    """For a free report over partitions of which nobody need ever ask for all: eager waits until
    none is missing.
    """
    return dg.AutomationCondition.eager().without(~dg.AutomationCondition.any_deps_missing())


@contextmanager
def one_line_failures(spec: DatasetSpec) -> Iterator[None]:
    """Turn a PipelineError into a Failure that Dagster does not retry.

    The exit code travels in the metadata, and for a refused budget a small table. What the
    operating system refuses is told with its reason. Of any other error on release data only type
    and place are kept: its words may quote rows, and the event log is read by more people than
    the raw store.
    """
    try:
        yield
    except PipelineError as error:
        raise failure_of(error) from None
    except Exception as error:
        refused = system_error(error)
        if refused is not None:
            raise dg.Failure(f"{spec.name}: {refused}", allow_retries=False) from None
        if not spec.is_release:
            raise
        raise dg.Failure(_without_words(spec, error), allow_retries=False) from None


def failure_of(error: PipelineError) -> dg.Failure:
    """The line of an error with its exit code, never retried."""
    metadata: dict[str, dg.MetadataValue] = {"exit_code": dg.MetadataValue.int(error.exit_code)}
    if isinstance(error, BudgetExceeded):
        metadata["budget"] = _budget_table(error)
    return dg.Failure(str(error), metadata=metadata, allow_retries=False)


def _without_words(spec: DatasetSpec, error: Exception) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(last.filename).name}:{last.lineno}"
    return f"{spec.name}: unexpected {type(error).__name__} at {place}; its words are left out"


def _budget_table(error: BudgetExceeded) -> dg.MetadataValue:
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
    return dg.MetadataValue.table(records)


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


PipelineResource = dg.ResourceParam[Pipeline]
"""How an asset asks for it."""


REPEATS = ("dagster/parent_run_id", "dagster/parent_backfill_id")
"""Tags of a run that executes another one again."""


class ReleaseConfig(dg.Config):
    """new_draw   draw once more, at the full price, although this release exists; a run that is
    executed again finishes or replays what it has paid for, and never draws another
    """

    new_draw: bool = False


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


class PointerIOManager(dg.IOManager):
    """Which bundle is the one of a partition: a small file that names its folder.

    The bundle itself lies in the store before its charge is settled; the pointer
    is what a materialization adds. A partition that was never released loads as None.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def handle_output(self, context: dg.OutputContext, obj: dict[str, str]) -> None:
        """Point the partition at the folder of its bundle."""
        path = self._path(context.asset_key, context.partition_key)
        write_atomically(path, document(obj))

    def load_input(self, context: dg.InputContext) -> dict[str, str] | None:
        """The pointer of one partition, or None; None for a range, which the asset refuses."""
        if len(context.asset_partition_keys) != 1:
            return None
        path = self._path(context.asset_key, context.asset_partition_key)
        pointer: dict[str, str] | None = _read_in_dagster(path)
        return pointer

    def _path(self, key: dg.AssetKey, partition: str) -> Path:
        return Path(self._root, *key.path, f"partition-{partition}.json")


class JsonIOManager(dg.IOManager):
    """One JSON file an asset or partition."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
        """Write the value of one partition, or of an asset without partitions."""
        name = context.partition_key if context.has_partition_key else "value"
        path = Path(self._root, *context.asset_key.path, f"{name}.json")
        write_atomically(path, document(obj))

    def load_input(self, context: dg.InputContext) -> dict[str, Any]:
        """Partition → value for all partitions that were ever written."""
        folder = Path(self._root, *context.asset_key.path)
        found = {
            key: _read_in_dagster(folder / f"{key}.json") for key in context.asset_partition_keys
        }
        return {key: value for key, value in found.items() if value is not None}


def _read_in_dagster(path: Path) -> Any:
    """``read_json``; what is wrong as one line, where no asset runs yet that could say it."""
    try:
        return read_json(path)
    except PipelineError as error:
        raise failure_of(error) from None


CODE_TAG = "dagster/code_version"
"""The tag of a materialization that Dagster compares with the asset's own version."""


def raw_code(spec: DatasetSpec) -> str:
    """Of a stage that prepares rows: the code that reads and prepares, and what is declared."""
    return digest_of(code_version(("raw", "spec")), spec.digest)


def checking_code(spec: DatasetSpec) -> str:
    """Of the stage that validates rows: also what is declared of its checks alone."""
    return digest_of(raw_code(spec), spec.checks) if spec.checks else raw_code(spec)


def ingesting_code(spec: DatasetSpec) -> str:
    """Of the stage that reads the source: also what is read, wherever the project's folder lies."""
    source = spec.source
    names = [Path(location).name for location in source.locations]
    read = replace(source, location=names[0], more=tuple(names[1:]))
    return digest_of(raw_code(spec), read)


def data_version(bundle: Bundle) -> dg.DataVersion:
    """Of a stored release: the same after every replay, so nothing downstream is called stale."""
    return dg.DataVersion(digest_of(bundle.to_json()))
