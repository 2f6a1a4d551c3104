"""Curator: what a private model is handed in place of rows. It asks, and pays for every answer."""

from __future__ import annotations

from dp_pipeline.gate.centre_questions import CentreQuestions
from dp_pipeline.gate.disclosures import Disclosures
from dp_pipeline.gate.place_questions import PlaceQuestions
from dp_pipeline.gate.prediction_questions import PredictionQuestions
from dp_pipeline.gate.sparse_questions import SparseQuestions
from dp_pipeline.gate.table_questions import TableQuestions


class Curator(
    TableQuestions,
    SparseQuestions,
    PlaceQuestions,
    CentreQuestions,
    PredictionQuestions,
    Disclosures,
):
    """The only way from a model to the rows: tables, places in the declared box, released centres
    and released classifiers.

    Each question goes the same way (``Door``): charge; look up the transcript; only when the
    answer was never drawn, look at the rows, add noise, store; then return it. What is
    disclosed without noise, on benchmarks alone, is recorded in the place of a charge.
    """
