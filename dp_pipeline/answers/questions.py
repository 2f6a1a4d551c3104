"""Questions in words, such as ``count where age >= 65``, answered by an open release."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dp_pipeline.answers.estimate import Estimate
from dp_pipeline.config.errors import DeclarationError

if TYPE_CHECKING:
    from dp_pipeline.answers.boxes import OpenClusters
    from dp_pipeline.answers.tables import OpenTable
    from dp_pipeline.answers.units import OpenUnits

_NAME = r"(?:`[^`]+`|[^\s`,]+)"
_WHERE = r"(?: where (?P<where>.+?))?"
_PART = " with a part where "
_WITH = rf"(?:{_PART}(?P<any_part>.+?))?"
_FORMS = {
    "count": rf"count{_WHERE}{_WITH}",
    "share": rf"share(?= where |{_PART}){_WHERE}{_WITH}(?: among (?P<among>.+))?",
    "mean": rf"mean (?P<column>{_NAME})(?: by (?P<by>{_NAME}))?{_WHERE}{_WITH}",
    "quantile": rf"quantile (?P<probability>[0-9.]+) of (?P<column>{_NAME}){_WHERE}{_WITH}",
    "table": rf"table (?P<columns>{_NAME}(?:,? {_NAME})*)",
    "sizes": "sizes",
}
"""Method of an open release → the question that asks for it."""

EXAMPLES = (
    "count where income = '50k+' and sex = 'female'",
    "count where region = 'Vienna' with a part where age < 16",
    "share where tenure = 'owner' among age >= 65",
    "mean hours by education where age < 30",
    "quantile 0.5 of income",
    "table age income",
    "sizes",
)

Line = Mapping[str, Any]
"""``value``, ``low``, ``high`` and ``basis`` of an estimate, after the columns with whose values it
was asked for, such as those of ``by``. Means and quantiles of dates are texts in ISO 8601.
"""


def answer_question(
    release: "OpenTable | OpenUnits | OpenClusters",
    question: str,
    *,
    level: float = 0.95,
    of_parts: bool = False,
) -> list[Line]:
    """Return the estimates that answer a question, each a mapping from ``value``, ``low``, ``high``
    and ``basis``: one for a number, several for ``table``, ``sizes`` and ``mean … by``.

    question   written like one of ``EXAMPLES``; ``sizes`` only of clusters
    level      of the intervals, between 0 and 1
    of_parts   whether parts of units are counted instead of units

    DeclarationError for a question of another form, which names the forms that this release
    answers; for parts of a release without any; and for what the method of the question refuses."""
    if of_parts:
        release = _require_parts(release).parts
    text, fault = " ".join(question.split()), "cannot be read"
    for method, form in _FORMS.items():
        match = re.fullmatch(form, text)
        if match is not None and not _can_answer(release, text):
            fault = "is one that this release does not answer"
        elif match is not None:
            parts = {name: part for name, part in match.groupdict().items() if part}
            if "any_part" in parts and of_parts:
                raise DeclarationError(
                    "A question with `with a part where` is about units, but `--parts` asks about "
                    "parts: leave `--parts` out, or put the condition in `where`"
                )
            if "any_part" in parts:
                _require_parts(release)
            return _lines(release, method, parts, level)
    examples = [
        example
        for example in EXAMPLES
        if _can_answer(release, example) and (hasattr(release, "parts") or _PART not in example)
    ]
    raise DeclarationError(
        f"The question {question[:80]!r} {fault}: write one such as {'; '.join(examples)}"
    )


def _can_answer(release: "OpenTable | OpenUnits | OpenClusters", question: str) -> bool:
    # Clusters have shares of all their rows alone.
    has_among = hasattr(release, "mean") or " among " not in question
    return has_among and hasattr(release, question.partition(" ")[0])


def _require_parts(release: "OpenTable | OpenUnits | OpenClusters") -> "OpenUnits":
    from dp_pipeline.answers.units import OpenUnits

    if not isinstance(release, OpenUnits):
        raise DeclarationError(
            "Parts can be asked for where units have parts, such as persons of households, but "
            "this release has none: leave `--parts` or `with a part where` out"
        )
    return release


def _lines(release: Any, method: str, parts: Mapping[str, str], level: float) -> list[Line]:
    chosen: dict[str, Any] = dict(parts)
    names = [name.strip("`") for name in re.findall(_NAME, chosen.pop("columns", ""))]
    for name in {"column", "by"} & set(chosen):
        chosen[name] = chosen[name].strip("`")
    if "probability" in chosen:
        try:
            chosen["probability"] = float(chosen["probability"])
        except ValueError:
            raise DeclarationError(
                "The probability of a quantile must be a number from 0 to 1, not "
                f"{chosen['probability'][:20]!r}"
            ) from None
    estimates = getattr(release, method)(*names, **chosen, level=level)
    if isinstance(estimates, Estimate):
        return [_line(release, estimates, chosen.get("column"))]
    if isinstance(estimates, list):
        return [{"centre": i, **_line(release, each)} for i, each in enumerate(estimates, start=1)]
    if isinstance(estimates, dict):
        return [
            {chosen["by"]: value, **_line(release, estimate, chosen["column"])}
            for value, estimate in estimates.items()
        ]
    lines: list[Line] = estimates.rename(columns={"count": "value"}).to_dict("records")
    return lines


def _line(release: Any, estimate: Estimate, column: str | None = None) -> dict[str, Any]:
    numbers = {name: getattr(estimate, name) for name in ("value", "low", "high")}
    if column is not None:
        numbers = {name: release.value_of(column, number) for name, number in numbers.items()}
    return {**numbers, "basis": estimate.basis}
