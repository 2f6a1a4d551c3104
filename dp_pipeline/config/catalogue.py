"""The catalogue of data set files: the built-in ones, and those in the user's own folder.

A shell that completes their names waits for this module, so the parser is imported late.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from dp_pipeline.config.errors import DeclarationError, PipelineError, did_you_mean
from dp_pipeline.config.source import DATA_FOLDER_VARIABLE

if TYPE_CHECKING:
    from dp_pipeline.config.dataset import DatasetSpec

BUILT_IN = Path(str(resources.files("dp_pipeline") / "datasets"))
DATASETS_VARIABLE = "DP_PIPELINE_DATASETS"
SHOWN_VARIABLE = "DP_PIPELINE_SHOWN"
"""Variable with the names of the data sets that Dagster shows, separated by spaces. Unset: those of
the user, or the built-in ones for a user who has none.
"""


def dataset_files() -> dict[str, Path]:
    """Return data set → its file, of the built-in ones and the user's own.

    DeclarationError if two files have one name, or if ``$DP_PIPELINE_DATASETS`` is no folder.
    """
    own = os.environ.get(DATASETS_VARIABLE)
    if own and not Path(own).is_dir():
        raise DeclarationError(
            f"The variable {DATASETS_VARIABLE} must name a folder, not {own!r}: `export "
            f"{DATASETS_VARIABLE}=FOLDER`, or unset it"
        )
    files: dict[str, Path] = {}
    for folder in (BUILT_IN, Path(own)) if own else (BUILT_IN,):
        for path in sorted(folder.glob("*.yaml")):
            if path.stem in files:
                raise DeclarationError(
                    f"{path}: the data set file needs a name of its own, but {files[path.stem]} "
                    "has the same: rename your file, and `name` in it"
                )
            files[path.stem] = path
    return files


Refusals = dict[str, str]
"""Name of a data set → the error of its file."""


def load_all() -> tuple[dict[str, DatasetSpec], Refusals]:
    """Return (valid declarations, messages of the errors of other files), both by data set.

    The user's own data sets come first. DeclarationError as for ``dataset_files``.
    """
    from dp_pipeline.config.parser import load_spec

    specs: dict[str, DatasetSpec] = {}
    refused: Refusals = {}
    for name, path in sorted(dataset_files().items(), key=lambda item: item[1].parent == BUILT_IN):
        with collect_refusal(name, refused):
            specs[name] = load_spec(path)
    return specs, refused


def available_datasets(refused: Refusals | None = None) -> tuple[DatasetSpec, ...]:
    """Return the data sets shown in Dagster whose source has the environment variable it needs.

    refused   collects the errors of wrong files, which are left out; None: the first is raised

    Dagster shows those that ``SHOWN_VARIABLE`` lists; without it the user's own, or else the
    built-in ones. DeclarationError for an unknown name in the list. No source is opened, and no
    file of another data set is read.
    """
    from dp_pipeline.config.parser import load_spec

    files, specs = dataset_files(), []
    own = [name for name, path in files.items() if path.parent != BUILT_IN]
    shown_names = os.environ.get(SHOWN_VARIABLE, "").split() or own or list(files)
    unknown = [name for name in shown_names if name not in files]
    if unknown:
        raise DeclarationError(
            f"The variable {SHOWN_VARIABLE} must list names of data sets, but {unknown[0][:60]!r} "
            f"is none{did_you_mean(unknown[0], files)}: correct it, or unset the variable "
            "(`dp-pipeline data list` shows the names)"
        )
    for name in (name for name in files if name in shown_names):
        with collect_refusal(name, refused):
            specs.append(load_spec(files[name]))
    return tuple(spec for spec in specs if is_available(spec))


@contextmanager
def collect_refusal(name: str, refused: Refusals | None) -> Iterator[None]:
    """Record the message of a PipelineError of the block under ``name`` in ``refused``.

    The error is raised if ``refused`` is None.
    """
    try:
        yield
    except PipelineError as error:
        if refused is None:
            raise
        refused[name] = str(error)


def is_available(spec: DatasetSpec) -> bool:
    """Return whether the environment variable that the source needs, if any, is set."""
    return spec.source.needs is None or bool(os.environ.get(spec.source.needs))


def load_dataset(dataset: str | Path) -> DatasetSpec:
    """Return the declaration of a data set, without opening its source.

    dataset   the name of a data set that is built in or in ``$DP_PIPELINE_DATASETS``; or a file,
              as a path or as a text that ends in .yaml

    DeclarationError for the first mistake of a file, with its line; for an unknown name, or that of
    another file; for a variable that is not set; and for a value that is neither name nor path.

    >>> import dp_pipeline as dp
    >>> census = dp.load_dataset("census")
    >>> census.name, census.population, census.partition_keys
    ('census', 'city_census', ('0.1', '0.5', '1'))
    """
    from dp_pipeline.config.parser import load_spec
    from dp_pipeline.config.system_errors import to_path

    if isinstance(dataset, str) and not dataset.endswith(".yaml"):
        return find_spec(dataset)
    file = to_path(dataset, of="dataset")
    spec = load_spec(file)
    require_own_name(spec, file)
    require_available(spec)
    return spec


def find_spec(name: str) -> DatasetSpec:
    """Return the declaration of the data set ``name``.

    DeclarationError for an unknown name, a mistake in the file, and an environment variable that
    the source needs and that is not set.
    """
    from dp_pipeline.config.parser import load_spec

    spec = load_spec(file_of(name))
    require_available(spec)
    return spec


def require_own_name(spec: DatasetSpec, file: Path) -> None:
    """Raise DeclarationError if a file of the catalogue other than ``file`` has the same name."""
    other = dataset_files().get(spec.name)
    if other is not None and not other.samefile(file):
        raise DeclarationError(
            f"{file}: the data set needs a name of its own, but {other} has the same: change the "
            "file name and `name`"
        )


def file_of(name: str) -> Path:
    """Return the file of the data set ``name``; DeclarationError for an unknown name."""
    files = dataset_files()
    if name not in files:
        raise DeclarationError(
            f"There is no data set {name[:60]!r}{did_you_mean(name, files)} (`dp-pipeline data "
            f"list` shows them all; `export {DATASETS_VARIABLE}=FOLDER` adds your own)"
        )
    return files[name]


def require_available(spec: DatasetSpec) -> None:
    """Raise DeclarationError if the environment variable that the source needs is not set."""
    needs = spec.source.needs
    if not is_available(spec):
        value = "FOLDER" if needs == DATA_FOLDER_VARIABLE else "URL"
        raise DeclarationError(
            f"{spec.name}: the variable {needs} must hold the place of its rows, but it is not "
            f"set: `export {needs}={value}`"
        )
