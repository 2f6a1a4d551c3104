"""Parts of all assets: the home as a resource, configuration of runs, failures, and labels."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, Self, TypedDict

import dagster as dg

from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import BudgetExceeded, PipelineError
from dp_pipeline.config.system_errors import system_error
from dp_pipeline.files import private_files
from dp_pipeline.releases.epsilon_release import EpsilonRelease
from dp_pipeline.releases.home import Home, find_home, noise_name
from dp_pipeline.releases.k_anonymous_release import KAnonymousRelease
from dp_pipeline.releases.release import Release

RELEASE_KINDS: tuple[type[Release], ...] = (EpsilonRelease, KAnonymousRelease)
"""Releases at levels, in the order in which their assets are shown."""


@dataclass(frozen=True)
class Pipeline:
    """The home and the noise source, which are fixed when Dagster loads the definitions.

    They are no configuration of a run: one with another home would have another, unspent ledger.

    noise   ``opendp`` (default), ``exact``, or ``seeded:NUMBER`` for research on benchmark data
    """

    home: Home
    noise: str = "opendp"

    @classmethod
    def from_environment(cls) -> Self:
        """Return home and noise from environment variables; DeclarationError without a home."""
        return cls(find_home(), noise_name())


RESOURCE = "dp_pipeline"
"""The resource's name: that of the package, so that no resource of another project has it."""

PipelineResource = dg.ResourceParam[Pipeline]
"""The type of the parameter ``dp_pipeline``, by which an asset gets the resource."""


@cache
def resource_of(pipeline: Pipeline) -> dg.ResourceDefinition:
    """Return the Dagster resource of a home and noise, the same object for equal ones."""
    return dg.ResourceDefinition.hardcoded_resource(pipeline)


class DrawConfig(dg.Config):
    """The configuration of a run that draws one release.

    new_draw   draw once more, at the full price, although this release exists; a run that is
               executed again finishes or replays what it has paid for, and never draws another
    """

    new_draw: bool = False


class ReleaseConfig(DrawConfig):
    """The configuration of a run at one ε.

    refine   a smaller declared ε whose release is refined, for the difference of the two;
             `previous` for the next smaller one
    """

    refine: str = ""


class WindowConfig(ReleaseConfig):
    """The configuration of a run over one time window.

    epsilon   a declared ε to release, instead of those that are published
    span      number of windows of each release, instead of the declared number
    """

    epsilon: str = ""
    span: int = 0


def config_of_run(context: dg.AssetExecutionContext) -> WindowConfig:
    return WindowConfig(**(context.op_execution_context.op_config or {}))


_RERUN_TAGS = ("dagster/parent_run_id", "dagster/parent_backfill_id")


def wants_new_draw(context: dg.AssetExecutionContext, config: DrawConfig) -> bool:
    """Return whether a run is configured to draw anew and is not a run executed again."""
    is_rerun = any(tag in context.run.tags for tag in _RERUN_TAGS)
    return config.new_draw and not is_rerun


def run_facts(context: dg.AssetExecutionContext) -> dict[str, str]:
    """Return the id of a run and the name of its asset, for the ledger."""
    return {"run": context.run.run_id, "asset": context.asset_key.to_user_string()}


def on_any_update() -> dg.AutomationCondition:  # type: ignore[type-arg]
    """Return the condition under which Dagster renews a report after any update, at no cost.

    The condition ``eager`` alone waits until no update is missing."""
    return dg.AutomationCondition.eager().without(~dg.AutomationCondition.any_deps_missing())


@contextmanager
def one_line_failures(spec: DatasetSpec) -> Iterator[None]:
    """Make files of the block private; turn its errors into Dagster failures without a retry.

    A PipelineError has its message, an error of the operating system its reason. Other errors
    pass on benchmark data. On release data only their type and place are reported: a text may quote
    rows, and more people read the event log than the raw store."""
    try:
        with private_files():
            yield
    except PipelineError as error:
        metadata: dict[str, dg.MetadataValue] = {"exit_code": dg.MetadataValue.int(error.exit_code)}
        if isinstance(error, BudgetExceeded):
            records = [
                dg.TableRecord({error.symbol: name, "amount": epsilon_text(getattr(error, name))})
                for name in ("requested", "spent", "left", "ceiling")
            ]
            metadata["budget"] = dg.MetadataValue.table(records)
        raise dg.Failure(str(error), metadata=metadata, allow_retries=False) from None
    except Exception as error:
        reason = system_error(error)
        if reason is not None:
            raise dg.Failure(f"{spec.name}: {reason}", allow_retries=False) from None
        if not spec.is_release:
            raise
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(last.filename).name}:{last.lineno}"
        raise dg.Failure(
            f"{spec.name}: an unexpected {type(error).__name__} was raised at {place}: report it "
            "(its text may show rows, so it is left out)",
            allow_retries=False,
        ) from None


Side = Literal["raw", "release", "monitoring", "k_anonymous"]

_GROUP_ORDER: dict[Side, int] = {"raw": 1, "release": 2, "monitoring": 3, "k_anonymous": 4}
"""Numbers in front of the names of groups, by which Dagster sorts them."""

_SOURCE_ICONS = {"sklearn": "scikitlearn", "generator": "python"}
"""Kind of a source → Dagster's name of its icon, where the two differ."""


class AssetLabels(TypedDict):
    """The group, icons, tags and owners that an asset is labelled with."""

    group_name: str
    kinds: set[str]
    tags: dict[str, str]
    owners: list[str]


def asset_labels(
    spec: DatasetSpec, side: Side, *, group: Side | None = None, kinds: set[str]
) -> AssetLabels:
    """Return the group, icons, tags and owners of an asset, as arguments for Dagster.

    side    the tag to filter by
    group   the group, if it differs from ``side``
    kinds   Dagster's names of the icons
    """
    group = group or side
    return {
        "group_name": f"{spec.name}_{_GROUP_ORDER[group]}_{group}",
        "kinds": kinds,
        "tags": {"side": side, "purpose": spec.purpose, "population": spec.population},
        "owners": list(spec.owners),
    }


def source_icon(spec: DatasetSpec) -> str:
    return _SOURCE_ICONS.get(spec.source.kind, spec.source.kind)
