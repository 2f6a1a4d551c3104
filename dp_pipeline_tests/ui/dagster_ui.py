"""What a person does in Dagster's pages: opens them, clicks, reads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import TYPE_CHECKING
from urllib.parse import quote

from dp_pipeline_tests.stack.dagster_client import LOCATION, Run
from dp_pipeline_tests.stack.dagster_stack import DagsterStack
from dp_pipeline_tests.stack.processes import wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

RUN_SECONDS = 300
"""For a run or a backfill to end; a run takes ten on a quiet machine."""


@dataclass(frozen=True)
class DagsterUi:
    """One browser tab on the web server of a stack."""

    page: Page
    stack: DagsterStack

    @property
    def spent(self) -> Fraction:
        return self.stack.project.ledger.balance("riders").spent

    def resize(self, width: int, height: int) -> None:
        """The window, in pixels; before a page is opened, which is laid out once."""
        self.page.set_viewport_size({"width": width, "height": height})

    def open(self, path: str) -> None:
        self.page.goto(f"{self.stack.url}/{path}")

    def open_lineage(self, selection: str = "") -> None:
        """The global asset lineage, or what a selection leaves of it."""
        chosen = quote(selection, safe="")
        self.open(f"asset-groups~{chosen}" if selection else "asset-groups")

    def open_asset(self, key: str, *, view: str = "overview", partition: str = "") -> None:
        self.open(f"assets/{key}?view={view}&partition={partition}")

    def open_job(self, name: str) -> None:
        self.open(f"locations/{LOCATION}/jobs/{name}")

    def open_schedule(self, name: str) -> None:
        self.open(f"locations/{LOCATION}/schedules/{name}")

    def preview_tick(self, schedule: str, day: datetime) -> None:
        """Ask a schedule, in its dialog, what it would start in the morning of some day."""
        self.open_schedule(schedule)
        self.page.get_by_text("Preview tick result").first.click()
        dialog = self.page.get_by_role("dialog").first
        dialog.get_by_text("6:00 AM").click()
        named = f"{day:%b} {day.day}, 6:00 AM UTC"
        self.page.get_by_role("menuitem", name=named).click()
        dialog.get_by_role("button", name="Continue").click()

    def sees(self, text: str | re.Pattern[str]) -> Locator:
        found = self.page.get_by_text(text).first
        found.wait_for()
        return found

    def metadata(self, key: str) -> Locator:
        """The row of one metadata entry of the page that is open."""
        cell = self.page.get_by_role("cell", name=key, exact=True)
        row = self.page.get_by_role("row").filter(has=cell).first
        row.wait_for()
        return row

    def materialize(self, partitions: Sequence[str] = (), *, config: str = "") -> None:
        """Launch what is open: all of it, or the partitions that are chosen in the dialog."""
        dialog = self._opened_dialog()
        if not partitions:
            return
        dialog.get_by_text("Select a partition").click()
        for partition in partitions:
            self.page.get_by_role("menuitem", name=f"{partition} {partition}", exact=True).click()
        self.page.keyboard.press("Escape")
        self._launch(dialog, config)

    def materialize_windows(self, first: str, last: str, *, config: str = "") -> None:
        """Launch what is open for all windows from one to another, as the dialog takes them."""
        dialog = self._opened_dialog()
        named = dialog.get_by_role("textbox").first
        named.fill(f"[{first}...{last}]")
        named.press("Enter")
        self._launch(dialog, config)

    def prepare(self, dataset: str) -> None:
        self.open_job(f"{dataset}_prepare")
        self.materialize()
        self.sees("Launched run")

    def opened(self, value: Locator) -> Locator:
        value.get_by_text("Show Markdown").click()
        dialog = self.page.get_by_role("dialog").last
        # The dialog is there before what it shows.
        dialog.locator("h1, h2, p, img, table").first.wait_for()
        return dialog

    def follow(self, status: str = "") -> None:
        """Open the run or the backfill that was launched just now; wait for a named status."""
        told = self.sees(re.compile("Launched run|Created backfill")).inner_text()
        kind, name = re.search(r"(run|backfill)\s+(\w+)", told).groups()  # type: ignore[union-attr]
        # The note is gone soon, and says the first digits of a run only.
        runs = [run.id for run in self.stack.client.runs() if run.id.startswith(name)]
        self.open(f"runs/b/{name}" if kind == "backfill" else f"runs/{runs[0]}")
        if status:
            self.ends(status)

    def ends(self, status: str) -> None:
        """Wait until the run or the backfill that is open has a status, and no other end."""
        over = re.compile(f"^({re.escape(status)}|Failure|Canceled)$")
        found = self.page.get_by_text(over).first
        found.wait_for(timeout=RUN_SECONDS * 1000)
        assert found.inner_text() == status, f"expected {status}, got {found.inner_text()}"

    def wait_for_runs(self) -> list[Run]:
        """Until every run has ended well; the newest first."""

        def ended() -> list[Run]:
            runs = self.stack.client.runs()
            return runs if all(run.is_finished for run in runs) else []

        runs = wait_for(ended, what="the end of all runs", seconds=RUN_SECONDS)
        assert {run.status for run in runs} == {"SUCCESS"}
        return runs

    def _opened_dialog(self) -> Locator:
        self.page.get_by_role("button", name=re.compile("Materialize( all)?…?$")).first.click()
        return self.page.get_by_role("dialog").first

    def _launch(self, dialog: Locator, config: str) -> None:
        if config:
            dialog.get_by_text("Config", exact=True).click()
            dialog.get_by_role("button", name="Add config").click()
            self.page.locator(".CodeMirror").last.click()
            self.page.keyboard.type(config)
            self.page.get_by_role("button", name="Save config").click()
        dialog.get_by_role("button", name=re.compile("^Launch")).click()
