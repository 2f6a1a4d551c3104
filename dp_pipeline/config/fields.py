"""The types of values, lists and mappings in sections of a data set file, and their errors.

Each type serves the parser and the JSON Schema of editors. The parser reads texts, an editor values
of YAML, so ``0.5`` and ``"0.5"`` are both accepted; limits across fields, such as a ceiling, are
checked by the parser alone. ``TODO``, alone or twice in a list, is an open decision, and is
refused.
"""

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from types import UnionType
from typing import Annotated, Any, ClassVar, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, TypeAdapter, WithJsonSchema
from pydantic.fields import Field, FieldInfo
from pydantic.functional_validators import AfterValidator, BeforeValidator, model_validator
from pydantic_core import ErrorDetails, ValidationError, core_schema

from dp_pipeline.config import errors
from dp_pipeline.config.amounts import epsilon_text, parse_delta, parse_epsilon
from dp_pipeline.config.errors import FieldError, did_you_mean, list_some, nearest
from dp_pipeline.config.yaml_text import TODO, Document, Place

_DECIDE = ": write it there, and `dp-pipeline data check` names the next open one"
_DIGITS = r"(\d[\d_]*\.?[\d_]*|\.\d[\d_]*)([eE][-+]?\d+)?"

Member = TypeVar("Member")


def open_decision() -> FieldError:
    """Return the error for a field that still has the value ``TODO``."""
    return FieldError("a decision of yours", TODO, hint=_DECIDE)


def kind_of(value: object) -> str:
    """Return the kind of a value for messages: a list, a mapping or a single value."""
    if isinstance(value, list | tuple):
        return "a list"
    return "a mapping" if isinstance(value, dict) else "one value"


def require(holds: object, expected: str, got: str, *field: str | int, hint: str = "") -> None:
    if not holds:
        raise FieldError(expected, got, field=field, hint=hint)


def not_among(
    value: object, words: Collection[str], *, expected: str = "", field: Place = ()
) -> FieldError:
    """Return the error for a value that is not one of some words.

    value      value of the file; None where the field is missing
    expected   text before the list of words, or empty
    """
    if value is not None and not isinstance(value, str):
        return FieldError("one value", kind_of(value), field=field)
    listed = list_some(words, ", " if expected else " | ")
    listed = f"{expected}: {listed or 'there is none'}" if expected else listed
    if value is None or value == TODO:
        got, hint = (TODO, _DECIDE) if value else ("nothing", "")
        return FieldError(listed, got, field=field, hint=hint)
    return FieldError(listed, repr(value[:60]), field=field, hint=did_you_mean(value, words))


@dataclass(frozen=True, eq=False)
class Scalar:
    """A type of a single value in a data set file, with its parser and its JSON Schema.

    parse     text → value, or None for a wrong text
    expected  words of a message for what a right text is
    got       text that a message shows in place of one that may hold a password
    """

    parse: Callable[[str], Any]
    expected: str
    schema: Mapping[str, Any]
    got: str = ""

    def read(self, text: object) -> Any:
        """Return the value that ``parse`` gives for a text.

        FieldError for ``TODO``, for a text that ``parse`` refuses, and for a list or mapping.
        """
        if not isinstance(text, str):
            raise FieldError("one value", kind_of(text))
        if text == TODO:
            raise open_decision()
        value = self.parse(text)
        if value is None:
            raise FieldError(self.expected, self.got or repr(text[:60]))
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return core_schema.no_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        return dict(self.schema)


TEXT = {"type": ["string", "number", "boolean"], "minLength": 1}


def text_that(
    is_good: Callable[[str], object],
    expected: str,
    schema: Mapping[str, Any] = TEXT,
    *,
    got: str = "",
) -> Scalar:
    """Return the type of single texts that pass the test ``is_good``.

    got   text that a message shows in place of a wrong one that may hold a password
    """
    return Scalar(lambda text: text if is_good(text) else None, expected, schema, got)


_SWITCH = {"true": True, "false": False}

Text = Annotated[str, text_that(bool, "a value")]
Switch = Annotated[bool, Scalar(_SWITCH.get, "true | false", {"enum": [True, False, *_SWITCH]})]
_NAME = {"type": "string", "pattern": f"^{errors.NAME}$"}
Name = Annotated[str, text_that(errors.is_name, errors.EXPECTED_NAME, _NAME)]


