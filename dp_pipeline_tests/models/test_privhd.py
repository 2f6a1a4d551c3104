"""PrivHD: what its variants cost, what they refuse, and which cliques they find."""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dp_pipeline.config.catalogue import find_spec
from dp_pipeline.config.domain import Domain
from dp_pipeline.config.errors import BoundaryViolation, DeclarationError
from dp_pipeline.models import build_model
from dp_pipeline.models.base import PrivacyGuarantee, declared_guarantee, guarantee_of
from dp_pipeline.models.tables.independent import Independent
from dp_pipeline.models.tables.privbayes import PrivBayes
from dp_pipeline.models.tables.privhd import PrivHd
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.results.accountant import LAPLACE, NOISY_MAX
from dp_pipeline.results.synthetic_table import SyntheticTable
from dp_pipeline_tests.config.declarations import loaded
from dp_pipeline_tests.instruments import SILENT, curator_over
from dp_pipeline_tests.models.contract import run
from dp_pipeline_tests.models.discrete import levels
from dp_pipeline_tests.models.tables import BITS, FEW, TWINS, table_of
from dp_pipeline_tests.populations import TEN_PEOPLE

ONE = Fraction(1)
VARIANTS = ("tuned", "published", "composed", "peeling")
PUBLIC_ROW_SCORES = VARIANTS[1:]

every_variant = pytest.mark.parametrize("variant", VARIANTS)


def bits(many: int) -> Domain:
    return levels(**{f"a{index}": 2 for index in range(many)})


def test_as_published_it_composes_to_8_2_on_16_attributes() -> None:
    claim = guarantee_of(PrivHd(variant="published"), Fraction("0.8"), domain=bits(16))
    assert (claim.kind, claim.epsilon) == ("dp", Fraction("8.2"))
    assert "compose to more than ε" in claim.reason


def test_as_published_pairs_and_draws_cost_whole_shares() -> None:
    # ε1 = 0.1: 6 pairs and 6 draws at 0.05, and the tables at 0.7.
    domain, epsilon = bits(4), Fraction("0.8")
    done = run(PrivHd(variant="published"), (), domain=domain, epsilon=epsilon)
    pairs, *rest = done.spends
    assert (pairs.mechanism, pairs.epsilon) == (LAPLACE, 6 * Fraction("0.05"))
    draws = [one.epsilon for one in rest if one.mechanism == NOISY_MAX]
    assert draws == [Fraction("0.05")] * 6
    tables = [one.epsilon for one in rest if one.mechanism == LAPLACE]
    assert sum(tables) == Fraction("0.7")
    assert len(set(tables)) == 1


def test_a_draw_without_a_pair_is_lost_as_published_alone() -> None:
    # 40 · 40 cells are above the cap: there is nothing to draw.
    for variant, draws in {"published": 2, "peeling": 0, "composed": 0, "tuned": 0}.items():
        done = run(PrivHd(variant=variant), (), domain=levels(a=40, b=40))
        assert len([one for one in done.spends if one.mechanism == NOISY_MAX]) == draws
        assert set(table_of(done).cliques) == {("a",), ("b",)}


def test_sound_variants_claim_what_is_asked() -> None:
    assert guarantee_of(PrivHd(), ONE) == PrivacyGuarantee("dp", ONE)
    for variant in ("composed", "peeling"):
        claim = guarantee_of(PrivHd(variant=variant), ONE, domain=BITS)
        assert (claim.epsilon, claim.is_plain) == (ONE, False)
    with pytest.raises(BoundaryViolation, match="The guarantee of PrivHd needs the attributes of"):
        guarantee_of(PrivHd(variant="published"), ONE)


REFUSED = {
    "data to be released": {"ceiling": "ceiling:\n  total: 90"},
    "a person more or less": {"purpose": "purpose: benchmark", "relation": "relation: add_remove"},
    "a person with many rows": {"purpose": "purpose: benchmark"},
}

READERS = [("privhd", f"variant: {one}", PrivHd(variant=one)) for one in PUBLIC_ROW_SCORES]
READERS += [("privbayes", f"score: {one}", PrivBayes(score=one)) for one in ("I", "F")]
BINARY = "attributes:\n  colour: {levels: [red, green], nullable: false}\n"
BINARY += "  size: {levels: [small, large], nullable: false}"


@pytest.mark.parametrize(("name", "parameter", "model"), READERS, ids=lambda one: str(one)[:12])
@pytest.mark.parametrize("why", REFUSED)
def test_public_rows_are_refused_but_on_benchmarks(name, parameter, model, why, tmp_path):
    models, relation = f"models:\n  {name}: {{{parameter}}}", "relation: replace_one"
    changes = {"attributes": BINARY, "models": models, "relation": relation, **REFUSED[why]}
    with pytest.raises(DeclarationError, match="the model needs a public number of rows, as of a"):
        build_model(loaded(tmp_path, **changes), name)
    changes |= {"purpose": "purpose: benchmark", "ceiling": None, "relation": relation}
    changes["protection"] = "protection:\n  unit: one_row"
    assert build_model(loaded(tmp_path, **changes), name) == model


