"""The pages of the project as text: their blocks, their links, and what they name."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

FOLDERS = (
    ".",
    "data",
    "deploy",
    "docs",
    "docs/design",
    "docs/notebooks",
    "docs/reference",
    "docs/studies",
    "examples/city",
)

FENCE = re.compile(
    r"^(?P<margin> *)```(?P<language>[^\n]*)\n(?P<text>.*?)^(?P=margin)```$"
    r"(?:\n\n?(?P<after>\*Not run by a test\b[^\n]*))?",
    re.DOTALL | re.MULTILINE,
)
EXCUSE = re.compile(r"\*Not run by a test(?:, (?P<commands>`[^:]+`))?: (?P<reason>.{10,})\*")
RUN = ("bash", "console", "python", "sh")
"""Languages of blocks that a reader would run."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    shown    what the page says it prints, where the next block of the same section is `text`
    excuse   the line below it that says which commands no test runs, and why; else None
    """

    page: str
    line: int
    language: str
    text: str
    shown: str | None
    excuse: str | None

    @property
    def excused(self) -> tuple[str, ...]:
        """How the lines begin that are not run; "" where that is all of them."""
        found = EXCUSE.fullmatch(self.excuse or "")
        if found is None:
            return ()
        return tuple(re.findall(r"`([^`]+)`", found["commands"] or "")) or ("",)

    @property
    def is_run(self) -> bool:
        """Whether a reader would run it, and a test has to."""
        return self.language in RUN and self.excused != ("",)

    @property
    def run_text(self) -> str:
        """Without the lines that are not run."""
        lines = self.text.splitlines()
        return "\n".join(line for line in lines if not line.startswith(self.excused))


@cache
def pages() -> tuple[str, ...]:
    found = [path for folder in FOLDERS for path in sorted((ROOT / folder).glob("*.md"))]
    return tuple(path.relative_to(ROOT).as_posix() for path in found)


@cache
def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@cache
def blocks(page: str) -> tuple[Block, ...]:
    """All blocks of a page, in their order."""
    text = text_of(page)
    found = list(FENCE.finditer(text))
    result = []
    for at, one in enumerate(found):
        after = found[at + 1] if at + 1 < len(found) else None
        between = text[one.end() : after.start()] if after else ""
        follows = after is not None and after["language"] == "text" and "\n#" not in between
        shown = after["text"] if after and follows else None
        line = text.count("\n", 0, one.start()) + 1
        result.append(Block(page, line, one["language"].strip(), one["text"], shown, one["after"]))
    return tuple(result)


def without_blocks(page: str) -> str:
    return re.sub(r"^ *```.*?^ *```$", "", text_of(page), flags=re.DOTALL | re.MULTILINE)


@cache
def anchors(page: str) -> frozenset[str]:
    """What a link may name behind `#`: each heading as GitHub writes it."""
    slugs: list[str] = []
    found: set[str] = set()
    for heading in re.findall(r"^#{1,6} +(.+?) *$", without_blocks(page), re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        repeated = slugs.count(slug)
        slugs.append(slug)
        found.add(f"{slug}-{repeated}" if repeated else slug)
    return frozenset(found)


def links(page: str) -> list[str]:
    """Targets of all links and pictures, but for those to other hosts."""
    prose = re.sub(r"`[^`\n]*`", "", without_blocks(page))
    found: list[str] = re.findall(r"\]\(([^)\s]+)\)", prose)
    return [one for one in found if not re.match(r"[a-z]+:", one)]
