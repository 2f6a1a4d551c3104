"""Conditions over columns: comparisons joined by ``and``, ``or``, ``not``, read without ``eval``.

A condition is parsed into Python's syntax tree, of which a closed list of nodes is taken.
"""

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from sys import float_info
from typing import Any, Self, cast

import numpy as np

from dp_pipeline.config.domain import MISSING
from dp_pipeline.config.encoding import Names
from dp_pipeline.config.errors import DeclarationError

Columns = Mapping[str, np.ndarray]
Mask = np.ndarray
Truth = np.ndarray
Levels = Mapping[str, Mapping[str, Mask]]
"""Column of dates → text of a level, such as ``2026-03`` → whether each row has it."""

FALSE, UNKNOWN, TRUE = np.arange(3, dtype=np.int8)
"""The truth of a condition in a row: ``UNKNOWN`` where it rests on a missing value, as in SQL."""

_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}

_EXPECTED = (
    "write comparisons of columns with values, such as `age >= 65 and sex == 'female'`, "
    "joined by and, or, not"
)

_CAPITALS = re.compile(r"\b(AND|OR|NOT|IN)\b")
_LONE_EQUALS = re.compile(r"(?<![=!<>])=(?!=)")
_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d(:\d\d(:\d\d(\.\d{1,9})?)?)?)?", re.ASCII)
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")


@dataclass(frozen=True)
class Condition:
    """A parsed condition on rows.

    text      as it was written
    columns   names of the columns that it compares, in the order of their first use
    tree      its syntax tree, in which every name is that of a column
    """

    text: str
    columns: Names
    tree: ast.expr

    @classmethod
    def parse(cls, text: str, columns: Names) -> Self:
        """Return the condition that a text states.

        columns   names of the columns that a condition may compare; in ``text``, one that is no
                  identifier stands between backticks

        DeclarationError for anything but a text of comparisons of these columns joined by and, or,
        not.

        >>> Condition.parse("age >= 65 and not sex = 'm'", ("age", "sex")).columns
        ('age', 'sex')"""
        if not isinstance(text, str):
            raise DeclarationError(
                f"A condition must be a text, not {type(text).__name__}: {_EXPECTED}"
            )
        # Longer than every name, so that no column has the name of a placeholder.
        stem = "_" * (1 + max(map(len, columns), default=0))
        places = {f"{stem}{i}": name for i, name in enumerate(columns)}
        source = _to_python(text, {name: place for place, name in places.items()})
        unreadable = DeclarationError(f"The condition {text[:80]!r} cannot be read: {_EXPECTED}")
        try:
            tree = ast.parse(source.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise unreadable from None
        used: dict[str, None] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                node.id = require_column(places.get(node.id, node.id), columns)
                used[node.id] = None
        try:
            _check(tree, text)
        except RecursionError:
            raise unreadable from None
        return cls(text, tuple(used), tree)

    def texts(self) -> Iterator[tuple[str, str]]:
        """Yield (column, text) for each text that a column is compared with by =, !=, in or not in.

        >>> list(Condition.parse("sex = 'm' or job in ('cook', 'nurse')", ("sex", "job")).texts())
        [('sex', 'm'), ('job', 'cook'), ('job', 'nurse')]"""
        equality = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)
        for node in ast.walk(self.tree):
            if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], equality):
                continue
            sides = [
                side
                for part in (node.left, *node.comparators)
                for side in getattr(part, "elts", (part,))
            ]
            names = [side.id for side in sides if isinstance(side, ast.Name)]
            values = [side.value for side in sides if isinstance(side, ast.Constant)]
            yield from ((name, str(v)) for name in names for v in values if isinstance(v, str))

    def rows(self, columns: Columns, levels: Levels | None = None) -> Mask:
        """Return whether each row meets the condition, (rows,).

        levels   of dates that the condition compares by =, !=, in or not in

        As in SQL, a row meets neither a comparison of its missing value nor the negation of that.
        Only ``x = 'missing'`` asks for missing values. DeclarationError for values that cannot be
        compared, such as numbers with a word."""
        return np.asarray(_truth(self.tree, columns, levels or {}) == TRUE)


