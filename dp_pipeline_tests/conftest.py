import os
from pathlib import Path

import pytest

from dp_pipeline_tests.postgres_server import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]

# As many processes as cores run the tests, and small arrays take longer to share than to add up.
# Tests of what does not depend on threads set their number themselves.
for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

LONGEST_FIRST = ("test_cli.py", "orchestration", "ledger", "models", "raw")
"""Files and folders whose files take longest: whole chains, servers, thousands of cases."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In this order they are handed out, a file at a time: a long one that comes last would be
    waited for.
    """

    def place(item: pytest.Item) -> int:
        parts = Path(item.path).parts
        found = [at for at, name in enumerate(LONGEST_FIRST) if name in parts]
        return found[0] if found else len(LONGEST_FIRST)

    items.sort(key=place)
