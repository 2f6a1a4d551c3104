"""Reading a YAML mapping field by field: every scalar is text, every mistake has a line.

YAML's own types are not used: ``0.1`` must stay the text 0.1, ``no`` a level
and ``1.0`` a partition key. A key that stands twice, a key that nobody asked
for and an alias are refused: each would silently change what is declared. So
is ``TODO``, alone or twice in a list: a decision that nobody has made yet.

On which line of a data set file a field stands, for mistakes that are found after parsing.

Writing YAML that the parser reads back as the same texts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import NoReturn, TypeVar

import yaml

from dp_pipeline.spec.amounts import parse_epsilon
from dp_pipeline.spec.errors import DeclarationError, bounded_bytes
from dp_pipeline.spec.name import did_you_mean, nearest

Parsed = TypeVar("Parsed")
_MOST_BYTES = 1 << 22
"""Of a data set file: far more than anybody writes."""
_INTEGER = re.compile(r"[+-]?\d{1,18}")
TODO = "TODO"
_SHARE = re.compile(r"[01]?\.[0-9]{1,9}|1")
_DECIDE = ": write it there, and `dp-pipeline data check` says what is still open"
_RANGE = re.compile(r"(\d{1,18})\.\.(\d{1,18})")


class _TextLoader(yaml.BaseLoader):
    """Composes nodes only; refuses aliases."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem="an alias", problem_mark=mark)
        return super().compose_node(parent, index)


def read_fields(path: Path) -> Fields:
    """The top-level mapping of a YAML file, or DeclarationError with file and line."""
    return Fields(read_mapping(path), path, "")


def written_fields(text: str, path: Path) -> Fields:
    """The top-level mapping of a text that is to become the file ``path``."""
    return Fields(_mapping(text, path), path, "")


