"""Text of release cards: markdown in which nothing is markup that was not made here."""

from __future__ import annotations

import re
from collections.abc import Sequence

_MARKS = re.compile(r"[\\`*\[\]<>|~&]|(?<![^\W_])_|_(?![^\W_])")


def points(sentences: Sequence[str]) -> str:
    """A list, one point a sentence."""
    return "\n".join(f"- {plain(sentence)}" for sentence in sentences)


def plain(text: str) -> str:
    r"""One line of text that is no markup.

    >>> plain("mean_radius <b>*new*</b>\n# _x_")
    'mean_radius \\<b\\>\\*new\\*\\</b\\> # \\_x\\_'
    """
    return _MARKS.sub(lambda mark: "\\" + mark.group(), " ".join(text.split()))
