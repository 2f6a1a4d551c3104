"""What `make` says before it is silent for a while."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.skipif(shutil.which("make") is None, reason="expected make, got none")
def test_an_installation_says_first_what_it_installs():
    words = ["make", "--dry-run", "--always-make", "--no-print-directory", ".venv/ready"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    first, *others = done.stdout.splitlines()
    assert first.startswith('echo "Installing the packages that constraints.txt names into .venv')
    assert "a minute or two" in first
    assert others[0] == "python3 -m venv .venv"
