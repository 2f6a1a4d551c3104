"""CentreQuestions: what may be asked of released centres, each with its proof."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dp_pipeline.gate.admissible import require_classes, require_rule, require_subsets
from dp_pipeline.gate.door import Door
from dp_pipeline.gate.nearest_centre import NearestCentre
from dp_pipeline.gate.once import Once
from dp_pipeline.release.measurement import NoisyClusters
from dp_pipeline.schema.encoding import COORDINATE_BITS, IntArray


class CentreQuestions(Door):
    """Rows by their nearest released centre: how far, how many, where, and of which level."""

    def measure_distance(
        self, rule: NearestCentre, *, clip: int, shift: int, epsilon: Fraction
    ) -> IntArray:
        """Σ min(D, clip) >> shift over the rows, noisy; shape ().

        ⊕ one row adds a whole number in 0..clip >> shift: Δ1 = clip >> shift a row.
        """
        require_rule(self.domain, rule)
        rule.require_exact(clip=clip, shift=shift)
        return self._laplace(
            f"clipped squared distance to {len(rule.centres)} released centres, "
            f"clip {clip} shift {shift}",
            ("distance", rule, clip, shift),
            lambda counter: counter.distance_total(rule, clip=clip, shift=shift).open_at_the_gate(),
            l1_per_row=clip >> shift,
            epsilon=epsilon,
        )

    def measure_clusters(
        self,
        rules: Sequence[NearestCentre],
        *,
        sizes_epsilon: Fraction,
        totals_epsilon: Fraction,
        salt: int = 0,
    ) -> NoisyClusters:
        """Sizes and totals of the clusters of every subset: two measures, one scan.

        rules   one a subset; one alone takes every row. Rows go to subsets by a hash.

        ⊕ one row is in one subset and one cluster: Δ1 = 1 a row for the sizes, and
        Σ|q| ≤ d·2^16 for the totals. Two units, so two measures, both charged first.
        """
        require_subsets(self.domain, rules, salt)
        d = len(rules[0].columns)
        what = f"of {len(rules)} × {len(rules[0].centres)} clusters"
        of_sizes = self._spend(f"sizes {what}", 1, sizes_epsilon)
        of_totals = self._spend(f"totals {what}", d << COORDINATE_BITS, totals_epsilon)
        self.accountant.charge(of_sizes, of_totals)
        look = Once(lambda counter: counter.sum_by_centre(rules, salt=salt).open_at_the_gate())
        about = (tuple(rules), salt)
        sizes = self._noisy(
            of_sizes, ("sizes of clusters", *about), lambda counter: look(counter)[..., 0]
        )
        totals = self._noisy(
            of_totals, ("totals of clusters", *about), lambda counter: look(counter)[..., 1:]
        )
        return NoisyClusters(sizes, totals, of_sizes.scale, of_totals.scale)

    def measure_residuals(
        self, rule: NearestCentre, radii: tuple[int, ...], *, epsilon: Fraction
    ) -> IntArray:
        """Clipped residual totals of every cluster, noisy, (k, d); one radius is 2^16.

        ⊕ one row is in one cluster and adds at most 2^16 in L1 (rounded towards zero).
        """
        require_rule(self.domain, rule)
        rule.require_radii(radii)
        return self._laplace(
            f"residuals of {len(rule.centres)} clusters",
            ("residuals", rule, radii),
            lambda counter: counter.residuals(rule, radii).open_at_the_gate(),
            l1_per_row=1 << COORDINATE_BITS,
            epsilon=epsilon,
        )

    def measure_classes(
        self, rule: NearestCentre, attribute: str, *, epsilon: Fraction
    ) -> IntArray:
        """Rows of every level of ``attribute`` in every released cluster, noisy, (levels, k).

        ⊕ one row has one level and one nearest centre: Δ1 = 1 a row.
        """
        require_classes(self.domain, rule, attribute)
        return self._laplace(
            f"levels of {attribute} in {len(rule.centres)} clusters",
            ("levels in clusters", rule, attribute),
            lambda counter: counter.classify(rule, attribute).open_at_the_gate(),
            l1_per_row=1,
            epsilon=epsilon,
        )
