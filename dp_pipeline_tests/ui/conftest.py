from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from dp_pipeline_tests.orchestration.projects import Project
from dp_pipeline_tests.stack.dagster_stack import running_stack
from dp_pipeline_tests.ui.browser import NAMES, chromium, open_browser, watched_page
from dp_pipeline_tests.ui.dagster_ui import DagsterUi
from dp_pipeline_tests.ui.town import declare_town

if TYPE_CHECKING:
    from playwright.sync_api import Browser

Tab = Callable[[], AbstractContextManager[DagsterUi]]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One for all tests; without Playwright or a Chromium they are skipped."""
    if find_spec("playwright") is None:
        pytest.skip("expected Playwright (pip install 'dp-pipeline[ui]'), got none")
    program = chromium()
    if program is None:
        pytest.skip(f"needs a Chromium called one of {', '.join(NAMES)}")
    with open_browser(program) as opened:
        yield opened


@pytest.fixture(scope="session")
def tab(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    """Opens a watched tab on Dagster over the town, whose rides are being prepared."""
    project = Project(tmp_path_factory.mktemp("town"))
    declare_town(project)
    with project.stored_instance():
        # Two servers that make its tables at one time can end in each other's way.
        pass

    with running_stack(project, patient=True) as stack:

        @contextmanager
        def opened() -> Iterator[DagsterUi]:
            with watched_page(browser) as (page, watched):
                try:
                    yield DagsterUi(page, stack)
                except BaseException as error:
                    seen = project.folder / "last_seen.png"
                    page.screenshot(path=seen)
                    error.add_note(f"last seen: {seen}, at {page.url}")
                    raise
            assert watched.errors == []
            assert watched.elsewhere == []

        # Its run goes on beside the first tests.
        with opened() as first:
            first.prepare("rides")
        yield opened


@pytest.fixture
def ui(tab: Tab) -> Iterator[DagsterUi]:
    with tab() as opened:
        yield opened


@pytest.fixture(scope="session")
def released(tab: Tab) -> None:
    """The rides at ε = 0.5, by a click on Materialize."""
    with tab() as ui:
        ui.wait_for_runs()
        ui.open_asset("rides/eug_kmeans")
        ui.materialize(["0.5"])
        ui.follow("Success")


@pytest.fixture(scope="session")
def swept(tab: Tab, released: None) -> None:  # noqa: ARG001
    """The rides at every ε, by the dialog of the backfill job; then the report."""
    with tab() as ui:
        ui.open_job("rides_epsilon_backfill")
        ui.materialize(["0.1", "0.5", "1"])
        ui.follow("100% completed")
        ui.wait_for_runs()
        ui.open_job("rides_report")
        ui.materialize()
        ui.follow("Success")
