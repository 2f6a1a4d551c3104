"""Parameters of models and k-anonymous methods: fields that are parsed from text.

A *measuring* parameter changes the questions to the rows: another value is another release with
another charge. The others change post-processing only, which replays the transcript at no cost. In
ledger, bundle and exports all parameters are one JSON object.
"""

import ast
import json
import re
from collections import UserDict
from collections.abc import Callable, Mapping
from dataclasses import field, fields
from fractions import Fraction
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from dp_pipeline.config.errors import DeclarationError, FieldError, one_of

ModelType = TypeVar("ModelType")
Entry = TypeVar("Entry")


class Registry(UserDict[str, Entry]):
    """A mapping from names to classes or functions that are imported at their first use.

    places   name → ``module:name``, the module below ``package``
    group    entry points by which other packages add names of their own; one of ``places`` wins

    >>> Registry("fractions", {"share": ":Fraction"})["share"]
    <class 'fractions.Fraction'>
    """

    def __init__(self, package: str, places: Mapping[str, str], group: str = "") -> None:
        super().__init__()
        others = entry_points(group=group) if group else ()
        # A name of ours stays ours.
        self.data: dict[str, Any] = {entry.name: entry for entry in others} | dict(places)
        self._package = package

    def __getitem__(self, name: str) -> Entry:
        if isinstance(self.data[name], str):
            module, _, entry = self.data[name].partition(":")
            loaded = import_module(f"{self._package}.{module}".rstrip("."))
            self.data[name] = getattr(loaded, entry)
        elif isinstance(self.data[name], EntryPoint):
            self.data[name] = self.data[name].load()
        return self.data[name]  # type: ignore[no-any-return]


def integer(
    default: int | None, *, at_least: int, at_most: int = 10**15, measuring: bool = False
) -> Any:
    """Return a dataclass field for a parameter that is an integer in at_least..at_most.

    measuring   whether another value needs a new measurement, which is charged
    """

    def parse(text: str) -> int | None:
        value = int(text) if re.fullmatch(r"\d{1,18}", text) else -1
        return value if at_least <= value <= at_most else None

    return _parameter(default, parse, f"an integer in {at_least}..{at_most}", measuring)


def share(default: Fraction) -> Any:
    """Return a dataclass field for a measuring parameter: a decimal strictly between 0 and 1, with
    at most nine places."""

    def parse(text: str) -> Fraction | None:
        value = Fraction(text) if re.fullmatch(r"0?\.\d{1,9}", text) else Fraction(0)
        return value if 0 < value < 1 else None

    return _parameter(default, parse, "a decimal number between 0 and 1")


def decimal(default: Fraction | None, *, at_least: int, at_most: int) -> Any:
    """Return a dataclass field for a measuring parameter: a decimal in at_least..at_most, with at
    most nine places."""

    def parse(text: str) -> Fraction | None:
        value = Fraction(text) if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text) else Fraction(-1)
        return value if at_least <= value <= at_most else None

    return _parameter(default, parse, f"a decimal number in {at_least}..{at_most}")


def names() -> Any:
    """Return a dataclass field for a measuring parameter: attribute names, separated by spaces.

    The default, (), means all attributes that a model can use.
    """
    return _parameter((), lambda text: tuple(text.split()), "attribute names")


def choice(*words: str, measuring: bool = True) -> Any:
    """Return a dataclass field for a parameter that is one of some words, the first by default.

    measuring   whether another word needs a new measurement, which is charged
    """
    expected = f"one of {', '.join(words)}"
    return _parameter(words[0], lambda text: text if text in words else None, expected, measuring)


def variant() -> Any:
    """Return a dataclass field for a measuring parameter: ``sound`` or ``published``.

    Only benchmarks may use ``published``.
    """
    return choice("sound", "published")


def _parameter(
    default: Any, parse: Callable[[str], Any], expected: str, measuring: bool = True
) -> Any:
    return field(
        default=default, metadata={"parse": parse, "expected": expected, "measuring": measuring}
    )


def from_text(model: type[ModelType], texts: Mapping[str, str], *, of: str) -> ModelType:
    """Return an object of the class ``model``, whose parameters are parsed from name → text.

    of   name of the model, for messages

    Parameters that ``texts`` lacks have their defaults. DeclarationError for an unknown parameter,
    or a wrong text.
    """
    parameters = {parameter.name: parameter for parameter in fields(model)}  # type: ignore[arg-type]
    values = {}
    for name, text in texts.items():
        if name not in parameters:
            raise DeclarationError(f"{of}: a parameter {one_of(parameters, name)}")
        rule = parameters[name].metadata
        values[name] = rule["parse"](text)
        if values[name] is None:
            raise FieldError(rule["expected"], repr(text[:60]), of=f"{of}: {name}")
    return model(**values)


def texts_of(model: Any, *, measuring: bool) -> dict[str, str]:
    """Return parameter → text, sorted, of the measuring parameters of a model or of the others."""
    chosen = sorted(each.name for each in fields(model) if each.metadata["measuring"] is measuring)
    return {name: str(getattr(model, name)) for name in chosen}


Parameter = str | list[str] | None


def fact_text(texts: Mapping[str, str]) -> str:
    """Return the texts of ``texts_of`` as one JSON object.

    >>> fact_text({"k": "8", "columns": "('x', 'y')", "rows": "None"})
    '{"columns": ["x", "y"], "k": "8", "rows": null}'
    """
    values = {name: _value(text) for name, text in texts.items()}
    return json.dumps(values, sort_keys=True, ensure_ascii=False)


def fact_values(fact: str) -> dict[str, Parameter] | None:
    """Return the parameters that ``fact_text`` wrote; None for a text that is no JSON object."""
    try:
        values = json.loads(fact)
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


def _value(text: str) -> Parameter:
    if text == "None":
        return None
    if not text.startswith("("):
        return text
    try:
        members = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    return [str(member) for member in members] if isinstance(members, tuple) else text