def integer(at_least: int, at_most: int = 10**18) -> Scalar:
    """Return the type of integers of up to 18 digits, from ``at_least`` to ``at_most``."""

    def parse(text: str) -> int | None:
        value = int(text) if re.fullmatch(r"[+-]?\d{1,18}", text) else None
        return value if value is not None and at_least <= value <= at_most else None

    number, expected = {"type": "integer", "minimum": at_least}, f"of at least {at_least}"
    if at_most < 10**18:
        number, expected = number | {"maximum": at_most}, f"from {at_least} to {at_most}"
    text = {"type": "string", "pattern": r"^[+-]?\d{1,18}$"}
    return Scalar(parse, f"an integer {expected}", {"anyOf": [number, text]})


def finite(text: str) -> float | None:
    """Return the finite number that a text spells; None for any other text."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _share(text: str) -> Fraction | None:
    value = Fraction(text) if re.fullmatch(r"[01]?\.[0-9]{1,9}|1", text) else Fraction(0)
    return value if 0 < value <= 1 else None


def _number_schema(pattern: str, **limits: float) -> dict[str, Any]:
    return {"anyOf": [{"type": "number", **limits}, {"type": "string", "pattern": pattern}]}


NUMBER = _number_schema(rf"^\s*[-+]?{_DIGITS}\s*$")
_SHARE = _number_schema(r"^([01]?\.\d{1,9}|1)$", exclusiveMinimum=0, maximum=1)
_EPSILON = _number_schema(rf"^\s*\+?{_DIGITS}\s*$", minimum=1e-6, maximum=1e6)

Index = Annotated[int, integer(0)]
Count = Annotated[int, integer(1)]
FINITE = Scalar(finite, "a finite number", NUMBER)
Number = Annotated[float, FINITE]
Share = Annotated[Fraction, Scalar(_share, "a decimal number above 0, at most 1", _SHARE)]
Delta = Annotated[Fraction, Scalar(parse_delta, "δ", NUMBER)]
Epsilon = Annotated[Fraction, Scalar(parse_epsilon, "ε", _EPSILON)]


def require_list(value: object) -> list[Any]:
    """Return ``value`` if it is a list; FieldError otherwise, and for several ``TODO`` in it."""
    if value == TODO:
        raise open_decision()
    if value == "":
        raise FieldError("a list", "nothing")
    if not isinstance(value, list):
        hint = "" if isinstance(value, dict) else ": write it in [ ]"
        raise FieldError("a list", kind_of(value), hint=hint)
    if value.count(TODO) > 1:
        # A single TODO may be a level like any other.
        raise open_decision()
    return value


def _require_values(value: object) -> list[Any]:
    items = require_list(value)
    for index, item in enumerate(items):
        if not isinstance(item, str):
            raise FieldError("a list of values", f"{kind_of(item)} in it", field=(index,))
    return items


def require_mapping(value: object) -> dict[str, Any]:
    """Return ``value`` if it is a mapping, {} for an empty text; FieldError otherwise."""
    if value == "":
        return {}
    if not isinstance(value, dict):
        raise FieldError("a mapping", kind_of(value))
    return value


def array(items: Mapping[str, Any], **limits: int) -> WithJsonSchema:
    return WithJsonSchema({"type": "array", "items": items, **limits})


PAIR = array(TEXT, minItems=2, maxItems=2)
Item = Annotated[str, WithJsonSchema(TEXT)]
"""Type of a text in a list, which may be empty."""
ListOf = Annotated[tuple[Member, ...], BeforeValidator(_require_values)]
NonEmpty = Annotated[tuple[Member, ...], Field(min_length=1), BeforeValidator(_require_values)]
MappingOf = Annotated[dict[str, Member], BeforeValidator(require_mapping)]
NonEmptyMapping = Annotated[
    dict[str, Member], Field(min_length=1), BeforeValidator(require_mapping)
]


def _require_ascending(values: tuple[Any, ...]) -> tuple[Any, ...]:
    is_ascending = list(values) == sorted(set(values))
    got = ", ".join(map(epsilon_text, values))
    require(is_ascending, "each value once, in ascending order", got)
    return values


Ascending = Annotated[NonEmpty[Member], AfterValidator(_require_ascending)]


@dataclass(frozen=True, eq=False)
class FormChoice:
    """A choice among the forms that a section of a data set file can have.

    forms    the union of the forms, for the JSON Schema
    choose   mapping → section, in the form that its fields belong to
    """

    forms: Any
    choose: Callable[[object], Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return core_schema.no_info_plain_validator_function(self.choose)

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> Any:
        # Built here alone, because each form takes time and a file has few of them.
        return handler(TypeAdapter(self.forms).core_schema)


class Section(BaseModel):
    """A mapping in a data set file that accepts its declared fields and no others.

    The line about a field in a class's docstring is its help in an editor, and the hint where the
    field is missing.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    @classmethod
    def helps(cls) -> dict[str, str]:
        """Return the help text of each field, from the docstrings of the class and its bases."""
        lines = [line for base in cls.__mro__ for line in (base.__doc__ or "").splitlines()]
        matches = [re.fullmatch(r"    (\w+)  +(\S.*)", line) for line in lines]
        fields = ((match[1], match[2]) for match in reversed(matches) if match)
        return {name: text for name, text in fields if name in cls.model_fields}

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: Any) -> Any:
        reference = handler(core)
        schema = handler.resolve_ref_schema(reference)
        summary = next(base.__doc__ for base in cls.__mro__ if base.__doc__)
        schema["description"] = summary.partition("\n")[0]
        for name, text in cls.helps().items():
            schema["properties"][name]["description"] = text
        return reference

    @model_validator(mode="before")
    @classmethod
    def _require_fields(cls, value: object) -> dict[str, Any]:
        # Pydantic would ignore some of these mistakes, and word others as a programmer's.
        section, fields = require_mapping(value), cls.model_fields
        unknown = [name for name in section if name not in fields]
        for name, field in fields.items():
            if field.is_required() and name not in section:
                near, purpose = nearest(name, unknown), cls.helps().get(name)
                hint = f"is {near!r} meant for it?" if near else purpose
                ending = f": {hint}" if hint else ""
                raise FieldError(_shape(field), "nothing", field=(name,), hint=ending)
        for name in unknown:
            expected, near = f"one of {', '.join(sorted(fields))}", did_you_mean(name, fields)
            raise FieldError(expected, "an unknown field", field=(name,), hint=near)
        return section