def test_what_reads_no_public_rows_is_built_on_any_data(tmp_path: Path) -> None:
    models = "models:\n  privhd: {variant: tuned}\n  privbayes: {score: R}"
    spec = loaded(tmp_path, attributes=BINARY, models=models)
    assert build_model(spec, "privhd") == PrivHd()
    assert build_model(spec, "privbayes") == PrivBayes()


@pytest.mark.parametrize("variant", PUBLIC_ROW_SCORES)
def test_the_gate_refuses_mutual_information_of_other_rows(variant: str) -> None:
    curator = curator_over(TEN_PEOPLE)
    with pytest.raises(BoundaryViolation, match="replace_one"):
        PrivHd(variant=variant).fit(curator, epsilon=ONE, rng=np.random.default_rng(1))
    assert curator.accountant.spends == ()


def test_shares_that_leave_nothing_for_the_tables_are_refused() -> None:
    half = Fraction(1, 2)
    with pytest.raises(DeclarationError, match="PrivHd needs structure_share and one_way_share"):
        PrivHd(structure_share=half, one_way_share=half).check(BITS)
    PrivHd(structure_share=half).check(BITS)


@pytest.mark.parametrize("name", ["nltcs_replace", "adult_replace"])
def test_the_data_sets_of_replaced_rows_record_the_composed_cost(name, tmp_path, monkeypatch):
    monkeypatch.setenv("DP_PIPELINE_DATA", str(tmp_path))
    spec = find_spec(name)
    model = build_model(spec, "privhd")
    claims = {one: declared_guarantee(spec, model, one).epsilon for one in spec.partitions}
    expected = {"nltcs_replace": "8.2", "adult_replace": "7.35"}[name]
    assert claims[Fraction("0.8")] == Fraction(expected)
    assert (spec.population, spec.relation) == (name, "replace_one")


@every_variant
def test_what_depends_is_in_one_clique_and_nothing_else(variant: str) -> None:
    # The paper's ε1 is 0.1 however large ε is: many twins make its noise small. Room for two
    # attributes, and no merger. A pair that nothing joins passes the filter once in 10^16.
    codes = np.array(TWINS, dtype=np.uint8).repeat(20_000, axis=0)
    columns = dict(zip(BITS.names, codes.T, strict=True))
    counter = MemoryCounter(BITS, coordinates={}, codes=columns, rows=len(codes))
    model = PrivHd(variant=variant, clique_cells=4)
    table = table_of(run(model, counter, domain=BITS, epsilon=SILENT))
    cliques = {frozenset(clique) for clique in table.cliques}
    assert {frozenset("ab"), frozenset("cd"), frozenset("ef")} <= cliques
    assert {*table.cliques} <= {marginal.attributes for marginal in table.measured}
    assert variant != "published" or len(cliques) == 3


@pytest.mark.parametrize("variant", PUBLIC_ROW_SCORES)
@pytest.mark.parametrize("people", FEW)
def test_as_many_rows_as_are_public_are_drawn(variant: str, people: str) -> None:
    released = run(PrivHd(variant=variant), FEW[people], epsilon=Fraction(1, 1000)).released
    assert len(released.codes) == len(FEW[people])


def test_more_edges_are_drawn_the_more_there_is_to_see() -> None:
    def draws(epsilon: str, kappa: Fraction | None = None) -> int:
        done = run(PrivHd(kappa=kappa), TWINS, domain=BITS, epsilon=Fraction(epsilon))
        return len([one for one in done.spends if one.mechanism == NOISY_MAX])

    # N̂·ε1/10 is below half a spanning tree, between, and above every clique that fits.
    assert draws("0.1") == 0
    assert 0 < draws("5") <= draws("50")
    assert draws("50", kappa=Fraction(1)) == 5


def chained(rows: int, attributes: int) -> tuple[MemoryCounter, Domain]:
    """Bits of which each is the one before, but for every tenth."""
    rng = np.random.default_rng(4)
    domain = bits(attributes)
    flips = rng.random((rows, attributes)) < [0.5] + [0.1] * (attributes - 1)
    codes = (np.cumsum(flips, axis=1) % 2).astype(np.uint8)
    columns = dict(zip(domain.names, codes.T, strict=True))
    return MemoryCounter(domain, coordinates={}, codes=columns, rows=rows), domain


def error(counter: MemoryCounter, table: SyntheticTable, domain: Domain) -> float:
    """Mean total variation distance over all pairs of neighbours in the chain."""
    names: Sequence[tuple[str, str]] = list(zip(domain.names, domain.names[1:], strict=False))
    distances = []
    for pair, sealed in zip(names, counter.count(names), strict=True):
        exact = sealed.open_at_the_gate()
        distances.append(np.abs(exact / exact.sum() - table.probabilities(pair)).sum() / 2)
    return float(np.mean(distances))


@every_variant
def test_a_chain_is_kept_better_than_by_independence(variant: str) -> None:
    # In 60 runs each errors were 0.005 to 0.011 with a deviation of at most 0.015, largest
    # 0.08, where one edge was missed: the bound takes three missed edges of seven.
    counter, domain = chained(5000, 8)
    alone = run(Independent(), counter, domain=domain, epsilon=ONE)
    joint = run(PrivHd(variant=variant), counter, domain=domain, epsilon=ONE)
    assert error(counter, table_of(joint), domain) < 0.2
    assert error(counter, alone.released, domain) > 0.35  # type: ignore[arg-type]
