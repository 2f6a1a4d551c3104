"""Declared facts about the publisher and the rows of a release: words, never figures."""

import datetime as dt
from typing import Annotated, Literal

from dp_pipeline.config import fields


def _is_day(text: str) -> bool:
    try:
        return dt.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


Day = Annotated[str, fields.text_that(_is_day, "a day, such as 2026-11-01")]
Sector = Literal["Technology", "Healthcare", "Education", "Government", "Energy", "Finance"]


class AboutSection(fields.Section):
    """The publisher, terms and period of a data set, which are copied into every export.

    publisher       The office or person that publishes.
    publisher_kind  What kind of office it is.
    contact         Where questions go: an e-mail address or a page.
    licence         The terms of use of what is released, such as CC-BY-4.0.
    citation        How to cite it.
    as_of           The day that the rows describe.
    region          The region that the rows describe.
    sector          The field that the rows are about.
    use             What the release is meant for.
    """

    publisher: fields.Text | None = None
    publisher_kind: Literal["Government", "Industry", "Nonprofit"] | None = None
    contact: fields.Text | None = None
    licence: fields.Text | None = None
    citation: fields.Text | None = None
    as_of: Day | None = None
    region: fields.Text | None = None
    sector: Sector | None = None
    use: fields.Text | None = None


NOTHING_SAID = AboutSection()
