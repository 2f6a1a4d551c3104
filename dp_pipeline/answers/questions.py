"""Questions in words, such as ``count where age >= 65``, answered by an open release."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dp_pipeline.answers.estimate import Estimate
from dp_pipeline.config.errors import DeclarationError

if TYPE_CHECKING:
    from dp_pipeline.answers.tables import OpenTable

_NAME = r"(?:`[^`]+`|[^\s`,]+)"
_WHERE = r"(?: where (?P<where>.+))?"
_FORMS = {
    "count": rf"count{_WHERE}",
    "share": r"share where (?P<where>.+?)(?: among (?P<among>.+))?",
    "mean": rf"mean (?P<column>{_NAME})(?: by (?P<by>{_NAME}))?{_WHERE}",
    "quantile": rf"quantile (?P<probability>[0-9.]+) of (?P<column>{_NAME}){_WHERE}",
    "table": rf"table (?P<columns>{_NAME}(?:,? {_NAME})*)",
}
"""Method of an open release → the question that asks for it."""

EXAMPLES = (
    "count where income = '50k+' and sex = 'female'",
    "share where tenure = 'owner' among age >= 65",
    "mean hours by education where age < 30",
    "quantile 0.5 of income",
    "table age income",
)

Line = Mapping[str, Any]
"""An estimate: ``value``, ``low``, ``high`` and ``basis``, after the values of columns that it is
about.
"""


def lines_of(release: OpenTable, question: str, *, level: float = 0.95) -> list[Line]:
    """Return the estimates that answer a question in words.

    question   as in ``EXAMPLES``
    level      of the intervals

    DeclarationError with what can be asked for another question.
    """
    text = " ".join(question.split())
    for method, form in _FORMS.items():
        match = re.fullmatch(form, text)
        if match is not None:
            parts = {name: part for name, part in match.groupdict().items() if part}
            return _lines(release, method, parts, level)
    raise DeclarationError(
        f"question: expected such as {'; '.join(EXAMPLES)}, got {question[:80]!r}"
    )


def _lines(release: OpenTable, method: str, parts: Mapping[str, str], level: float) -> list[Line]:
    if method == "table":
        names = [name.strip("`") for name in re.findall(_NAME, parts["columns"])]
        frame = release.table(*names, level=level).rename(columns={"count": "value"})
        return [
            {str(name): cell for name, cell in line.items()} for line in frame.to_dict("records")
        ]
    chosen: dict[str, Any] = {
        n: p.strip("`") if n in ("column", "by") else p for n, p in parts.items()
    }
    if "probability" in chosen:
        chosen["probability"] = _probability(chosen["probability"])
    estimates = getattr(release, method)(**chosen, level=level)
    if isinstance(estimates, Estimate):
        return [_line(estimates)]
    return [{chosen["by"]: value, **_line(estimate)} for value, estimate in estimates.items()]


def _probability(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise DeclarationError(
            f"probability: expected a number from 0 to 1, got {text[:20]!r}"
        ) from None


def _line(estimate: Estimate) -> dict[str, Any]:
    return {name: getattr(estimate, name) for name in ("value", "low", "high", "basis")}
