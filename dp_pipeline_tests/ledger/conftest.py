from __future__ import annotations

from pathlib import Path

import pytest

from dp_pipeline.ledger import Ledger
from dp_pipeline_tests.ledger.population import account


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


@pytest.fixture
def ledger(folder: Path) -> Ledger:
    """One account: trips, with a ceiling of 1."""
    ledger = Ledger(folder)
    ledger.open_account(account())
    return ledger
