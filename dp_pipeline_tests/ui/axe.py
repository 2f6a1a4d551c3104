"""axe, which looks for what keeps people from reading a page: no part of the project, found where
it is installed.

DP_PIPELINE_AXE=…/axe.min.js names the file; else it is looked for in the folders of npm: this one's
and that of all.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser

VARIABLE = "DP_PIPELINE_AXE"
WIDTHS = (390, 1280)
SCHEMES = ("light", "dark")
_FILE = Path("axe-core/axe.min.js")
_GRAVE = ("serious", "critical")


def axe_file() -> Path | None:
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    folders = [Path("node_modules"), *_of_npm()]
    return next((folder / _FILE for folder in folders if (folder / _FILE).is_file()), None)


def _of_npm() -> list[Path]:
    npm = shutil.which("npm")
    if npm is None:
        return []
    asked = subprocess.run([npm, "root", "--global"], capture_output=True, text=True, check=False)
    return [Path(asked.stdout.strip())] if asked.returncode == 0 else []


def found_in(browser: Browser, script: str, page: Path) -> list[str]:
    """What axe calls serious or critical, or a page that is wider than its window, each with where
    it was seen: at both widths, in both colours, with everything opened.
    """
    found = []
    for scheme in SCHEMES:
        for width in WIDTHS:
            # The page itself refuses scripts.
            context = browser.new_context(
                viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True
            )
            try:
                tab = context.new_page()
                tab.goto(page.as_uri())
                tab.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
                tab.evaluate(f"{script};0")
                where = f"{page.name}, {scheme}, {width} px"
                told: dict[str, Any] = tab.evaluate("axe.run()")
                found += [
                    f"{where}: {one['id']} at {one['nodes'][0]['target']}"
                    for one in told["violations"]
                    if one["impact"] in _GRAVE
                ]
                if tab.evaluate("document.documentElement.scrollWidth > innerWidth"):
                    found.append(f"{where}: wider than the window")
            finally:
                context.close()
    return found
