from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from dp_pipeline.config.errors import Damaged, PipelineError
from dp_pipeline.ledger import Ledger
from dp_pipeline_tests.ledger.population import account, charge, release


def modes(folder: Path) -> dict[str, str]:
    everything = [folder, *folder.rglob("*")]
    return {
        str(path.relative_to(folder)): oct(stat.S_IMODE(path.stat().st_mode)) for path in everything
    }


@pytest.mark.parametrize("mask", [0o000, 0o022])
@pytest.mark.parametrize("before", [None, 0o755])
def test_folders_and_files_are_for_their_owner_only(folder: Path, mask: int, before: int | None):
    old = os.umask(mask)
    try:
        if before:
            folder.mkdir(mode=before)
        ledger = Ledger(folder)
        ledger.open_account(account())
        release(ledger, charge(), "0.1")
        open_meanwhile = sqlite3.connect(folder / "ledger.sqlite")
        open_meanwhile.execute("SELECT * FROM entries").fetchall()
        file_modes = modes(folder)
        open_meanwhile.close()
    finally:
        os.umask(old)
    assert {file_modes.pop(name) for name in (".", "locks", "keys")} == {"0o700"}
    assert set(file_modes.values()) == {"0o600"}
    assert {"ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm"} < set(file_modes)


def test_a_population_has_one_key_for_ever(ledger: Ledger, folder: Path):
    ledger.open_account(account("adult"))
    key = ledger.key("trips")
    assert len(key) == 32
    assert Ledger(folder).key("trips") == key
    assert ledger.key("adult") != key
    assert all(key.hex() not in str(entry) for entry in ledger.entries())


@pytest.mark.parametrize("damage", [lambda p: p.unlink(), lambda p: p.write_bytes(b"short")])
def test_a_lost_key_is_damage_and_is_not_made_anew(ledger: Ledger, folder: Path, damage):
    (path,) = (folder / "keys").iterdir()
    damage(path)
    ledger.open_account(account())
    with pytest.raises(Damaged, match="The key of population"):
        ledger.key("trips")


def test_another_key_in_its_place_is_damage(ledger: Ledger, folder: Path):
    (path,) = (folder / "keys").iterdir()
    path.write_bytes(bytes(32))
    with pytest.raises(Damaged, match="not the key that its account was opened with"):
        ledger.key("trips")


@pytest.mark.parametrize("population", ["../../etc", "a/b", "Ausflüge ε", "." * 300, "%s?mode=ro#"])
def test_any_name_of_a_population_is_safe(folder: Path, population: str):
    ledger = Ledger(folder)
    ledger.open_account(account(population))
    release(ledger, charge(population=population), "0.1")
    assert len(ledger.key(population)) == 32
    assert ledger.populations() == (population,)
    assert [path.parent for path in folder.rglob("*.key")] == [folder / "keys"]


def test_any_name_of_a_folder_is_safe(tmp_path: Path):
    ledger = Ledger(tmp_path / "a b?mode=ro#%20ε")
    ledger.open_account(account())
    assert ledger.populations() == ("trips",)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["a b?mode=ro#%20ε", "a b?mode=ro#%20ε.head"]


def test_a_folder_that_cannot_be_is_one_line(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(PipelineError, match="cannot be used") as refusal:
        Ledger(tmp_path / "file" / "ledger").open_account(account())
    assert "\n" not in str(refusal.value)


def test_importing_the_ledger_loads_no_heavy_library():
    heavy = "{'dagster', 'pandas', 'numpy', 'pyarrow', 'opendp', 'sklearn'}"
    code = f"import sys, dp_pipeline.ledger; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
