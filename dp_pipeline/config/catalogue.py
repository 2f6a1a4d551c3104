"""Which data sets there are: the built-in files, and those in a folder of the user's.

A shell that completes their names waits for this file: what reads declarations is imported late.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from dp_pipeline.config.errors import DeclarationError, PipelineError, one_of
from dp_pipeline.config.source import DATA_FOLDER_VARIABLE

if TYPE_CHECKING:
    from dp_pipeline.config.dataset import DatasetSpec

BUILT_IN = Path(str(resources.files("dp_pipeline") / "datasets"))
DATASETS_VARIABLE = "DP_PIPELINE_DATASETS"
SHOWN_VARIABLE = "DP_PIPELINE_SHOWN"
"""Names, with spaces between, of the data sets that Dagster shows; all where it is not set."""


def dataset_files() -> dict[str, Path]:
    """Name → file of every declared data set; DeclarationError when a name stands twice."""
    files: dict[str, Path] = {}
    for folder in _folders():
        for path in sorted(folder.glob("*.yaml")):
            if path.stem in files:
                raise DeclarationError(
                    f"{path}: expected a name of its own, got the name of {files[path.stem]}"
                )
            files[path.stem] = path
    return files


def _folders() -> Iterator[Path]:
    yield BUILT_IN
    own = os.environ.get(DATASETS_VARIABLE)
    if own:
        if not Path(own).is_dir():
            raise DeclarationError(
                f"{DATASETS_VARIABLE}: expected a folder, got {own!r}: "
                f"`export {DATASETS_VARIABLE}=FOLDER`, or unset it"
            )
        yield Path(own)


Refusals = dict[str, str]
"""Name of a data set → the line that says what its file declares wrongly."""


def available_datasets(refused: Refusals | None = None) -> tuple[DatasetSpec, ...]:
    """Every data set that is to be shown and whose source is available here; no source is opened.

    refused   to be filled with the files that declare something wrongly, which are then left out;
              None: the first of them is raised

    A file that needs a variable, of a data folder or a database, is left out where it is not set.
    One that is not to be shown is not even read.
    """
    from dp_pipeline.config.parser import load_spec

    specs = []
    for path in _shown(dataset_files()):
        with collect_refusal(path.stem, refused):
            specs.append(load_spec(path))
    return tuple(spec for spec in specs if is_available(spec))


@contextmanager
def collect_refusal(name: str, refused: Refusals | None) -> Iterator[None]:
    """Note what one data set is refused for, so that all others stand; None: raise it."""
    try:
        yield
    except PipelineError as error:
        if refused is None:
            raise
        refused[name] = str(error)


def _shown(files: Mapping[str, Path]) -> list[Path]:
    names = os.environ.get(SHOWN_VARIABLE, "").split() or list(files)
    unknown = [name for name in names if name not in files]
    if unknown:
        raise DeclarationError(f"{SHOWN_VARIABLE}: expected {one_of(files, unknown[0])}")
    return [path for name, path in files.items() if name in names]


def is_available(spec: DatasetSpec) -> bool:
    """Whether the environment names what the source needs: nothing, for what can be downloaded."""
    return spec.source.needs is None or bool(os.environ.get(spec.source.needs))


def load_dataset(dataset: str | Path) -> DatasetSpec:
    """The declaration of a data set: no source is opened.

    dataset   the name of one that is built in or in ``$DP_PIPELINE_DATASETS``; or a file, as a
              path or as a text that ends in .yaml

    Raises DeclarationError for the first mistake of a file, with its line; for a name that is none
    or another file's; and where the environment does not name what the source needs.

    >>> import dp_pipeline as dp
    >>> census = dp.load_dataset("census")
    >>> census.name, census.population, census.partition_keys
    ('census', 'city_census', ('0.1', '0.5', '1'))
    """
    from dp_pipeline.config.parser import load_spec

    if isinstance(dataset, str) and not dataset.endswith(".yaml"):
        return find_spec(dataset)
    file = Path(dataset)
    spec = load_spec(file)
    require_own_name(spec, file)
    require_available(spec)
    return spec


def find_spec(name: str) -> DatasetSpec:
    """The data set called ``name``; DeclarationError if there is none, or not here."""
    from dp_pipeline.config.parser import load_spec

    spec = load_spec(file_of(name))
    require_available(spec)
    return spec


def require_own_name(spec: DatasetSpec, file: Path) -> None:
    """DeclarationError where another file declares a data set of the same name."""
    other = dataset_files().get(spec.name)
    if other is not None and not other.samefile(file):
        raise DeclarationError(
            f"{file}: expected a name of its own, got that of {other}: rename the file and its name"
        )


def file_of(name: str) -> Path:
    """The file of the data set called ``name``; DeclarationError if there is none."""
    files = dataset_files()
    if name not in files:
        raise DeclarationError(
            f"data set: expected {one_of(files, name)} (`dp-pipeline data list` shows them; "
            f"`export {DATASETS_VARIABLE}=FOLDER` adds your own)"
        )
    return files[name]


def require_available(spec: DatasetSpec) -> None:
    """DeclarationError where the environment does not name what the source needs."""
    needs = spec.source.needs
    if not is_available(spec):
        value = "FOLDER" if needs == DATA_FOLDER_VARIABLE else "URL"
        raise DeclarationError(
            f"{spec.name}: expected the variable {needs}, which says where its rows are, got none: "
            f"`export {needs}={value}`"
        )