def is_stated(condition: object) -> bool:
    """Return whether a condition is anything but a text of white space, which every row meets.

    A value of another type is stated too, so that ``Condition.parse`` refuses it."""
    return not isinstance(condition, str) or bool(condition.strip())


def _to_python(text: str, places: Mapping[str, str]) -> str:
    """Return the text with `=` as `==`, with AND, OR, NOT and IN in small letters, and with each
    name between backticks as its placeholder."""

    def outside_quotes(part: str) -> str:
        part = _LONE_EQUALS.sub("==", part)
        return _CAPITALS.sub(lambda word: word[0] if word[0] in places else word[0].lower(), part)

    parts, start = [], 0
    for quoted in _QUOTED.finditer(text):
        parts.append(outside_quotes(text[start : quoted.start()]))
        content = quoted[0]
        if content.startswith("`"):
            content = places[require_column(content[1:-1], tuple(places))]
        parts.append(content)
        start = quoted.end()
    parts.append(outside_quotes(text[start:]))
    return "".join(parts)


def require_column(name: object, columns: Names, *, is_compared: bool = True) -> str:
    """Return the name of a column unchanged; DeclarationError for another value.

    is_compared   whether the message says that a condition names it, not the question itself
    """
    if isinstance(name, str) and name in columns:
        return name
    got = f"{name[:40]!r}" if isinstance(name, str) else f"a value of type {type(name).__name__}"
    listed = ", ".join(columns[:12]) + (", …" if len(columns) > 12 else "")
    of, hint = ("condition", "; a text stands in quotes") if is_compared else ("question", "")
    raise DeclarationError(f"The {of} names {got}, which is no column: choose from {listed}{hint}")


def _check(node: ast.expr, text: str) -> None:
    if isinstance(node, ast.BoolOp):
        for value in node.values:
            _check(value, text)
        return
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        _check(node.operand, text)
        return
    if isinstance(node, ast.Compare) and _is_allowed_comparison(node):
        return
    raise DeclarationError(
        f"The condition {text[:80]!r} uses something else than comparisons: {_EXPECTED}"
    )


def _is_allowed_comparison(node: ast.Compare) -> bool:
    sides = [node.left, *node.comparators]
    if any(isinstance(op, ast.In | ast.NotIn) for op in node.ops):
        values = node.comparators[0]
        return (
            len(node.ops) == 1
            and isinstance(node.left, ast.Name)
            and isinstance(values, ast.Tuple | ast.List | ast.Set)
            and all(_is_value(value) for value in values.elts)
        )
    return (
        all(type(op) in _COMPARISONS for op in node.ops)
        and all(isinstance(side, ast.Name) or _is_value(side) for side in sides)
        and all(ast.Name in map(type, compared) for compared in pairwise(sides))
    )


