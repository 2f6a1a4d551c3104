"""Home: where a project keeps its rows, releases, ledger and reports. Knows no Dagster."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from dp_pipeline.ledger.ledger import Ledger
from dp_pipeline.schema.errors import DeclarationError

HOME_VARIABLE = "DP_PIPELINE_HOME"
NOISE_VARIABLE = "DP_PIPELINE_NOISE"


@dataclass(frozen=True)
class Home:
    """The folders of one project, all under ``root``. The ledger lies outside Dagster's own
    storage: deleting a run history must not reset a budget.
    """

    root: Path

    @property
    def raw(self) -> Path:
        """Snapshots and the steward's exact results: private."""
        return self.root / "raw"

    @property
    def released(self) -> Path:
        """Transcripts and bundles."""
        return self.root / "released"

    @property
    def internal(self) -> Path:
        """What the steward's assets hand on: evaluations and comparisons."""
        return self.root / "internal"

    @property
    def reports(self) -> Path:
        """HTML reports."""
        return self.root / "reports"

    @property
    def ledger(self) -> Ledger:
        """The privacy ledger of this project."""
        return Ledger(self.root / "ledger")


def find_home() -> Home:
    """``$DP_PIPELINE_HOME``, or ``data/`` beside the nearest workspace.yaml at or above the
    working folder.

    Raises DeclarationError where there is neither: a ledger made in whatever folder
    a command was started from would be a new, empty budget.
    """
    named = os.environ.get(HOME_VARIABLE)
    if named:
        return Home(Path(named).resolve())
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "workspace.yaml").is_file():
            return Home(folder / "data")
    raise DeclarationError(
        f"home: expected a project folder with workspace.yaml or {HOME_VARIABLE}, got {here}"
    )


def noise_name() -> str:
    """The noise source that ``$DP_PIPELINE_NOISE`` names; OpenDP where nothing is said."""
    return os.environ.get(NOISE_VARIABLE) or "opendp"
