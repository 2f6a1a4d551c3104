"""Data sets in another Dagster project: docs/existing_dagster_project.md.

The project keeps its executor, its loggers, its I/O managers and its resources. Dagster refuses
equal names when the definitions are merged. A data set whose file is refused is replaced by an
asset that says why; all other data sets are loaded.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
from dagster.components.utils.translation import ResolvedTranslationFn
from pydantic import Field

from dp_pipeline.config.catalogue import Refusals, collect_refusal, load_dataset
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import DeclarationError, is_name
from dp_pipeline.gate.noise import parse_noise
from dp_pipeline.orchestration.common import RESOURCE, Pipeline, resource_of
from dp_pipeline.orchestration.dataset import chains_of
from dp_pipeline.orchestration.renewal import own_renewal_sensor
from dp_pipeline.releases.home import find_home, home_in, noise_name

__all__ = ["RESOURCE", "DataSets", "dataset_definitions", "pipeline_resource"]


def dataset_definitions(
    *datasets: str | Path,
    home: str | Path | None = None,
    noise: str | None = None,
    resources: bool = True,
    deps: Sequence[dg.AssetKey] = (),
) -> dg.Definitions:
    """Return the Dagster assets, checks, jobs, schedules and sensors of data sets, for a merge.

    datasets      files, as a Path or a text that ends in .yaml; or names, as of
                  `dp-pipeline data list`
    home, noise   arguments of `pipeline_resource`
    resources     False: the project itself has a resource named RESOURCE, by `pipeline_resource`
    deps          assets of the project that write the rows which the data sets read

    Their jobs run in one process each; other runs use the executor of the project. A data set that
    cannot be loaded is shown as a refused asset, with a line that says why.

    Raises DeclarationError for wrong arguments.
    """
    if not datasets:
        raise DeclarationError(
            "dataset_definitions needs at least one data set, but it has none: pass its name or "
            "file"
        )
    if not resources and (home, noise) != (None, None):
        raise DeclarationError(
            f"dataset_definitions takes no {'home' if home is not None else 'noise'} with "
            "resources=False: pass it to pipeline_resource"
        )
    shared = {RESOURCE: pipeline_resource(home=home, noise=noise)} if resources else {}
    return dg.Definitions.merge(dg.Definitions(resources=shared), _definitions(datasets, deps))


def _definitions(datasets: Iterable[str | Path], deps: Sequence[dg.AssetKey]) -> dg.Definitions:
    refused: Refusals = {}
    specs: dict[str, DatasetSpec] = {}
    for dataset in datasets:
        with collect_refusal(Path(dataset).stem, refused):
            spec = load_dataset(dataset)
            if spec.name in specs:
                raise DeclarationError(
                    "The data sets of dataset_definitions must have different names, but "
                    f"{dataset} is repeated: leave one out"
                )
            specs[spec.name] = spec
    chains, placeholders = chains_of(specs.values(), refused)
    sensors = [sensor for spec, _ in chains for sensor in own_renewal_sensor(spec)]
    definitions = [chain for _, chain in chains]
    every = dg.Definitions.merge(placeholders, *definitions, dg.Definitions(sensors=sensors))

    def with_upstream(spec: dg.AssetSpec) -> dg.AssetSpec:
        is_first = spec.key.path[-1] == "ingested"
        return spec.replace_attributes(deps=[*spec.deps, *deps]) if is_first else spec

    return every.map_resolved_asset_specs(func=with_upstream) if deps else every


def pipeline_resource(
    *, home: str | Path | None = None, noise: str | None = None
) -> dg.ResourceDefinition:
    """Return the Dagster resource with the home of the project and its noise source.

    home    folder of rows, releases and ledger, an absolute path; None: as `dp-pipeline` finds it,
            by DP_PIPELINE_HOME or beside the nearest workspace.yaml
    noise   `opendp`, `exact`, or `seeded:NUMBER` for benchmarks; None: that of DP_PIPELINE_NOISE

    The same home and noise give the same object, so that definitions that name it can be merged.
    Raises DeclarationError for a relative path, for another home than that of DP_PIPELINE_HOME, and
    for an unknown noise.
    """
    source = noise_name() if noise is None else noise
    parse_noise(source)
    return resource_of(Pipeline(find_home() if home is None else home_in(Path(home)), source))


_SCAFFOLD = {
    "yaml": """\
type: dp_pipeline.dagster.DataSets

