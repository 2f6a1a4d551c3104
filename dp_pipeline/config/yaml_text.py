"""Reading YAML as texts with their lines, and writing texts as YAML.

YAML's own types are not used: ``0.1`` must stay the text 0.1, ``no`` a level and ``1.0`` a
partition key. Repeated keys and aliases are refused, since they could silently change the
declaration.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import yaml

from dp_pipeline.config.errors import DeclarationError, FieldError, is_name
from dp_pipeline.config.system_errors import bounded_bytes, os_error_reason, remedy_of

_MAX_BYTES = 1 << 22
_SURROGATE = re.compile("[\ud800-\udfff]")
"""Halves of characters, which an escape in YAML can name, and no file or path can have."""
_ALIAS = "an alias is not allowed: write out the value that it stands for"

TODO = "TODO"
"""The text of an open decision."""

Place = tuple[str | int, ...]
"""Names of fields from the outermost one down; a number is an index in a list."""


class _TextLoader(yaml.BaseLoader):
    """A YAML loader that refuses aliases, and escapes that name no character."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem=_ALIAS, problem_mark=mark)
        return super().compose_node(parent, index)

    def scan_flow_scalar(self, style: str) -> yaml.ScalarToken:
        try:
            return super().scan_flow_scalar(style)
        except (ValueError, OverflowError):
            problem, mark = "an escape names no character", self.get_mark()
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=mark) from None


@dataclass(frozen=True)
class Document:
    """The texts of a YAML file, with their line numbers.

    texts   field → text, list or mapping of texts
    keys    place → line of a field's name, or of an item of a list
    values  place → line on which its value begins
    """

    path: Path
    texts: dict[str, Any] = field(default_factory=dict)
    keys: dict[Place, int] = field(default_factory=dict)
    values: dict[Place, int] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the document in a YAML file; DeclarationError if it cannot be read or is wrong."""
        try:
            text = bounded_bytes(path, max_bytes=_MAX_BYTES).decode("utf-8")
        except UnicodeDecodeError:
            reason, remedy = "not UTF-8 text", "save it as UTF-8"
        except OSError as error:
            reason, remedy = os_error_reason(error), remedy_of(error)
            if isinstance(error, FileNotFoundError) and is_name(path.stem):
                remedy = f"`dp-pipeline data init {path.stem} --from ROWS` drafts one"
        else:
            return cls.of_text(text, path)
        ending = f": {remedy}" if remedy else ""
        raise DeclarationError(f"{path}: the file cannot be read: {reason}{ending}")

    @classmethod
    def of_text(cls, text: str, path: Path) -> Self:
        """Return the document of a text that is, or will be, in the file ``path``.

        DeclarationError for invalid YAML, and unless it is a mapping.
        """
        document = cls(path)
        try:
            node = yaml.compose(text, Loader=_TextLoader)
            if not isinstance(node, yaml.MappingNode):
                got = "empty" if node is None else "not"
                raise DeclarationError(
                    f"{path}: the file must be a mapping of fields, `name: value`, but it is {got}"
                )
            document.texts.update(document._read_node(node, ()))
        except yaml.YAMLError as error:
            problem = getattr(error, "problem", None) or "a broken document"
            if isinstance(error, yaml.reader.ReaderError):
                problem = f"the character U+{ord(text[error.position]):04X} is not allowed"
            fault = problem if problem == _ALIAS else f"the text is not valid YAML: {problem}"
            raise DeclarationError(f"{path}:{mistake_line(error, text)}: {fault}") from None
        except RecursionError:
            raise DeclarationError(
                f"{path}: the text is not valid YAML: its lists and mappings are nested too deeply:"
                " write fewer levels"
            ) from None
        return document

    def _read_node(self, node: yaml.Node, place: Place) -> Any:
        """Return the texts of a YAML node, and record the lines of all nodes in it."""
        self.values[place] = node.start_mark.line + 1
        self.keys.setdefault(place, node.start_mark.line + 1)
        if isinstance(node, yaml.SequenceNode):
            return [self._read_node(item, (*place, index)) for index, item in enumerate(node.value)]
        if not isinstance(node, yaml.MappingNode):
            self._require_characters(node.value, place)
            return str(node.value)
        texts: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                odd = (*place, "a field's name")
                self.values[odd] = key.start_mark.line + 1
                raise self.refusal(FieldError("one value", "a list or mapping", field=odd))
            self._require_characters(key.value, place)
            below = (*place, str(key.value))
            if below in self.values:
                self.values[below] = key.start_mark.line + 1
                twice = FieldError("each field once", "the same field twice", field=below)
                raise self.refusal(twice)
            self.keys[below] = key.start_mark.line + 1
            texts[str(key.value)] = self._read_node(value, below)
        return texts

    def _require_characters(self, text: str, place: Place) -> None:
        surrogate = _SURROGATE.search(text)
        if surrogate is not None:
            got, hint = f"the surrogate U+{ord(surrogate[0]):04X}", ": write the character itself"
            raise self.refusal(FieldError("characters", got, field=place, hint=hint))

    def located(self, error: DeclarationError, *names: str) -> DeclarationError:
        """Return ``error`` with the file, and the line of the field ``names`` or of one around it.

        names   of fields from the outermost one down

        The data set's name is removed from the message, since the file has it.
        """
        line, message = _nearest_line(self.keys, names), str(error)
        return DeclarationError(
            f"{self.path}:{line}: {message.removeprefix(f'{self.path.stem}: ')}"
        )

    def line(self, place: Place) -> int:
        """Return the line number of the value of a field, or of the nearest enclosing field."""
        return _nearest_line(self.values, self._written(place))

    def _written(self, place: Place) -> Place:
        """Return a place without the numbers of lists that are not written around a single item."""
        for end in range(1, len(place) + 1):
            if isinstance(place[end - 1], int) and place[:end] not in self.values:
                # Items of the only list in a list are numbered, but the list is not.
                gone = end - 2 if isinstance(place[end - 2], int) else end - 1
                return self._written((*place[:gone], *place[gone + 1 :]))
        return place

    def refusal(self, refused: FieldError) -> DeclarationError:
        """Return the DeclarationError for one field, with file and line."""
        names = list(self._written(refused.field))
        if names and isinstance(names[-1], int):
            # The line identifies the item of a list.
            names.pop()
        path = ".".join(str(part + 1) if isinstance(part, int) else _short(part) for part in names)
        return DeclarationError(
            f"{self.path}:{self.line(refused.field)}: {path or 'the file'}: expected "
            f"{_short(refused.expected, 200)}, got {_short(refused.got)}{refused.hint}"
        )


def _nearest_line(lines: Mapping[Place, int], place: Place) -> int:
    while place and place not in lines:
        place = place[:-1]
    return lines.get(place, 1)


def _short(text: str, most: int = 62) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def mistake_line(error: yaml.YAMLError, text: str) -> int:
    """Return the number of the line where a text is no YAML; where it ends too early, of the line
    where its open quotation or list begins."""
    if isinstance(error, yaml.reader.ReaderError):
        return text.count("\n", 0, error.position) + 1
    marks = (getattr(error, f"{name}_mark", None) for name in ("problem", "context"))
    lines = (mark.line + 1 for mark in marks if mark is not None and mark.index < len(text))
    return next(lines, text.count("\n") or 1)


_PLAIN = re.compile(r"[A-Za-z0-9./$]([A-Za-z0-9 ._/$+-]*[A-Za-z0-9._/$+-])?")
_WIDTH = 100

Value = str | Sequence[str]


def scalar(text: str) -> str:
    """Return a text as YAML, in quotation marks if needed.

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
    """Return a text or a list of texts as one line of YAML.

    >>> flow(["0", "0.5", "a, b"])
    '[0, 0.5, "a, b"]'
    """
    if isinstance(value, str):
        return scalar(value)
    return f"[{', '.join(map(scalar, value))}]"


