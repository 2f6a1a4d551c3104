"""What sections of a data set file are made of: values that are read from text, lists, mappings,
and the refusals of all of them.

Each type says once what the parser reads and what a JSON Schema tells an editor. An editor gives a
value a type of YAML, which is text to the parser, so ``0.5`` and ``"0.5"`` are both let through;
and it knows shapes alone: whether a ceiling holds, only the parser says. ``TODO``, alone or twice
in a list, is a decision that nobody has made yet, and is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from types import UnionType
from typing import Annotated, Any, ClassVar, TypeVar, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, core_schema

from dp_pipeline.config.amounts import parse_epsilon
from dp_pipeline.config.errors import EXPECTED_NAME, NAME, Refused, did_you_mean, is_name, nearest
from dp_pipeline.config.yaml_text import TODO, Document

_DECIDE = ": write it there, and `dp-pipeline data check` says what is still open"
_DIGITS = r"(\d[\d_]*\.?[\d_]*|\.\d[\d_]*)([eE][-+]?\d+)?"

Member = TypeVar("Member")


def undecided() -> Refused:
    """The refusal of ``TODO``."""
    return Refused("a decision of yours", TODO, hint=_DECIDE)


def require(holds: object, expected: str, got: str, *field: str | int, hint: str = "") -> None:
    """Refuse a field unless something holds of it."""
    if not holds:
        raise Refused(expected, got, field=field, hint=hint)


def not_among(
    value: object, known: Collection[str], *, expected: str = "", field: tuple[str | int, ...] = ()
) -> Refused:
    """The refusal of what is none of some words.

    value      as the file has it; None where it has nothing
    expected   what to say of the words; else they are listed as they are
    """
    if value is None:
        return Refused("a value", "nothing", field=field)
    if not isinstance(value, str):
        return Refused("one value", "a list or mapping", field=field)
    expected = (
        f"{expected}: {', '.join(known) or 'there is none'}" if expected else " | ".join(known)
    )
    if value == TODO:
        return Refused(expected, TODO, field=field, hint=_DECIDE)
    return Refused(expected, repr(value[:60]), field=field, hint=did_you_mean(value, known))


@dataclass(frozen=True, eq=False)
class Scalar:
    """One value: how it is read from its text, and what an editor is told.

    parse  the value, or None where the text is none
    got    what a message says of a text that it must not repeat, because there may be a password
           in it
    """

    parse: Callable[[str], Any]
    expected: str
    schema: Mapping[str, Any]
    got: str = ""

    def read(self, text: object) -> Any:
        """The value; Refused where the file says none."""
        if not isinstance(text, str):
            raise Refused("one value", "a list or mapping")
        if text == TODO:
            raise undecided()
        value = self.parse(text)
        if value is None:
            raise Refused(self.expected, self.got or repr(text[:60]))
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return core_schema.no_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        return dict(self.schema)


TEXT = {"type": ["string", "number", "boolean"], "minLength": 1}
_WORDS = {"true": True, "false": False}

Text = Annotated[str, Scalar(lambda text: text or None, "a value", TEXT)]
Switch = Annotated[bool, Scalar(_WORDS.get, "true | false", {"enum": [True, False, *_WORDS]})]
Name = Annotated[
    str,
    Scalar(
        lambda text: text if is_name(text) else None,
        EXPECTED_NAME,
        {"type": "string", "pattern": f"^{NAME}$"},
    ),
]


def whole(at_least: int) -> Scalar:
    """A whole number, not below ``at_least``."""

    def parse(text: str) -> int | None:
        value = int(text) if re.fullmatch(r"[+-]?\d{1,18}", text) else None
        return value if value is not None and value >= at_least else None

    number = {"type": "integer", "minimum": at_least}
    text = {"type": "string", "pattern": r"^[+-]?\d{1,18}$"}
    return Scalar(parse, f"a whole number of at least {at_least}", {"anyOf": [number, text]})


def finite(text: str) -> float | None:
    """The finite number that ``text`` says, or None."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _share(text: str) -> Fraction | None:
    value = Fraction(text) if re.fullmatch(r"[01]?\.[0-9]{1,9}|1", text) else Fraction(0)
    return value if 0 < value <= 1 else None


