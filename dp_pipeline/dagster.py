"""Data sets in a Dagster project that is there already: docs/existing_dagster_project.md.

What a project has of its own stays as it is: its executor, its loggers, its I/O managers, its
resources. What is called alike is refused by Dagster when the definitions are merged.
"""

from __future__ import annotations

from pathlib import Path

import dagster as dg

from dp_pipeline.gate.noise import named_noise
from dp_pipeline.orchestration.common import RESOURCE, Pipeline, resource_of
from dp_pipeline.orchestration.dataset import dataset_assets
from dp_pipeline.publish.home import find_home, home_in, noise_name
from dp_pipeline.spec.discovery import load_dataset
from dp_pipeline.spec.errors import DeclarationError

__all__ = ["RESOURCE", "DataSets", "dataset_definitions", "pipeline_resource"]


def dataset_definitions(
    *datasets: str | Path,
    home: str | Path | None = None,
    noise: str | None = None,
    resources: bool = True,
) -> dg.Definitions:
    """Assets, checks, jobs, schedules and sensors of data sets, to be merged with others.

    datasets    files, as a Path or a text that ends in .yaml; or names, as `dp-pipeline data list`
                shows them
    home, noise as of `pipeline_resource`
    resources   False: the project has a resource called RESOURCE itself, by `pipeline_resource`

    No executor is among them: jobs run as the project says.

    Raises DeclarationError, in one line, for what is declared wrong.
    """
    if not datasets:
        raise DeclarationError("dataset_definitions: expected a data set, got none")
    if not resources and (home, noise) != (None, None):
        raise DeclarationError(
            "dataset_definitions: expected neither home nor noise with resources=False, got "
            f"{'home' if home is not None else 'noise'}: hand it to pipeline_resource"
        )
    shared = {RESOURCE: pipeline_resource(home=home, noise=noise)} if resources else {}
    chains = [dataset_assets(load_dataset(one)) for one in datasets]
    return dg.Definitions.merge(dg.Definitions(resources=shared), *chains)


def pipeline_resource(
    *, home: str | Path | None = None, noise: str | None = None
) -> dg.ResourceDefinition:
    """Where rows, releases and the ledger are, and who draws the noise, for the name RESOURCE.

    home    an absolute path; None: as `dp-pipeline` finds it, by DP_PIPELINE_HOME or beside the
            nearest workspace.yaml
    noise   `opendp`, `exact`, or `seeded:NUMBER` for benchmarks; None: as DP_PIPELINE_NOISE says

    The same home and noise give the same object, so that definitions that name it can be merged.
    Raises DeclarationError for a relative path, for another home than DP_PIPELINE_HOME names, and
    for a noise that is not known.
    """
    chosen = noise_name() if noise is None else noise
    named_noise(chosen)
    return resource_of(Pipeline(find_home() if home is None else home_in(Path(home)), chosen))


class DataSets(dg.Component, dg.Model, dg.Resolvable):
    """Data sets as a component of `dg`, whose defs.yaml names their files.

    What a file declares cannot stand in the defs.yaml: Dagster reads its texts as numbers, dates
    and truth values before anybody sees them, and `no` would be another level.

    files    beside the defs.yaml, or anywhere by absolute paths
    home     an absolute path, such as `{{ context.project_root }}/data`
    noise    as of `pipeline_resource`
    """

    files: list[str]
    home: str
    noise: str | None = None

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Those of all files."""
        files = [Path(context.path, file) for file in self.files]
        return dataset_definitions(*files, home=self.home, noise=self.noise)
