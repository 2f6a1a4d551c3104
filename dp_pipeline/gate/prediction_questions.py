"""PredictionQuestions: what may be asked of released classifiers, with its proof."""

from __future__ import annotations

from fractions import Fraction

from dp_pipeline.gate.door import Door
from dp_pipeline.gate.predicted_label import PredictedLabel
from dp_pipeline.schema.encoding import IntArray


class PredictionQuestions(Door):
    """How often a classifier that was learned from released rows is right about the true ones."""

    def measure_mistakes(self, rule: PredictedLabel, *, epsilon: Fraction) -> IntArray:
        """Rows that the rule answers rightly and rows that it answers wrongly, noisy, (2,).

        The gate learns nothing: the rule is fixed before the rows are looked at.
        ⊕ one row is answered rightly or wrongly: Δ1 = 1 a row.
        """
        rule.require_exact(self.domain)
        return self._laplace(
            f"right and wrong predictions of {rule.target}",
            ("mistakes", rule),
            lambda counter: counter.mistakes(rule).open_at_the_gate(),
            l1_per_row=1,
            epsilon=epsilon,
        )
