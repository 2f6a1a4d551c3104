import gc
import os
import shutil
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from dp_pipeline.cli import NEW_OBJECTS
from dp_pipeline_tests.postgres_server import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]

# As many processes as cores run the tests, and small arrays take longer to share than to add up.
# Tests of what does not depend on threads set their number themselves.
for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

# In memory where there is room: else most tests wait for a disk that nobody will read. Whoever
# names a folder, by this variable or by --basetemp, gets that.
IN_MEMORY, ROOM = Path("/dev/shm"), 4 << 30
if os.access(IN_MEMORY, os.W_OK) and shutil.disk_usage(IN_MEMORY).free > ROOM:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(IN_MEMORY))

# How long examples take says how busy the computer is. As many of them as most tests ask for, and
# the same in every run: `--hypothesis-profile default` looks for new ones.
settings.register_profile(
    "patient",
    deadline=None,
    max_examples=60,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("patient")

# Thousands of modules and tests are collected, and all of them stay: see below.
gc.disable()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for no examples in the docstrings of tests, which have none: that takes seconds."""
    return [collector for collector in (yield) if type(collector) is pytest.Module]


LONGEST_FIRST = ("test_cli.py", "orchestration", "ledger", "studies", "models", "raw")
"""Files and folders whose files take longest: whole chains, servers, thousands of cases."""

BY_ONE_PROCESS = ("orchestration", "ledger", "studies")
"""Folders whose files share what takes seconds to make: a released data set, a server, studies."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Hand out long files first: one that comes last would be waited for."""

    def place(item: pytest.Item) -> int:
        parts = Path(item.path).parts
        found = [at for at, name in enumerate(LONGEST_FIRST) if name in parts]
        return found[0] if found else len(LONGEST_FIRST)

    items.sort(key=place)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """``--dist loadfile``, but hand out some folders whole, unless with their long chains."""
    without_chains = "not chain" in config.getvalue("markexpr")
    if config.getvalue("dist") != "loadfile" or not without_chains:
        return None
    from xdist.scheduler import LoadFileScheduling

    class LoadFolders(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            shared = [name for name in Path(file).parts if name in BY_ONE_PROCESS]
            return shared[0] if shared else file

    return LoadFolders(config, log)


@pytest.fixture(scope="module")
def forgotten_disk() -> Iterator[None]:
    """Leave files to the kernel to write: one chain would wait for the disk a hundred times."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)
        yield


@pytest.fixture(scope="module")
def blank_pictures() -> Iterator[None]:
    """Make blank pictures: one chain would draw five, which the tests of reporting look at."""
    # Late: most folders of tests draw nothing.
    from matplotlib.figure import Figure

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "draw", lambda *_: None)
        yield


def pytest_collection_finish() -> None:
    """From here on garbage is looked for again, but not among what was collected."""
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS)
    gc.enable()
