"""How often a release looks at all rows: what is large is read once a look."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

from dp_pipeline.gate.curator import Curator
from dp_pipeline.models import MODELS
from dp_pipeline.models.base import fit, guarantee_of
from dp_pipeline.raw.counters.batch import BatchQuery
from dp_pipeline.raw.counters.fold import FoldCounter, Partial
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.results.accountant import Accountant
from dp_pipeline_tests.instruments import curator_over
from dp_pipeline_tests.models.spaces import in_memory, space, two_groups
from dp_pipeline_tests.models.tables import wide

LOOKS = {
    "htree_kmeans": 9,
    "eug_kmeans": 2,
    "dpqt_kmeans": 2,
    "hybrid_kmeans": 3,
    "dplloyd": 7,
    "independent": 1,
    "priview": 1,
    "jtree": 3,
    "privhd": 3,
    "mst": 3,
    "one_shot": 5,
}
"""Model → looks at most. Those that choose again and again, as PrivBayes and AIM, take one a round;
a generation of a tree is one."""


def looks(name: str) -> int:
    """Of one fit with default parameters at ε = 1."""
    rows: MemoryCounter
    if name.endswith(("kmeans", "lloyd")):
        domain = space(3)
        rows = in_memory(two_groups(domain, 4000), domain)
    else:
        domain, rows = wide(8, 4000)
    taken: list[int] = []

    def fold(questions: Sequence[BatchQuery]) -> Partial:
        taken.append(len(questions))
        return rows._fold(questions)

    def ask(accountant: Accountant) -> Curator:
        return curator_over(FoldCounter(domain, fold), domain=domain, accountant=accountant)

    model, epsilon = MODELS[name](), Fraction(1)
    rng = np.random.default_rng(0)
    fit(model, guarantee_of(model, epsilon), ask, epsilon=epsilon, rng=rng)
    return len(taken)


@pytest.mark.parametrize("name", LOOKS)
def test_a_release_looks_at_the_rows_a_few_times(name: str) -> None:
    assert 1 <= looks(name) <= LOOKS[name]