attributes:
  # Data set files beside this one, or anywhere by absolute paths.
  files: [NAME.yaml]
  # Rows, releases and the ledger: one folder for one population, for ever.
  home: "{{ context.project_root }}/data"
  # Assets of this project that write the rows, such as a table of dbt: [analytics/visits]
  deps: []
""",
    "python": """\
from pathlib import Path

import dagster as dg
from dp_pipeline.dagster import DataSets


@dg.component_instance
def load(context: dg.ComponentLoadContext) -> DataSets:
    # Data set files beside this one, or anywhere by absolute paths.
    return DataSets(files=["NAME.yaml"], home=str(Path(context.project_root, "data")))
""",
}
"""What `dg scaffold defs` writes into the project."""

_EXAMPLE = """\
# An example that runs as it is, over made-up rides. Put your own rows in its place: `dp-pipeline
# data init NAME --from FILE` drafts such a file from the names of the columns.
name: NAME
description: Where rides of a made-up city end, and by what. Generated here, handled as sensitive.
# The persons who share one privacy account, for ever, and the most ε that they may ever cost.
population: NAME_riders
purpose: release
protection: {unit: rows_of_person, column: rider, at_most: 5}
ceiling: {total: 4}
# A table that an asset of this project writes: name the asset in `deps`, and here
#   source: {kind: sql, database: duckdb:////path/to/warehouse.duckdb, query: SELECT * FROM rides}
source: {kind: generator, name: rides_stream, options: {seed: 7, rows: 5000}}
attributes:
  x: {bounds: [0, 30], bins: 6}
  y: {bounds: [0, 20], bins: 4}
  vehicle: {levels: [bicycle, scooter, tram, car]}
  member: {levels: ["yes", "no"]}
nominal_rows: 5000
partitions: [0.5, 1]
models:
  htree_kmeans: {k: 8, columns: x y}
  one_shot: {}
publish: {model: one_shot, epsilon: 1}
"""
"""The data set file beside it."""


class DataSetsScaffolder(dg.Scaffolder[Any]):
    """A scaffolder that writes a Dagster component with an example data set."""

    def scaffold(self, request: dg.ScaffoldRequest[Any]) -> None:
        """Write the component, or append it to a file; write its data set file unless it exists."""
        folder, is_yaml = Path(request.target_path), request.scaffold_format == "yaml"
        folder = folder.parent if request.append else folder
        name = folder.name if is_name(folder.name) else "rides"
        text = _SCAFFOLD[request.scaffold_format].replace("NAME", name)
        if request.append:
            with Path(request.target_path).open("a", encoding="utf-8") as file:
                file.write(f"---\n{text}")
        else:
            (folder / ("defs.yaml" if is_yaml else "component.py")).write_text(text, "utf-8")
        example = folder / f"{name}.yaml"
        if not example.exists():
            example.write_text(_EXAMPLE.replace("NAME", name), "utf-8")


@dg.scaffold_with(DataSetsScaffolder)
class DataSets(dg.Component, dg.Model, dg.Resolvable):
    """A Dagster component whose defs.yaml names the files of its data sets.

    Declarations cannot stand in the defs.yaml itself: Dagster would turn texts into numbers, dates
    and truth values, so that the level `no` became another one.

    files         beside the defs.yaml, or anywhere by absolute paths
    home          an absolute path, such as `{{ context.project_root }}/data`
    noise         `opendp`, `exact` or `seeded:NUMBER`, as for `pipeline_resource`
    deps          keys of assets that write the rows, such as `analytics/visits` of dbt
    translation   attributes of the assets, such as `group_name: privacy`, as in other components of
                  Dagster; keys do not change
    """

    files: list[str]
    home: str
    noise: str | None = None
    deps: list[str] = Field(default_factory=list)
    translation: ResolvedTranslationFn[dg.AssetSpec] = None

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return the Dagster definitions of all files of the component."""
        # For a component.py the path is that of the file itself.
        folder = context.path.parent if context.path.is_file() else context.path
        files = [folder / file for file in self.files]
        resources = {RESOURCE: pipeline_resource(home=self.home, noise=self.noise)}
        deps = [dg.AssetKey.from_user_string(key) for key in self.deps]
        every = dg.Definitions.merge(dg.Definitions(resources=resources), _definitions(files, deps))
        translate = self.translation
        if translate is None:
            return every
        return every.map_resolved_asset_specs(func=lambda spec: translate(spec, spec))
