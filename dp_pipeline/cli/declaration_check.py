"""`dp-pipeline data check`: what needs models and methods, or this computer's files and ledger, and
its result for people and programs.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from dp_pipeline.anonymity import METHODS
from dp_pipeline.cli.options import amount_text
from dp_pipeline.cli.plan import k_anonymity_line
from dp_pipeline.config import catalogue
from dp_pipeline.config.amounts import LARGEST
from dp_pipeline.config.constraint_parser import proposed_dependences
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import DeclarationError, one_of
from dp_pipeline.config.parameters import from_text
from dp_pipeline.config.source import BUNDLED, FILES
from dp_pipeline.config.system_errors import follow_links
from dp_pipeline.config.yaml_text import Document
from dp_pipeline.models import MODELS, build_model, price_of_everything
from dp_pipeline.models.base import clustering_columns, declared_guarantee
from dp_pipeline.models.clustering.base import Clustering
from dp_pipeline.raw.first_rows import ParsedRows, parse_first_rows
from dp_pipeline.raw.generators import GENERATORS
from dp_pipeline.releases.account import names_to_claim
from dp_pipeline.releases.home import find_home
from dp_pipeline.releases.k_anonymous_release import declared_method
from dp_pipeline.releases.run_options import options_for
from dp_pipeline.releases.run_plan import plan_run


def require_buildable(spec: DatasetSpec, lines: Document) -> None:
    """Raise DeclarationError with file and line for a source, model or method that cannot be built.

    That is an unknown name or option, a wrong parameter, unsuitable attributes, or a ceiling in ρ.

    lines   the lines of the file
    """
    name, kind = spec.source.location, spec.source.kind
    names = {"sklearn": BUNDLED, "generator": tuple(GENERATORS)}.get(kind, (name,))
    _require_known("the name of the source", names, name, lines, "source", "name")
    for option in spec.source.options:
        place, allowed = ("source", "options", option), ("seed", "rows")
        _require_known("an option of the source", allowed, option, lines, *place)
    for name in spec.models:
        _require_model(spec, name, lines)
    with _at(lines, "ceiling"):
        build_model(spec, next(iter(spec.models)))
    for name, parameters in spec.k_anonymity.methods.items() if spec.k_anonymity else ():
        field = ("k_anonymity", "methods", name)
        _require_known("the method", tuple(METHODS), name, lines, *field)
        for parameter, text in parameters.items():
            with _at(lines, *field, parameter):
                from_text(METHODS[name], {parameter: text}, of=name)
        with _at(lines, *field):
            declared_method(spec, name)


def _require_model(spec: DatasetSpec, name: str, lines: Document) -> None:
    _require_known("the model", tuple(MODELS), name, lines, "models", name)
    for parameter, text in spec.models[name].items():
        with _at(lines, "models", name, parameter):
            from_text(MODELS[name], {parameter: text}, of=name)
    # The price of everything together is no mistake of this model.
    unlimited = spec if spec.ceiling is None else replace(spec, ceiling=Fraction(LARGEST))
    published = tuple(publication for publication in spec.publications if publication.model == name)
    only = replace(unlimited, models={name: spec.models[name]}, publications=published)
    with _at(lines, "models", name):
        build_model(only, name)


def _require_known(
    kind: str, names: tuple[str, ...], got: str, lines: Document, *field: str
) -> None:
    if got not in names:
        raise lines.located(DeclarationError(f"{kind} {one_of(names, got)}"), *field)


@contextmanager
def _at(lines: Document, *field: str) -> Iterator[None]:
    """Add the file and line of a field to a DeclarationError that the block raises."""
    try:
        yield
    except DeclarationError as error:
        raise lines.located(error, *field) from None


def find_warnings(spec: DatasetSpec, file: Path) -> list[str]:
    """Return the warnings about a declaration and its file, without opening a source."""
    lines = []
    for source in (each.source for each in spec.source_specs):
        if source.kind in FILES and not source.is_remote and source.download is None:
            # Of files of windows their folder has to be there; the files come one by one.
            paths = source.identities if source.is_template else source.locations
            locations = [path.removeprefix("file:") for path in paths]
            absent = (path for path in locations if not Path(path).exists())
            lines += [f"the source {path} is not there" for path in absent]
    searched, folder = os.environ.get(catalogue.DATASETS_VARIABLE), follow_links(file).parent
    if folder not in {follow_links(path) for path in (catalogue.BUILT_IN, searched) if path}:
        variable = catalogue.DATASETS_VARIABLE
        lines.append(f"commands and Dagster look for it with {variable}={folder} alone")
    lines += [
        f"{coarse} follows from {fine}: `constraints: {{depends: {{{fine}: {coarse}}}}}` keeps "
        "synthetic rows from contradicting that"
        for fine, coarse in proposed_dependences(spec.domain)
    ]
    lines += [
        f"no model releases {name}: declare `bins` or `edges`, without which no table has it"
        for name in _numbers_of_no_model(spec)
    ]
    error = _home_error()
    return [*lines, f"`run` and `plan` will not know where to write: {error}"] if error else lines


def _numbers_of_no_model(spec: DatasetSpec) -> list[str]:
    """Return the numbers without bins that no clustering has; none where all models are such."""
    models = [build_model(spec, name) for name in spec.models]
    clusterings = [model for model in models if isinstance(model, Clustering)]
    if len(clusterings) == len(models):
        return []
    domain = spec.widest.domain
    used = {name for model in clusterings for name in clustering_columns(model.columns, domain)}
    return [name for name in domain.names if name not in {*domain.discrete, *used}]


def require_runnable(spec: DatasetSpec, file: Path) -> None:
    """Raise the error with which `plan` and `run` would refuse a declaration before reading rows.

    DeclarationError for a missing variable, a name of another file, a source of another population,
    seeded noise for sensitive rows, and an account that was opened otherwise; BudgetExceeded where
    all of it does not fit. Nothing is claimed. Without a project no ledger is read.
    """
    catalogue.require_available(spec)
    catalogue.require_own_name(spec, file)
    if not _home_error():
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


def _home_error() -> str:
    """Return the reason why no home was found; empty if there is one."""
    try:
        find_home()
    except DeclarationError as error:
        return str(error)
    return ""


def check_document(spec: DatasetSpec, file: Path, warnings: list[str]) -> Mapping[str, Any]:
    return {
        "file": str(file),
        "dataset": spec.name,
        "population": spec.population,
        "purpose": spec.purpose,
        "currency": spec.currency.name,
        "price": amount_text(price_of_everything(spec)),
        "price_is_of": "everything" if spec.windows is None else f"one {spec.windows.every}",
        "without_epsilon": _without_epsilon(spec),
        "warnings": warnings,
    }


def print_check(spec: DatasetSpec, file: Path, warnings: list[str]) -> None:
    for warning in warnings:
        click.echo(f"warning: {warning}")
    total = spec.currency.text(price_of_everything(spec))
    price_words = f"all models at all ε{spec.extras} cost"
    if spec.windows is not None:
        price_words = f"what is published of each {spec.windows.every}{spec.extras} costs"
    click.echo(f"{file}: the declaration is valid; {price_words} {total}")
    without = _without_epsilon(spec)
    if without:
        click.echo(f"not differentially private: {', '.join(without)}")
    if spec.k_anonymity is not None:
        click.echo(k_anonymity_line(spec))


MAX_REASONS = 4
"""Reasons why lines are no rows that are listed."""

_FOR_CUSTODIANS = """
How the first {rows:,} rows parse, for the custodian alone. These numbers are exact: show them to no
reader, and never choose bounds or levels by them. Nothing was charged, nothing was written."""


def print_sample(spec: DatasetSpec, rows: int) -> None:
    """Print how many of the first rows are as declared, for each attribute and constraint.

    rows   number of rows that are read, of the first window if there are windows

    The declared source is read, not its download. DeclarationError if the rows are at URLs alone.
    """
    if spec.windows is not None:
        spec = spec.at_window(spec.windows.first)
    local_sources = [source for source in spec.source.alternatives if not source.is_remote]
    if not local_sources:
        raise DeclarationError(
            f"{spec.name}: --sample reads a source of this computer, but this one is downloaded: "
            "run without --sample"
        )
    sample = parse_first_rows(replace(spec, source=local_sources[0]), rows)
    click.echo(_FOR_CUSTODIANS.format(rows=sample.rows))
    name = max(len("attribute"), *(len(column.attribute) for column in sample.columns))
    click.echo(f"  {'attribute':{name}}  as declared  missing  not read  outside")
    for column in sample.columns:
        counts = f"{column.good:11,}  {column.missing:7,}  {column.unread:8,}  {column.outside:7,}"
        click.echo(f"  {column.attribute:{name}}  {counts}")
    for words, count in sample.broken.items():
        click.echo(f"  {count:,} rows break the constraint: {words}")
    if spec.windows is not None:
        where = f"rows without a time in {spec.windows.column!r}, which are in no window"
        click.echo(f"  {where}: {sample.timeless:,}")
    for line in _loss_lines(sample):
        click.echo(f"  {line}")


def _loss_lines(sample: ParsedRows) -> Iterator[str]:
    """Yield texts on how many lines are not rows, how many rows would be left out, and why."""
    if sample.unreadable:
        count = sum(sample.unreadable.values())
        reasons = sorted(sample.unreadable.items(), key=lambda item: -item[1])
        why = "; ".join(f"{lines:,} {reason}" for reason, lines in reasons[:MAX_REASONS])
        ending = "; others" if len(reasons) > MAX_REASONS else ""
        yield f"{count:,} lines of the file are no rows: {why}{ending}"
    odd_texts, footers = sample.odd_lines
    if odd_texts:
        yield (
            f"{odd_texts:,} lines hold bytes that are no text in the encoding of `source`, "
            "UTF-8 where it names none, so those cells are missing: `encoding: cp1252` may be it"
        )
    if footers:
        yield "the last line has one cell of several: where it is no row, declare `footer: 1`"
    if sample.multiline is not None:
        lines, left = sample.multiline
        yield f"with `multiline: {lines}` in `source` {left:,} lines would be no rows"
    why = ", ".join(f"{name} ({rows:,})" for name, rows in sample.reasons.items())
    because = f", because of {why}" if why else ""
    yield f"rows that would be left out: {sample.left_out:,} of {sample.rows:,}{because}"


def _without_epsilon(spec: DatasetSpec) -> list[str]:
    """Return the models that are not differentially private at some declared ε."""

    def is_dp(name: str) -> bool:
        model = build_model(spec, name)
        return all(declared_guarantee(spec, model, epsilon).is_dp for epsilon in spec.partitions)

    return [name for name in spec.models if not is_dp(name)]