def flow_mapping(fields: Mapping[str, Value]) -> str:
    """Return fields as one line of YAML.

    >>> flow_mapping({"bounds": ["0", "8"], "bins": "4"})
    '{bounds: [0, 8], bins: 4}'
    """
    return "{" + ", ".join(f"{name}: {flow(value)}" for name, value in fields.items()) + "}"


def field_text(name: str, fields: Mapping[str, Value], *, indent: int = 0) -> list[str]:
    """Return the mapping ``name`` as lines of YAML: one if it fits, else at least one a field."""
    margin = " " * indent
    line = f"{margin}{name}: {flow_mapping(fields)}"
    if len(line) <= _WIDTH:
        return [line]
    lines = [line for field, value in fields.items() for line in _wrapped(field, value, indent + 2)]
    return [f"{margin}{name}:", *lines]


def _wrapped(name: str, value: Value, indent: int) -> list[str]:
    margin = " " * indent
    line = f"{margin}{name}: {flow(value)}"
    if isinstance(value, str) or len(line) <= _WIDTH:
        return [line]
    lines = [f"{margin}  ["]
    for index, item in enumerate(map(scalar, value)):
        text = item + (", " if index < len(value) - 1 else "]")
        if len(lines[-1]) + len(text) > _WIDTH:
            lines.append(f"{margin}   ")
        lines[-1] += text
    return [f"{margin}{name}:", *(line.rstrip() for line in lines)]
