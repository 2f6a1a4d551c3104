"""Fields of a data set file about time and people: limits, new rows, who answers for it."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Literal

from dp_pipeline.schema.epsilon import epsilon_text
from dp_pipeline.schema.fields import Fields

_OWNER = re.compile(r"team:\S+|[A-Za-z0-9][\w.%+-]*@([A-Za-z0-9-]+\.)+[A-Za-z]{2,7}", re.ASCII)


def parse_ceiling(fields: Fields) -> tuple[Fraction | None, Fraction | None]:
    """The limit for ever and the one of a month; None where there is none."""
    if "ceiling" not in fields:
        return None, None
    section = fields.section("ceiling")
    total = section.epsilon("total")
    per_month = section.epsilon("per_month") if "per_month" in section else None
    section.finish()
    if per_month is not None and per_month > total:
        expected = f"at most the total, {epsilon_text(total)}"
        section.refuse("per_month", expected, epsilon_text(per_month))
    return total, per_month


def parse_refresh(fields: Fields) -> Literal["weekly"] | None:
    """How often the schedule opens a new snapshot."""
    if "refresh" not in fields:
        return None
    fields.text("refresh", choices=("weekly",))
    if "publish" not in fields:
        fields.refuse("refresh", "publish, which says what a new snapshot is for", "nothing")
    return "weekly"


def parse_updates(fields: Fields) -> bool:
    """Whether the moment at which the rows change may be seen."""
    if "updates" not in fields:
        return False
    return fields.text("updates", choices=("public",)) == "public"


def parse_owners(fields: Fields) -> tuple[str, ...]:
    """Who answers for the data set."""
    if "owners" not in fields:
        return ()
    owners = fields.texts("owners")
    for owner in owners:
        if not _OWNER.fullmatch(owner):
            fields.refuse("owners", "e-mail addresses or team:NAME", repr(owner[:60]))
    if not owners or len(set(owners)) < len(owners):
        fields.refuse("owners", "one or more, each once", str(len(owners)))
    return owners