def read_mapping(path: Path) -> yaml.MappingNode:
    """The top-level mapping of a YAML file with the places of its parts, or DeclarationError."""
    try:
        text = bounded_bytes(path, most=_MOST_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        if isinstance(error, FileNotFoundError):
            reason += f": `dp-pipeline data init {path.stem} --from ROWS` drafts one"
        raise DeclarationError(f"{path}: expected a readable YAML file, got {reason}") from None
    return _mapping(text, path)


def _mapping(text: str, path: Path) -> yaml.MappingNode:
    try:
        node = yaml.compose(text, Loader=_TextLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or "a broken document"
        raise DeclarationError(f"{path}{line}: expected YAML, got: {problem}") from None
    except RecursionError:
        raise DeclarationError(f"{path}: expected YAML, got: too many nested levels") from None
    if not isinstance(node, yaml.MappingNode):
        raise DeclarationError(f"{path}: expected a mapping of fields, got something else")
    return node


class Fields:
    """One mapping of a file. ``finish`` refuses every field that was not asked for."""

    def __init__(self, node: yaml.MappingNode, path: Path, prefix: str) -> None:
        self._path, self._prefix, self._line = path, prefix, node.start_mark.line + 1
        self._nodes: dict[str, yaml.Node] = {}
        self._asked: set[str] = set()
        self._optional: set[str] = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self._fail("a field's name", "one value", "a list or mapping", key)
            name = str(key.value)
            if name in self._nodes:
                self._fail(name, "each field once", "the same field twice", key)
            self._nodes[name] = value

    def __contains__(self, name: str) -> bool:
        self._optional.add(name)
        return name in self._nodes

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def _fail(
        self, name: str, expected: str, got: str, node: yaml.Node | None = None, *, hint: str = ""
    ) -> NoReturn:
        node = node or self._nodes.get(name)
        line = node.start_mark.line + 1 if node is not None else self._line
        raise DeclarationError(
            f"{self._path}:{line}: {self._prefix}{_short(name)}: "
            f"expected {_short(expected, 200)}, got {_short(got)}{hint}"
        )

    def refuse(self, name: str, expected: str, got: str, *, hint: str = "") -> NoReturn:
        """Raise the error of one field, with file and line.

        hint   the end of the message: what to do, or which name was meant
        """
        self._fail(name, expected, got, hint=hint)

    def _missing(self, name: str, expected: str) -> NoReturn:
        """Refuse a field that is not there; one that nobody has asked for may be a misspelling."""
        others = [one for one in self._nodes if one not in self._asked]
        near = nearest(name, others)
        self._fail(name, expected, "nothing", hint=f": is {near!r} meant for it?" if near else "")

    def text(self, name: str, default: str | None = None, *, choices: Iterable[str] = ()) -> str:
        """A scalar; required unless a default is given."""
        self._asked.add(name)
        node = self._nodes.get(name)
        if node is None:
            return default if default is not None else self._missing(name, "a value")
        if not isinstance(node, yaml.ScalarNode):
            self._fail(name, "one value", "a list or mapping")
        text = str(node.value)
        allowed = tuple(choices)
        if text == TODO and text not in allowed:
            self._fail(name, " | ".join(allowed) or "a decision of yours", TODO, hint=_DECIDE)
        if (allowed and text not in allowed) or not text:
            near = did_you_mean(text, allowed)
            self._fail(name, " | ".join(allowed) or "a value", repr(text[:60]), hint=near)
        return text

    def _parsed(self, name: str, parse: Callable[[str], Parsed | None], expected: str) -> Parsed:
        text = self.text(name)
        value = parse(text)
        if value is None:
            self._fail(name, expected, repr(text[:60]))
        return value

    def integer(self, name: str, *, at_least: int) -> int:
        """A whole number, not below ``at_least``."""

        def parse(text: str) -> int | None:
            value = int(text) if _INTEGER.fullmatch(text) else None
            return value if value is not None and value >= at_least else None

        return self._parsed(name, parse, f"a whole number of at least {at_least}")

    def number(self, name: str) -> float:
        """A finite number."""
        return self._parsed(name, finite, "a finite number")

    def share(self, name: str, default: Fraction = Fraction(1)) -> Fraction:
        """A share above 0, exact; ``default`` where it is not declared."""
        self._asked.add(name)
        if name not in self._nodes:
            return default

        def parse(text: str) -> Fraction | None:
            value = Fraction(text) if _SHARE.fullmatch(text) else None
            return value if value is not None and 0 < value <= 1 else None

        return self._parsed(name, parse, "a decimal number above 0, at most 1")

    def epsilon(self, name: str) -> Fraction:
        """An exact ε."""
        return self._epsilon(self.text(name), name)

    def _epsilon(self, text: str, name: str, node: yaml.Node | None = None) -> Fraction:
        try:
            return parse_epsilon(text)
        except DeclarationError as error:
            expected, _, got = str(error).partition("expected ")[2].partition(", got ")
            self._fail(name, expected, got, node)

    def boolean(self, name: str) -> bool:
        """true or false; absent means false."""
        return self.text(name, "false", choices=("true", "false")) == "true"

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of scalars."""
        return tuple(text for text, _ in self._items(name))

    def texts_or_range(self, name: str, *, most: int) -> tuple[str, ...]:
        """A list of scalars, or ``0..15``: the whole numbers from the first to the last, at most
        ``most``.
        """
        if not isinstance(self._nodes.get(name), yaml.ScalarNode):
            return self.texts(name)
        ends = _RANGE.fullmatch(self.text(name))
        numbers = range(int(ends[1]), int(ends[2]) + 1) if ends else range(0)
        if not 0 < len(numbers) <= most:
            self._fail(name, "a list, or first..last", repr(self.text(name)[:60]))
        return tuple(map(str, numbers))

    def _items(self, name: str) -> list[tuple[str, yaml.Node]]:
        """A list of scalars, each with its place."""
        self._asked.add(name)
        node = self._nodes.get(name)
        if isinstance(node, yaml.ScalarNode) and node.value == TODO:
            self._fail(name, "a decision of yours", TODO, hint=_DECIDE)
        if not isinstance(node, yaml.SequenceNode):
            if node is None:
                self._missing(name, "a list")
            self._fail(name, "a list", "something else")
        for item in node.value:
            if not isinstance(item, yaml.ScalarNode):
                self._fail(name, "a list of values", "a nested list or mapping", item)
        if [item.value for item in node.value].count(TODO) > 1:
            # Once it may be a level like any other.
            self._fail(name, "a decision of yours", TODO, hint=_DECIDE)
        return [(str(item.value), item) for item in node.value]

    def numbers(self, name: str) -> tuple[float, ...]:
        """A list of finite numbers."""
        values = []
        for text, item in self._items(name):
            value = finite(text)
            if value is None:
                self._fail(name, "finite numbers", repr(text[:60]), item)
            values.append(value)
        return tuple(values)

    def epsilons(self, name: str) -> tuple[Fraction, ...]:
        """A list of exact ε."""
        return tuple(self._epsilon(text, name, item) for text, item in self._items(name))

    def section(self, name: str) -> Fields:
        """A nested mapping; ``name:`` with nothing behind it is an empty one."""
        self._asked.add(name)
        node = self._nodes.get(name)
        if isinstance(node, yaml.ScalarNode) and node.value == "":
            node = yaml.MappingNode("tag:yaml.org,2002:map", [], node.start_mark, node.end_mark)
        if not isinstance(node, yaml.MappingNode):
            if node is None:
                self._missing(name, "a mapping")
            self._fail(name, "a mapping", "something else")
        return Fields(node, self._path, f"{self._prefix}{_short(name)}.")

    def sections(self, name: str) -> tuple[Fields, ...]:
        """A list of nested mappings; messages name them by their place, from 1."""
        self._asked.add(name)
        node = self._nodes.get(name)
        if not isinstance(node, yaml.SequenceNode):
            self._fail(name, "a list", "nothing" if node is None else "something else")
        for item in node.value:
            if not isinstance(item, yaml.MappingNode):
                self._fail(name, "a list of mappings", "something else", item)
        return tuple(
            Fields(item, self._path, f"{self._prefix}{name}.{place}.")
            for place, item in enumerate(node.value, start=1)
        )

    def finish(self) -> None:
        """Refuse fields that no one asked for: a misspelt field must not be silently dropped."""
        for name in self._nodes:
            if name not in self._asked:
                known = sorted(self._asked)
                near = did_you_mean(name, self._asked | self._optional)
                self._fail(
                    name, f"one of {', '.join(known)}", "a field that is not known", hint=near
                )


def _short(text: str, most: int = 62) -> str:
    """A declared text on one line, cut where it is long: 60 characters in quotes fit."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def finite(text: str) -> float | None:
    """The finite number that ``text`` says, or None."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


@dataclass(frozen=True)
class FieldLines:
    """Every field of one file by its names from the top: ``("models", "one_shot")`` → line."""

    path: Path
    lines: dict[tuple[str, ...], int]

    @classmethod
    def of(cls, path: Path) -> FieldLines:
        """Those of a file; DeclarationError unless it is YAML with a mapping at the top."""
        return cls(path, dict(_places(read_mapping(path), ())))

    def located(self, error: DeclarationError, *field: str) -> DeclarationError:
        """The same error with file and line of a field, or of the nearest one around it."""
        while field and field not in self.lines:
            field = field[:-1]
        line = self.lines.get(field, 1)
        return DeclarationError(f"{self.path}:{line}: {error}")


def _places(
    node: yaml.MappingNode, above: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], int]]:
    for key, value in node.value:
        if isinstance(key, yaml.ScalarNode):
            field = (*above, str(key.value))
            yield field, key.start_mark.line + 1
            if isinstance(value, yaml.MappingNode):
                yield from _places(value, field)


_PLAIN = re.compile(r"[A-Za-z0-9./$]([A-Za-z0-9 ._/$+-]*[A-Za-z0-9._/$+-])?")
_WIDTH = 100

Value = str | Sequence[str]


def scalar(text: str) -> str:
    """One text, in quotation marks where it would be read as something else.

    >>> scalar("Ann Arbor"), scalar("a: b"), scalar(" x"), scalar("")
    ('Ann Arbor', '"a: b"', '" x"', '""')
    """
    if _PLAIN.fullmatch(text):
        return text
    quoted: str = yaml.safe_dump(
        text, default_style='"', allow_unicode=True, width=10**9, explicit_end=False
    )
    return quoted.rstrip("\n")


def flow(value: Value) -> str:
    """A text, or a list of texts, on one line.

    >>> flow(["0", "0.5", "a, b"])
    '[0, 0.5, "a, b"]'
    """
    if isinstance(value, str):
        return scalar(value)
    return f"[{', '.join(map(scalar, value))}]"


def flow_mapping(fields: Mapping[str, Value]) -> str:
    """Fields on one line.

    >>> flow_mapping({"bounds": ["0", "8"], "bins": "4"})
    '{bounds: [0, 8], bins: 4}'
    """
    return "{" + ", ".join(f"{name}: {flow(value)}" for name, value in fields.items()) + "}"


def field_text(name: str, fields: Mapping[str, Value], *, indent: int = 0) -> list[str]:
    """The lines of one field that is a mapping: one line where it fits, else one a field of it."""
    margin = " " * indent
    line = f"{margin}{name}: {flow_mapping(fields)}"
    if len(line) <= _WIDTH:
        return [line]
    inside = [line for one, value in fields.items() for line in _wrapped(one, value, indent + 2)]
    return [f"{margin}{name}:", *inside]


def _wrapped(name: str, value: Value, indent: int) -> list[str]:
    """One field on one line, or a list on as many as it takes, broken between its items."""
    margin = " " * indent
    line = f"{margin}{name}: {flow(value)}"
    if isinstance(value, str) or len(line) <= _WIDTH:
        return [line]
    lines = [f"{margin}  ["]
    for place, item in enumerate(map(scalar, value)):
        text = item + (", " if place < len(value) - 1 else "]")
        if len(lines[-1]) + len(text) > _WIDTH:
            lines.append(f"{margin}   ")
        lines[-1] += text
    return [f"{margin}{name}:", *(one.rstrip() for one in lines)]
