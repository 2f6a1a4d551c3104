"""Pictures of pages for the README, written only where somebody asked for them."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

FOLDER_VARIABLE = "DP_PIPELINE_PICTURES"
"""Names the folder that pictures are written to."""


def keep_picture(page: Page, name: str) -> None:
    """What the page shows now, in 128 colours, as NAME.png."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        return
    from PIL import Image

    # What moves comes to rest.
    page.wait_for_timeout(1500)
    with Image.open(io.BytesIO(page.screenshot())) as picture:
        few = picture.convert("RGB").quantize(128, dither=Image.Dither.NONE)
        Path(folder).mkdir(parents=True, exist_ok=True)
        few.save(Path(folder) / f"{name}.png", optimize=True)