def _shape(field: FieldInfo) -> str:
    kind = get_origin(field.annotation) or field.annotation
    if kind is tuple:
        return "a list"
    # A section with several forms is a union.
    types = get_args(field.annotation) if kind is UnionType else (kind,)
    classes = [type_ for type_ in types if isinstance(type_, type)]
    return "a mapping" if any(issubclass(each, Section | dict) for each in classes) else "a value"


@contextmanager
def below(*field: str | int) -> Iterator[None]:
    """Run the block, and put ``field`` in front of the place that its FieldError names."""
    try:
        yield
    except FieldError as error:
        error.field = (*field, *error.field)
        raise


@contextmanager
def locate_errors(document: Document) -> Iterator[None]:
    """Run the block, and turn its FieldError or ValidationError into a DeclarationError.

    The message has the file, line and field; of several errors, it is about that of the first line.
    Other errors pass unchanged.
    """
    try:
        yield
    except ValidationError as error:
        first = min(field_errors(error), key=lambda mistake: document.line(mistake.field))
    except FieldError as error:
        first = error
    else:
        return
    raise document.refusal(first) from None


def field_errors(error: ValidationError) -> list[FieldError]:
    """Return all errors of a pydantic exception as FieldErrors."""
    return [_field_error(details) for details in error.errors(include_url=False)]


def _field_error(details: ErrorDetails) -> FieldError:
    place = tuple(part for part in details["loc"] if part != "[key]")
    if details["type"] == "literal_error":
        words = re.findall("'([^']*)'", str(details["ctx"]["expected"]))
        return not_among(details["input"], words, field=place)
    if details["type"] == "too_short":
        least, got = details["ctx"]["min_length"], details["ctx"]["actual_length"]
        one = "one entry" if isinstance(details["input"], dict) else "one value"
        expected = f"at least {one if least == 1 else f'{least} values'}"
        return FieldError(expected, str(got or "none"), field=place)
    error = details.get("ctx", {}).get("error")
    if not isinstance(error, FieldError):
        return FieldError("another value", details["type"], field=place)
    return FieldError(error.expected, error.got, field=(*place, *error.field), hint=error.hint)
