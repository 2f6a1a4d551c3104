"""`data init --public` of rows that a release population protects: nobody may call them public."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import CliRunner

from dp_pipeline.cli import main
from dp_pipeline.ledger import Account
from dp_pipeline.releases.home import Home

SECRET = "1902107770713359"


@pytest.fixture(autouse=True)
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("DP_PIPELINE_LEDGER", "DP_PIPELINE_LEDGER_HEAD", "DP_PIPELINE_DATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DP_PIPELINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DP_PIPELINE_DATASETS", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "rides.csv"
    path.write_text(f"lat,bike\n47.1,{SECRET}\n47.2,city\n")
    return path


def claim(rows: Path, purpose: str) -> None:
    ledger = Home(rows.parent / "home").ledger
    ledger.open_account(Account("riders", "one row", "add_remove", purpose, Fraction(1)))
    ledger.claim_source("riders", f"file:{rows}")


def test_protected_rows_are_not_looked_at(rows: Path):
    claim(rows, "release")
    result = CliRunner().invoke(main, ["data", "init", "again", "--from", "rides.csv", "--public"])
    assert result.exit_code != 0
    assert "is protected by population riders" in result.stderr
    assert SECRET not in result.output
    assert not Path("again.yaml").exists()
    # Names and types of columns alone may be drafted still.
    assert CliRunner().invoke(main, ["data", "init", "again", "--from", "rides.csv"]).exit_code == 0


def test_protected_rows_are_known_by_another_name_of_their_file(rows: Path):
    claim(rows, "release")
    Path("linked.csv").hardlink_to(rows)
    Path("parts").mkdir()
    Path("parts/may.parquet").symlink_to(rows)
    for origin in ("linked.csv", "parts", "/proc/self/cwd/rides.csv"):
        result = CliRunner().invoke(main, ["data", "init", "again", "--from", origin, "--public"])
        assert "is protected by population riders" in result.stderr


def test_rows_of_a_benchmark_are(rows: Path):
    claim(rows, "benchmark")
    result = CliRunner().invoke(main, ["data", "init", "again", "--from", "rides.csv", "--public"])
    assert result.exit_code == 0, result.output
