"""The one resource of every asset: the project's home, and where noise comes from."""

from __future__ import annotations

from pathlib import Path

import dagster as dg

from dp_pipeline.orchestration.home import Home, find_home, noise_name


class PipelineResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Folders and noise.

    root    the project's home folder
    noise   ``opendp`` (default), ``exact``, or ``seeded:NUMBER`` for research on benchmark data
    """

    root: str
    noise: str = "opendp"

    @classmethod
    def from_environment(cls) -> PipelineResource:
        """Home and noise as the environment says; raises DeclarationError without a home."""
        return cls(root=str(find_home().root), noise=noise_name())

    @property
    def home(self) -> Home:
        """The project's folders."""
        return Home(Path(self.root))
