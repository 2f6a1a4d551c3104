"""Checks of a declaration that need models and methods, or this computer's files and ledger."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from dp_pipeline.anonymity import METHODS
from dp_pipeline.config import catalogue
from dp_pipeline.config.amounts import LARGEST
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import DeclarationError, one_of
from dp_pipeline.config.parameters import from_text
from dp_pipeline.config.source import FILES
from dp_pipeline.config.system_errors import follow_links
from dp_pipeline.config.yaml_text import Document
from dp_pipeline.models import MODELS, build_model
from dp_pipeline.raw.generators import GENERATORS
from dp_pipeline.raw.sources import BUNDLED
from dp_pipeline.releases.account import names_to_claim
from dp_pipeline.releases.home import find_home
from dp_pipeline.releases.k_anonymous_release import declared_method
from dp_pipeline.releases.run_options import options_for
from dp_pipeline.releases.run_plan import plan_run


def require_buildable(spec: DatasetSpec, lines: Document) -> None:
    """Raise DeclarationError with file and line for a wrong model or k-anonymous method.

    That is an unknown one, wrong parameters, unsuitable attributes, or a ceiling in ρ.

    lines   the lines of the file
    """
    _require_source(spec, lines)
    for name in spec.models:
        _require_model(spec, name, lines)
    with _at(lines, "ceiling"):
        build_model(spec, next(iter(spec.models)))
    for name in spec.k_anonymity.methods if spec.k_anonymity else ():
        _require_method(spec, name, lines)


def _require_source(spec: DatasetSpec, lines: Document) -> None:
    names = {"sklearn": BUNDLED, "generator": tuple(GENERATORS)}.get(spec.source.kind)
    if names is not None and spec.source.location not in names:
        error = _unknown("source", names, spec.source.location)
        raise lines.located(error, "source", "name")
    for option in spec.source.options:
        if option not in ("seed", "rows"):
            error = _unknown("source.options", ("seed", "rows"), option)
            raise lines.located(error, "source", "options", option)


def _require_model(spec: DatasetSpec, name: str, lines: Document) -> None:
    if name not in MODELS:
        raise lines.located(_unknown("model", tuple(MODELS), name), "models", name)
    for parameter, text in spec.models[name].items():
        with _at(lines, "models", name, parameter):
            from_text(MODELS[name], {parameter: text}, of=name)
    # The price of everything together is no mistake of this model.
    unlimited = spec if spec.ceiling is None else replace(spec, ceiling=Fraction(LARGEST))
    published = tuple(publication for publication in spec.publications if publication.model == name)
    only = replace(unlimited, models={name: spec.models[name]}, publications=published)
    with _at(lines, "models", name):
        build_model(only, name)


def _require_method(spec: DatasetSpec, name: str, lines: Document) -> None:
    field = ("k_anonymity", "methods", name)
    if name not in METHODS:
        raise lines.located(_unknown("method", tuple(METHODS), name), *field)
    declared = spec.k_anonymity.methods[name] if spec.k_anonymity else {}
    for parameter, text in declared.items():
        with _at(lines, *field, parameter):
            from_text(METHODS[name], {parameter: text}, of=name)
    with _at(lines, *field):
        declared_method(spec, name)


def _unknown(kind: str, names: tuple[str, ...], got: str) -> DeclarationError:
    return DeclarationError(f"{kind}: expected {one_of(names, got)}")


@contextmanager
def _at(lines: Document, *field: str) -> Iterator[None]:
    """Add file and line of a field to an error of the block."""
    try:
        yield
    except DeclarationError as error:
        located = lines.located(error, *field)
    else:
        return
    raise located


def warnings(spec: DatasetSpec, file: Path) -> list[str]:
    """Return warnings, one line each, without opening a source."""
    return [*_source(spec), *_folder(file), *_home()]


def require_runnable(spec: DatasetSpec, file: Path) -> None:
    """Raise the errors with which `plan` and `run` would refuse a declaration before reading a row.

    DeclarationError for a missing variable, a name of another file, a source of another population,
    seeded noise for sensitive rows, and an account that was opened otherwise; BudgetExceeded where
    all of it does not fit. Nothing is claimed. Without a project no ledger is read.
    """
    catalogue.require_available(spec)
    catalogue.require_own_name(spec, file)
    if _has_home():
        find_home().ledger.require_claimable(
            spec.population,
            *names_to_claim(spec),
            purpose=spec.purpose,
            distinct_population=spec.distinct_population,
        )
        options = options_for(spec)
        if spec.windows is not None:
            # All windows have the same price.
            options = options.of_window(spec.first_complete_window)
        plan_run(options).require_budget()


def _has_home() -> bool:
    try:
        find_home()
    except DeclarationError:
        return False
    return True


def _home() -> Iterator[str]:
    try:
        find_home()
    except DeclarationError as error:
        yield f"`run` and `plan` will not know where to write: {error}"


def _source(spec: DatasetSpec) -> Iterator[str]:
    source = spec.source
    if source.kind in FILES and not source.is_remote and source.download is None:
        # Of files of windows their folder has to be there; the files come one by one.
        paths = source.identities if source.is_template else source.locations
        locations = [path.removeprefix("file:") for path in paths]
        absent = (path for path in locations if not Path(path).exists())
        yield from (f"the source {path} is not there" for path in absent)


def _folder(file: Path) -> Iterator[str]:
    """Yield a warning about a file outside of the folders that other commands search."""
    folder, variable = follow_links(file).parent, os.environ.get(catalogue.DATASETS_VARIABLE)
    folders = {follow_links(catalogue.BUILT_IN)}
    if variable:
        folders.add(follow_links(variable))
    if folder not in folders:
        yield f"commands and Dagster look for it with {catalogue.DATASETS_VARIABLE}={folder} alone"