NUMBER = {"anyOf": [{"type": "number"}, {"type": "string", "pattern": rf"^\s*[-+]?{_DIGITS}\s*$"}]}
_SHARE = {
    "anyOf": [
        {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
        {"type": "string", "pattern": r"^([01]?\.\d{1,9}|1)$"},
    ]
}
_EPSILON = {
    "anyOf": [
        {"type": "number", "minimum": 1e-6, "maximum": 1e6},
        {"type": "string", "pattern": rf"^\s*\+?{_DIGITS}\s*$"},
    ]
}

Index = Annotated[int, whole(0)]
Count = Annotated[int, whole(1)]
A_NUMBER = Scalar(finite, "a finite number", NUMBER)
Number = Annotated[float, A_NUMBER]
Share = Annotated[Fraction, Scalar(_share, "a decimal number above 0, at most 1", _SHARE)]
Epsilon = Annotated[Fraction, Scalar(parse_epsilon, "ε", _EPSILON)]
"""Exact: no float stands between the text and the fraction."""


def a_list(value: object) -> list[Any]:
    """What the file has as a list; Refused for anything else."""
    if value == TODO:
        raise undecided()
    if not isinstance(value, list):
        raise Refused("a list", "something else")
    if value.count(TODO) > 1:
        # Once it may be a level like any other.
        raise undecided()
    return value


def _of_values(value: object) -> list[Any]:
    items = a_list(value)
    for place, item in enumerate(items):
        if not isinstance(item, str):
            raise Refused("a list of values", "a nested list or mapping", field=(place,))
    return items


def a_mapping(value: object) -> dict[str, Any]:
    """What the file has as a mapping, empty where nothing stands behind the name."""
    if value == "":
        return {}
    if not isinstance(value, dict):
        raise Refused("a mapping", "something else")
    return value


def array(items: Mapping[str, Any], **ends: int) -> WithJsonSchema:
    """What an editor is told of a list."""
    return WithJsonSchema({"type": "array", "items": items, **ends})


def pair(items: Mapping[str, Any]) -> WithJsonSchema:
    """What an editor is told of a list of two."""
    return array(items, minItems=2, maxItems=2)


Item = Annotated[str, WithJsonSchema(TEXT)]
"""In a list: any text, one that is empty too."""
Listed = Annotated[tuple[Member, ...], BeforeValidator(_of_values)]
Several = Annotated[tuple[Member, ...], Field(min_length=1), BeforeValidator(_of_values)]
Named = Annotated[dict[str, Member], BeforeValidator(a_mapping)]


@dataclass(frozen=True, eq=False)
class OneForm:
    """A section of several forms.

    forms    their union, for the JSON Schema
    choose   the section that a mapping makes, by what it says
    """

    forms: Any
    choose: Callable[[object], Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return core_schema.no_info_plain_validator_function(self.choose)

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> Any:
        # Only here, because a file has few of the forms, and each takes time to be made.
        return handler(TypeAdapter(self.forms).core_schema)


class Section(BaseModel):
    """A mapping of the file with these fields and no others.

    What a class's docstring says of a field, on one line, is what an editor shows of it, and what
    is said where it is missing.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    @classmethod
    def helps(cls) -> dict[str, str]:
        """Field → what it is for."""
        lines = [line for one in cls.__mro__ for line in (one.__doc__ or "").splitlines()]
        found = [re.fullmatch(r"    (\w+)  +(\S.*)", line) for line in lines]
        return {one[1]: one[2] for one in reversed(found) if one and one[1] in cls.model_fields}

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: Any) -> Any:
        reference = handler(core)
        schema = handler.resolve_ref_schema(reference)
        about = next(one.__doc__ for one in cls.__mro__ if one.__doc__)
        schema["description"] = about.partition("\n")[0]
        for name, text in cls.helps().items():
            schema["properties"][name]["description"] = text
        return reference

    @model_validator(mode="before")
    @classmethod
    def _fields(cls, value: object) -> dict[str, Any]:
        """Refuse what is missing or misspelt: neither must be dropped in silence."""
        said, known = a_mapping(value), cls.model_fields
        unknown = [name for name in said if name not in known]
        for name, field in known.items():
            if field.is_required() and name not in said:
                near, about = nearest(name, unknown), cls.helps().get(name)
                hint = f"is {near!r} meant for it?" if near else about
                ending = f": {hint}" if hint else ""
                raise Refused(_shape(field), "nothing", field=(name,), hint=ending)
        for name in unknown:
            expected, near = f"one of {', '.join(sorted(known))}", did_you_mean(name, known)
            raise Refused(expected, "a field that is not known", field=(name,), hint=near)
        return said


def _shape(field: FieldInfo) -> str:
    """What a file has to have where a field is missing."""
    kind = get_origin(field.annotation) or field.annotation
    if kind is tuple:
        return "a list"
    # A section of several forms is a union.
    kinds = get_args(field.annotation) if kind is UnionType else (kind,)
    is_mapping = any(isinstance(one, type) and issubclass(one, Section | dict) for one in kinds)
    return "a mapping" if is_mapping else "a value"


@contextmanager
def below(*field: str | int) -> Iterator[None]:
    """What is refused inside is refused of a field of this one."""
    try:
        yield
    except Refused as refused:
        refused.field = (*field, *refused.field)
        raise


@contextmanager
def placed(document: Document) -> Iterator[None]:
    """What is refused inside becomes one line with file, line and field: the first of the file."""
    try:
        yield
    except ValidationError as error:
        first = min(refusals_of(error), key=lambda one: document.line(one.field))
    except Refused as refused:
        first = refused
    else:
        return
    raise document.refusal(first) from None


def refusals_of(error: ValidationError) -> list[Refused]:
    """Everything that pydantic has found, in our words."""
    return [_refused(one) for one in error.errors(include_url=False)]


def _refused(error: ErrorDetails) -> Refused:
    """One of pydantic's errors in our words."""
    place = tuple(one for one in error["loc"] if one != "[key]")
    if error["type"] == "literal_error":
        words = re.findall("'([^']*)'", str(error["ctx"]["expected"]))
        return not_among(error["input"], words, field=place)
    if error["type"] == "too_short":
        least, got = error["ctx"]["min_length"], error["ctx"]["actual_length"]
        expected = f"at least {'one value' if least == 1 else f'{least} values'}"
        return Refused(expected, str(got or "none"), field=place)
    refused = error.get("ctx", {}).get("error")
    if not isinstance(refused, Refused):
        return Refused("another value", error["type"], field=place)
    return Refused(refused.expected, refused.got, field=(*place, *refused.field), hint=refused.hint)
