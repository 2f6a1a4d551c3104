"""What only models and methods know of a declaration, with the line of the file that is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction

from dp_pipeline.anonymity import METHODS
from dp_pipeline.models import MODELS, build_model
from dp_pipeline.orchestration.declared_methods import declared_method
from dp_pipeline.raw.generators import GENERATORS
from dp_pipeline.raw.sources.named import BUNDLED
from dp_pipeline.schema.epsilon import LARGEST
from dp_pipeline.schema.errors import DeclarationError
from dp_pipeline.schema.field_lines import FieldLines
from dp_pipeline.schema.name import one_of
from dp_pipeline.schema.parameters import from_text
from dp_pipeline.schema.spec import DatasetSpec


def require_buildable(spec: DatasetSpec, lines: FieldLines) -> None:
    """DeclarationError with file and line for a model or a k-anonymous method that does not exist,
    for their parameters, for attributes that do not fit them, and for a ceiling in ρ.

    lines   of the file that the declaration is of
    """
    _require_source(spec, lines)
    for name in spec.models:
        _require_model(spec, name, lines)
    with _at(lines, "ceiling"):
        build_model(spec, next(iter(spec.models)))
    for name in spec.k_anonymity.methods if spec.k_anonymity else ():
        _require_method(spec, name, lines)


def _require_source(spec: DatasetSpec, lines: FieldLines) -> None:
    """Of a source that is a name; whether a file or a database is there is no declaration."""
    known = {"sklearn": BUNDLED, "generator": tuple(GENERATORS)}.get(spec.source.kind)
    if known is not None and spec.source.location not in known:
        error = _unknown(spec, "source", known, spec.source.location)
        raise lines.located(error, "source", "name")
    for option in spec.source.options:
        if option not in ("seed", "rows"):
            error = _unknown(spec, "source.options", ("seed", "rows"), option)
            raise lines.located(error, "source", "options", option)


def _require_model(spec: DatasetSpec, name: str, lines: FieldLines) -> None:
    if name not in MODELS:
        raise lines.located(_unknown(spec, "model", tuple(MODELS), name), "models", name)
    for parameter, text in spec.models[name].items():
        with _at(lines, "models", name, parameter):
            from_text(MODELS[name], {parameter: text}, of=f"{spec.name}: {name}")
    # That everything together costs too much is no fault of this model.
    roomy = spec if spec.ceiling is None else replace(spec, ceiling=Fraction(LARGEST))
    only = replace(roomy, models={name: spec.models[name]})
    with _at(lines, "models", name):
        build_model(only, name)


def _require_method(spec: DatasetSpec, name: str, lines: FieldLines) -> None:
    field = ("k_anonymity", "methods", name)
    if name not in METHODS:
        raise lines.located(_unknown(spec, "method", tuple(METHODS), name), *field)
    declared = spec.k_anonymity.methods[name] if spec.k_anonymity else {}
    for parameter, text in declared.items():
        with _at(lines, *field, parameter):
            from_text(METHODS[name], {parameter: text}, of=f"{spec.name}: {name}")
    with _at(lines, *field):
        declared_method(spec, name)


def _unknown(spec: DatasetSpec, what: str, known: tuple[str, ...], got: str) -> DeclarationError:
    return DeclarationError(f"{spec.name}: {what}: expected {one_of(known, got)}")


@contextmanager
def _at(lines: FieldLines, *field: str) -> Iterator[None]:
    """An error inside gets the line of this field."""
    try:
        yield
    except DeclarationError as error:
        located = lines.located(error, *field)
    else:
        return
    raise located
