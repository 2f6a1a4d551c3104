"""What only a ledger can refuse."""

from __future__ import annotations

from dp_pipeline.schema.errors import PipelineError


class DeadRelease(PipelineError):
    """A release whose noisy answers are lost, or that a person gave up: its ε is spent, only a
    fresh replicate goes on.
    """


class ReservationOver(PipelineError):
    """A reservation that was settled, has died or was left, and is used once more."""


class UnbalancedSpends(PipelineError):
    """The spends of a release do not sum to its charge; the release stays unsettled."""
