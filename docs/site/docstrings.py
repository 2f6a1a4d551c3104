"""Docstrings as this program writes them → reStructuredText.

A docstring says what a name means in a column beside it:

    models     only these; all that are declared if none
    epsilons   only these; each has to be declared

which reads well in a terminal, and would be one paragraph in a page.
"""

import re
from collections.abc import Iterator

from sphinx.application import Sphinx

LISTED = re.compile(r"(?P<names>\*{0,2}\w+(?:, \*{0,2}\w+)*) {2,}(?P<text>\S.*)")
"""Names at the margin, at least two spaces, and what they mean. One space after the last of several
names is not enough: it would be a sentence."""

OF_SEVERAL = re.compile(r"(?P<names>\w+(?:, \w+)+) (?P<text>\S.*)")
"""Several names that fill their column, directly below or above a listed one."""


def as_definitions(lines: list[str]) -> list[str]:
    """The same docstring with a definition for each name that is explained in a column."""
    return list(_escaped(_definitions(lines)))


def _definitions(lines: list[str]) -> Iterator[str]:
    column = 0
    for at, line in enumerate(lines):
        found = _listed(lines, at)
        if found:
            column = found.start("text")
            if at and lines[at - 1].strip() and not lines[at - 1].startswith("    "):
                yield ""
            yield ", ".join(f"``{one}``" for one in found["names"].split(", "))
            yield f"    {found['text']}"
        elif column and line.startswith(" " * min(column, 4)):
            yield f"    {line.strip()}"
        else:
            if column and line.strip():
                yield ""
            column = 0
            yield line


def _listed(lines: list[str], at: int) -> re.Match[str] | None:
    found = LISTED.fullmatch(lines[at])
    if found:
        return found
    near = lines[max(at - 1, 0) : at] + lines[at + 1 : at + 2]
    columns = {one.start("text") for one in map(LISTED.fullmatch, near) if one}
    found = OF_SEVERAL.fullmatch(lines[at])
    return found if found and found.start("text") in columns else None


def _escaped(lines: Iterator[str]) -> Iterator[str]:
    """Without what reStructuredText would take for references: `centres_`, |x|."""
    for line in lines:
        parts = re.split(r"(``.*?``|`[^`]+`)", line)
        for at in range(0, len(parts), 2):
            parts[at] = re.sub(r"(?<=\w)_(?!\w)", r"\\_", parts[at]).replace("|", r"\|")
        yield "".join(parts)


def rewrite(
    _app: Sphinx, what: str, _name: str, _of: object, _how: object, lines: list[str]
) -> None:
    """What Sphinx hands to every docstring."""
    lines[:] = as_definitions(lines)
    if what in ("attribute", "property"):
        # Napoleon takes the first line of one up to a colon for its type.
        lines.insert(0, "")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", rewrite, priority=400)
    return {"parallel_read_safe": True}
