"""The one resource of every asset: the project's home, and where noise comes from."""

from __future__ import annotations

from dataclasses import dataclass

import dagster as dg

from dp_pipeline.ledger.home import Home, find_home, noise_name


@dataclass(frozen=True)
class Pipeline:
    """Folders and noise, fixed when the definitions are loaded.

    Not a configurable resource: a launchpad that could point a run at another home
    would point it at another, empty ledger.

    noise   ``opendp`` (default), ``exact``, or ``seeded:NUMBER`` for research on benchmark data
    """

    home: Home
    noise: str = "opendp"

    @classmethod
    def from_environment(cls) -> Pipeline:
        """Home and noise as the environment says; raises DeclarationError without a home."""
        return cls(find_home(), noise_name())


PipelineResource = dg.ResourceParam[Pipeline]
"""How an asset asks for it."""
