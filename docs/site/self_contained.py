"""A built page loads nothing from another host: no font, script, style or picture.

Whoever reads how data is protected should not be told of to a third party by that page.
"""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import SphinxError

LOADING = {"script": "src", "img": "src", "iframe": "src", "link": "href", "source": "src"}
"""Element → its attribute whose address a browser opens by itself."""

IN_STYLES = re.compile(r"""(?:url\(|@import)\s*['"]?((?:https?:)?//[^'")\s]+)""")


class _Loaded(HTMLParser):
    """The addresses on other hosts that a page would open."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        address = dict(attrs).get(LOADING.get(tag, "")) or ""
        if re.match(r"(https?:)?//", address):
            self.found.append(address)


def loaded_from_elsewhere(folder: Path) -> Iterator[str]:
    """A line for each address that a page or a style below a folder would open by itself."""
    for path in sorted(folder.rglob("*.html")):
        page = _Loaded()
        page.feed(path.read_text(encoding="utf-8"))
        yield from (f"{path.relative_to(folder)}: loads {one}" for one in page.found)
    for path in sorted(folder.rglob("*.css")):
        for one in IN_STYLES.findall(path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(folder)}: loads {one}"


def check(app: Sphinx, failure: Exception | None) -> None:
    """Fail a build whose pages would tell another host of their readers."""
    found = [] if failure else list(loaded_from_elsewhere(Path(app.outdir)))
    if found:
        raise SphinxError(
            f"expected pages that load nothing from elsewhere, got {'; '.join(found)}"
        )


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", check)
    return {"parallel_read_safe": True}