def _is_value(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return isinstance(node.operand, ast.Constant) and type(node.operand.value) in (int, float)
    return isinstance(node, ast.Constant) and isinstance(node.value, str | int | float | bool)


def _truth(node: ast.expr, columns: Columns, levels: Levels) -> Truth:
    """Return the truth of a condition in each row, (rows,): the least of those joined by ``and``,
    the greatest of those joined by ``or``."""
    if isinstance(node, ast.BoolOp):
        join = np.minimum if isinstance(node.op, ast.And) else np.maximum
        return np.asarray(join.reduce([_truth(value, columns, levels) for value in node.values]))
    if isinstance(node, ast.UnaryOp):
        return TRUE - _truth(node.operand, columns, levels)
    assert isinstance(node, ast.Compare)
    if isinstance(node.ops[0], ast.In | ast.NotIn):
        values = cast("ast.Tuple | ast.List | ast.Set", node.comparators[0]).elts
        among = np.full(len(columns[cast("ast.Name", node.left).id]), FALSE)
        for value in values:
            truth = _compare(operator.eq, node.left, value, columns, levels)
            among = np.maximum(among, truth)
        return TRUE - among if isinstance(node.ops[0], ast.NotIn) else among
    sides = (node.left, *node.comparators)
    truths = [
        _compare(_COMPARISONS[type(op)], first, second, columns, levels)
        for op, first, second in zip(node.ops, sides, sides[1:], strict=False)
    ]
    return np.asarray(np.minimum.reduce(truths))


def _compare(
    compare: Callable[[Any, Any], Any],
    first: ast.expr,
    second: ast.expr,
    columns: Columns,
    levels: Levels,
) -> Truth:
    """Return the truth of a comparison of two sides, of which at least one is a column.

    A column of texts is compared with a number as numbers where every text is a number, else as
    texts. Missing values equal the text ``missing``, which names them, and dates that of their
    level."""
    if not isinstance(first, ast.Name):
        flipped = {operator.lt: operator.gt, operator.le: operator.ge}
        flipped |= {new: old for old, new in flipped.items()}
        first, second, compare = second, first, flipped.get(compare, compare)
    name = cast("ast.Name", first).id
    column, rows = columns[name], np.full(len(columns[name]), UNKNOWN)
    present = _is_present(column)
    if compare in (operator.eq, operator.ne) and isinstance(second, ast.Constant):
        if second.value == MISSING:
            is_missing = ~present | (column.astype(object) == MISSING)
            return np.where(compare(is_missing, True), TRUE, FALSE)
        is_level = levels.get(name, {}).get(str(second.value))
        if is_level is not None:
            truth = np.where(compare(is_level, True), TRUE, FALSE)
            return np.where(present, truth, UNKNOWN)
    if isinstance(second, ast.Name):
        present &= _is_present(columns[second.id])
        values, other = column[present], columns[second.id][present]
    else:
        values, other = _to_one_type(column[present], ast.literal_eval(second), name)
    try:
        rows[present] = np.where(compare(values, other), TRUE, FALSE)
    except TypeError:
        raise DeclarationError(
            f"The condition orders {name} and {ast.unparse(second)[:40]}, which are of two types: "
            "compare each with a value of its own"
        ) from None
    return rows


def _is_present(column: np.ndarray) -> Mask:
    if column.dtype.kind == "O":
        return np.array([value is not None for value in column.tolist()], dtype=np.bool_)
    return ~np.isnat(column) if column.dtype.kind == "M" else np.ones(len(column), dtype=np.bool_)


def _to_one_type(values: np.ndarray, constant: Any, name: str) -> tuple[np.ndarray, Any]:
    """Return the values of a column and a constant in types that can be compared.

    DeclarationError for a constant that is no date or number where the column holds these."""
    if isinstance(constant, int) and abs(constant) > float_info.max:
        constant = inf if constant > 0 else -inf
    if values.dtype.kind == "O":
        values = np.array(values.tolist())
    if values.dtype.kind == "U" and not isinstance(constant, str):
        try:
            return values.astype(np.float64), constant
        except ValueError:
            return values, str(constant)
    is_date = values.dtype.kind == "M"
    try:
        if is_date:
            # NumPy reads words and parts of dates too: 99 would be a year. In units finer than
            # microseconds it compares years that overflow.
            text = str(constant) if _DATE.fullmatch(str(constant)) else "?"
            return values, np.datetime64(text, "us")
        is_number = values.dtype.kind in "iuf"
        return values, float(constant) if is_number and isinstance(constant, str) else constant
    except ValueError:
        kind, example = ("date", "'2024-05-31'") if is_date else ("number", "65")
        raise DeclarationError(
            f"The condition compares {name}, a column of {kind}s, with {str(constant)[:40]!r}: "
            f"compare it with a {kind}, such as {example}"
        ) from None
