"""What every model promises, as checks that a model passes or a mutant fails."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dp_pipeline.config.amounts import PURE, Currency
from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import IntArray
from dp_pipeline.gate.counter import Counter
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.noise import NoiseSource
from dp_pipeline.models import MODELS, build_model
from dp_pipeline.models.base import Model, PrivacyGuarantee, Released, guarantee_of
from dp_pipeline.models.clustering.base import Clustering
from dp_pipeline.results.accountant import (
    EXPONENTIAL,
    GAUSSIAN,
    LAPLACE,
    LINF,
    NOISY_MAX,
    REFINED,
    ROUNDED_UP,
    Accountant,
    Spend,
)
from dp_pipeline.results.class_table import ClassTable
from dp_pipeline.results.clusters import Clusters, Tables
from dp_pipeline.results.synthetic_table import SyntheticTable, read_noisy_tables
from dp_pipeline.results.transcript import Transcript
from dp_pipeline_tests.config.declarations import loaded
from dp_pipeline_tests.gate.distributions import log_probability_of_splits
from dp_pipeline_tests.gate.questions import people as populations
from dp_pipeline_tests.instruments import Draw, ForcedNoise, RecordingNoise, curator_over
from dp_pipeline_tests.populations import NOBODY, TEN_PEOPLE, TOWN, LoopCounter, Row

ONE = Fraction(1)
SMALL: Mapping[str, Any] = {
    "k": 3,
    "starts": 2,
    "levels": 3,
    "label": ("smokes",),
    "bits": 3,
    "shape": Fraction(1, 3),
}
"""Small values of the parameters that a model has, to be quick; and no halves of ε, which nobody
could tell apart.
"""

STAND_IN: Row = (7.5, 0.9, "blue", "yes")
"""Who is replaced, where neighbours have as many rows and there is nobody else."""

LOOSE = ("splits over", "residuals of", "clipped squared distance")
"""Questions whose proof bounds what a person loses without everybody reaching it."""

PLACES: Sequence[Row] = tuple(
    (x, y, "red", "no") for x in (0.0, 0.3, 3.9, 4.0, 8.0) for y in (-1.0, -0.1, 1.0)
)
"""Where a person of the town may stand: on edges and corners of the box, and within."""


def built(model_type: type, **values: object) -> Model:
    """A model with small parameters, and those of ``values`` that it has."""
    known = {field.name for field in fields(model_type)}
    return model_type(**{name: v for name, v in {**SMALL, **values}.items() if name in known})


def build_declared(folder: Path, name: str, texts: Mapping[str, str], **changes: str) -> Model:
    """The model that a data set file with these parameters declares."""
    parameters = ", ".join(f"{key}: {text}" for key, text in texts.items())
    models = f"models: {{{name}: {{{parameters}}}}}"
    return build_model(loaded(folder, models=models, **changes), name)


VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "dp_kmeans, packing": {"start": "packing"},
    "dp_kmeans, halving": {"budgets": "halving"},
    "dp_kjig, independence": {"score": "independence"},
}
"""Cases of parameters that decide how ε is divided or what a score's sensitivity is."""


def model_cases(*, declared: int = 1000) -> dict[str, Model]:
    """Every registered model; where it plans with a number of rows, declared and paid for; where
    a finite ε is proven for its published variant, that one too; and its ``VARIANTS``.
    """
    cases = {
        case: built(MODELS[case.partition(",")[0]], **values) for case, values in VARIANTS.items()
    }
    for name, model_type in MODELS.items():
        if any(field.name == "nominal_rows" for field in fields(model_type)):
            for how, rows in {"declared": declared, "paid": None}.items():
                cases[f"{name}, rows {how}"] = built(model_type, nominal_rows=rows)
        else:
            cases[name] = built(model_type)
        if any(field.name == "variant" for field in fields(model_type)):
            published = built(model_type, nominal_rows=declared, variant="published")
            if claimed(published, Fraction(1)).is_dp:
                cases[f"{name}, published"] = published
    return cases


def clustering_cases(*, declared: int = 1000) -> dict[str, Model]:
    """The cases that release centres."""
    cases = model_cases(declared=declared)
    return {name: model for name, model in cases.items() if isinstance(model, Clustering)}


class Constant(ForcedNoise):
    def __init__(self, answer: int) -> None:
        super().__init__(seed=0, name="constant")
        self.answer = answer

    def discrete_laplace(self, counts: IntArray, _: Fraction) -> IntArray:
        return np.full(counts.shape, self.answer, dtype=np.int64)

    def sparse_laplace(self, *_: Any, cells: int, threshold: int, **__: Any) -> IntArray:
        keys = np.arange(cells if self.answer >= threshold else 0)
        return np.stack([keys, np.full(len(keys), self.answer)], axis=1)

    def noisy_max(self, _: IntArray, __: Fraction) -> int:
        return 0


LargeAnswers = partial(Constant, 2000)
"""Every box is split as often as it can be."""


@dataclass(frozen=True)
class Run:
    """One fit: what came out, what was drawn, what was charged, and in which currency."""

    released: Released
    draws: tuple[Draw, ...]
    spends: tuple[Spend, ...]
    currency: Currency = PURE

    @property
    def contents(self) -> dict[tuple[str, str], tuple[str, bytes]]:
        """Every column of every table, to the last bit."""
        return {
            (table, name): (values.dtype.str, values.tobytes())
            for table, columns in self.released.tables().items()
            for name, values in columns.items()
        }


def run(
    model: Model,
    rows: Sequence[Row] | Counter | None = TEN_PEOPLE,
    *,
    epsilon: Fraction = Fraction(1),
    distance: int = 1,
    noise: NoiseSource | None = None,
    transcript: Transcript | None = None,
    seed: int = 7,
    domain: Domain = TOWN,
    delta: Fraction | None = None,
    earlier: Tables | None = None,
) -> Run:
    """Fit on a fresh curator with a budget of what the model claims to cost; ``seed`` is for
    post-processing, ``earlier`` a release that it plans from. A model that reads the number of
    rows is run where one row is replaced.
    """
    recorder = RecordingNoise() if noise is None else RecordingNoise(noise)
    claim, public = claimed(model, epsilon, delta, domain), model.needs_public_rows
    declared: Mapping[str, Any] = {"distance": distance}
    if public:
        declared = {"benchmark": True, "relation": "replace_one", "distance": 2}
    curator = curator_over(
        LoopCounter(rows, domain) if isinstance(rows, tuple | list) else rows,
        accountant=Accountant(claim.amount, claim.currency),
        noise=recorder,
        transcript=transcript,
        domain=domain,
        **declared,
    )
    rng = np.random.default_rng(seed)
    fit = model.fit if earlier is None else partial(model.fit_after, earlier)
    released = fit(curator, epsilon=epsilon, rng=rng)
    return Run(released, tuple(recorder.draws), curator.accountant.spends, claim.currency)


def claimed(
    model: Model,
    epsilon: Fraction,
    delta: Fraction | None = None,
    domain: Domain = TOWN,
    **_: object,
) -> PrivacyGuarantee:
    return guarantee_of(model, epsilon, delta, domain=domain)


def check_budget(
    model: Model, rows: Sequence[Row] = TEN_PEOPLE, *, places: Sequence[Row] = PLACES, **how: Any
) -> Run:
    """Every draw was charged, and the scales drawn prove charges of exactly what is claimed.

    A session is one charge with many draws, of which a person is in those of one path: there
    the proof is what a person loses, in many places.
    """
    done = run(model, rows, **how)
    amount = claimed(model, **how).amount
    assert all(isinstance(spend.epsilon_of_scale, Fraction) for spend in done.spends)
    costs = [(spend.epsilon_of_scale, spend.currency) for spend in done.spends]
    assert sum(spent_in(done.currency, *cost) for cost in costs) <= amount
    if {spend.mechanism for spend in done.spends} <= {*_PROOFS}:
        # The scale of an exponential mechanism is a square root, rounded up.
        rounded = any(draw.mechanism == EXPONENTIAL for draw in done.draws)
        assert amount * (1 - ROUNDED_UP * rounded) <= sum(_proven(done)) <= amount
    else:
        assert sum(spent_in(done.currency, *cost) for cost in costs) == amount
        for place in places:
            loss = check_loss(model, (), (place,) * how["distance"], seed=3, **how)
            if loss != amount:
                of_nobody = run(model, (), noise=ForcedNoise(3), **how)
                words = [spend.what for spend in (*done.spends, *of_nobody.spends)]
                assert any(what.startswith(LOOSE) for what in words)
    return done


_PROOFS = {
    LAPLACE: lambda moved, scale: moved / scale,
    LINF: lambda moved, scale: moved / scale,
    REFINED: lambda moved, scale: moved / scale,
    NOISY_MAX: lambda moved, scale: 2 * moved / scale,
    GAUSSIAN: lambda moved, variance: moved / (2 * variance),
    EXPONENTIAL: lambda moved, scale: (2 * moved / scale) ** 2 / 8,
}
"""Mechanism with one draw a charge → its ε, or ρ: of Δ1, Δ∞, Δ1, Δ∞, Δ2² and Δ∞, in this order."""


def spent_in(
    currency: Currency, amount: Fraction | float, paid_in: str = "pure"
) -> Fraction | float:
    """What an amount costs in the currency of a release: an ε of a release in ρ is ε²/2."""
    return amount if paid_in == currency.name else amount * amount / 2


def _proven(done: Run) -> list[Fraction | float]:
    """What every draw cost, from its scale and the sensitivity that it stands beside."""
    assert [draw.mechanism for draw in done.draws] == [spend.mechanism for spend in done.spends]
    proven = []
    for draw, spend in zip(done.draws, done.spends, strict=True):
        amount = _PROOFS[draw.mechanism](Fraction(spend.sensitivity), draw.scale)
        paid_in = "zcdp" if draw.mechanism in (GAUSSIAN, EXPONENTIAL) else "pure"
        proven.append(spent_in(done.currency, amount, paid_in))
    return proven


def privacy_loss(one: Run, other: Run) -> Fraction | float:
    """Most that any answer's log-probability differs between two runs with the same answers; of
    runs that pay in ρ, the ρ of all answers.

    Laplace: ‖c − c'‖₁/scale. L∞ mechanism: max|c − c'|/scale, at most. Noisy max:
    2·max|u − u'|/scale. Biased splits: the difference of the log-probabilities of the bits.
    Gaussian: ρ = ‖c − c'‖₂²/(2σ²). Exponential mechanism: ρ = η²/8, η the range of
    (u − u')/scale. Read off what the noise source was handed; no claimed sensitivity enters.
    """
    total: Fraction | float = Fraction(0)
    bits = 0.0
    splitting = {s.scale for s in one.spends if s.mechanism.startswith("biased splits")}
    for here, there in zip(one.draws, other.draws, strict=True):
        assert (here.mechanism, here.scale) == (there.mechanism, there.scale)
        signed = here.exact.ravel().astype(object) - there.exact.ravel().astype(object)
        difference = np.abs(signed)
        if here.scale in splitting:
            split = (here.answer > 0).tolist()
            assert split == (there.answer > 0).tolist()
            bits += log_probability_of_splits(here.exact, split, here.scale)
            bits -= log_probability_of_splits(there.exact, split, there.scale)
        elif here.mechanism in (LAPLACE, REFINED):
            total += spent_in(one.currency, int(difference.sum()) / here.scale)
        elif here.mechanism in (LINF, NOISY_MAX):
            times = 2 if here.mechanism == NOISY_MAX else 1
            total += spent_in(one.currency, times * int(difference.max(initial=0)) / here.scale)
        elif here.mechanism == GAUSSIAN:
            total += int((signed * signed).sum()) / (2 * here.scale)
        else:
            total += (int(signed.max() - signed.min()) / here.scale) ** 2 / 8
    return total + abs(bits) if splitting else total


def loss_of_joining(
    ask: Callable[[Curator], Any], person: Sequence[Row], *, epsilon: Fraction
) -> Fraction | float:
    """Return the privacy loss of what a curator of nobody is asked, when a person joins: at most
    ``epsilon``, and no less where she moves every answer as far as she can.
    """
    runs = []
    for rows in (NOBODY, tuple(person)):
        recorder = RecordingNoise(ForcedNoise(1))
        curator = curator_over(rows, epsilon=epsilon, distance=len(person), noise=recorder)
        released = ask(curator)
        runs.append(Run(released, tuple(recorder.draws), curator.accountant.spends))
    return privacy_loss(*runs)


def check_loss(
    model: Model, rows: Sequence[Row], person: Sequence[Row], *, seed: int = 1, **how: Any
) -> Fraction | float:
    """With the same answers, a person changes nothing that is released, and the answers'
    log-probability by at most what is claimed; returns by how much. In ρ where a δ is given.
    """
    without, joined = (
        run(model, people, noise=ForcedNoise(seed), **how)
        for people in neighbours(model, rows, person)
    )
    assert without.contents == joined.contents
    loss = privacy_loss(without, joined)
    rounding = 0 if isinstance(loss, Fraction) else 1e-9
    assert loss <= claimed(model, **how).amount + rounding
    return loss


def fuzz_loss(model: Model, *, distance: int, examples: int = 8, **how: Any) -> None:
    """Fail if a population, a person and answers are found that lose more than is claimed."""

    # Without the shrinking of failures: a mutant needs to be caught, not to be explained.
    @settings(max_examples=examples, database=None, phases=[Phase.explicit, Phase.generate])
    @given(
        rows=populations,
        person=st.lists(populations.filter(bool).map(lambda rows: rows[0]), min_size=1, max_size=3),
        seed=st.integers(0, 1000),
    )
    def loses_at_most_the_claim(rows: list[Row], person: list[Row], seed: int) -> None:
        reached = person[:distance]
        check_loss(model, rows, reached, distance=distance, seed=seed, **{"epsilon": ONE, **how})

    loses_at_most_the_claim()


def neighbours(
    model: Model, rows: Sequence[Row], person: Sequence[Row]
) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    """The rows without, or where their number is public with somebody else, and with the person."""
    if model.needs_public_rows:
        others = tuple(rows) or (STAND_IN,)
        return others, (person[0], *others[1:])
    return tuple(rows), (*rows, *person)


def check_replay(
    model: Model,
    rows: Sequence[Row] = TEN_PEOPLE,
    *,
    elsewhere: Sequence[Sequence[Row] | None] = (NOBODY,),
    **how: Any,
) -> None:
    """The recorded answers, replayed over other rows, give the same bytes and draw nothing."""
    transcript = Transcript()
    first = run(model, rows, transcript=transcript, **how)
    for people in elsewhere:
        replay = run(model, people, transcript=transcript.rewind(), **how)
        assert replay.contents == first.contents
        assert replay.spends == first.spends
        assert replay.draws == ()


def check_valid(model: Model, released: Released, *, domain: Domain = TOWN) -> None:
    """Centres lie in the declared box, rows and probabilities in cells, and classes are large."""
    if isinstance(released, Clusters):
        _check_clusters(released, model.k, domain)  # type: ignore[attr-defined]
    elif isinstance(released, ClassTable):
        _check_classes(released, domain)
    else:
        _check_table(released, domain)
    for columns in released.tables().values():
        assert len({len(values) for values in columns.values()}) == 1


def _check_table(table: SyntheticTable, domain: Domain) -> None:
    names = table.attributes
    assert table.codes.shape[1:] == (len(names),)
    assert ((table.codes >= 0) & (table.codes < domain.shape(names))).all()
    stored = table.tables()
    if {"measured", "cells"} <= {*stored}:
        # Whoever reads them back takes their shapes from the levels and groups that are declared.
        sizes = dict(zip(names, domain.shape(names), strict=True))
        shapes = [(each.attributes, each.table.shape) for each in read_noisy_tables(stored, sizes)]
        assert shapes == [(each.attributes, each.table.shape) for each in table.measured]
    assert {name for clique in table.cliques for name in clique} == {*names}
    # A tree over all cliques, or trees: every one but the roots has one parent, listed before.
    children = [child for _, child in table.links]
    assert len({*children}) == len(children) <= max(0, len(table.cliques) - 1)
    for clique in table.cliques:
        shares = table.probabilities(clique)
        assert shares.shape == domain.shape(clique)
        assert (shares >= 0).all()
        assert np.isclose(shares.sum(), 1)
    columns = stored["synthetic"]
    assert list(columns) == [domain[name].column for name in names]
    assert {len(values) for values in columns.values()} <= {len(table.codes)}


def _check_classes(table: ClassTable, domain: Domain) -> None:
    labels, published = domain[table.label].size, len(table.published)
    assert table.counts.shape == (published, labels)
    assert table.total.shape == (labels,)
    assert (np.diff(table.published, prepend=-1) > 0).all()
    assert (table.published < table.classes.size).all()
    assert (table.counts.sum(axis=1) >= table.promise.least_size).all()
    assert table.rates.shape == (published + 1, labels)
    assert (table.rates >= 0).all()
    assert np.allclose(table.rates.sum(axis=1), 1)
    assert table.label not in {bit.attribute for bit in table.classes.bits}
    again = ClassTable.from_tables(table.tables(), domain)
    assert [*again.tables()] == [*table.tables()]


def _check_clusters(clusters: Clusters, k: int, domain: Domain) -> None:
    box = domain.box(clusters.columns)
    low, high = ([getattr(side, end) for side in box] for end in ("lower", "upper"))
    assert clusters.centres.shape == (k, len(box))
    assert np.isfinite(clusters.centres).all()
    assert (clusters.centres >= low).all()
    assert (clusters.centres <= high).all()
    assert clusters.synopsis is not None or clusters.sizes is not None
    if clusters.sizes is not None:
        assert clusters.sizes.shape == (k,)
        assert np.isfinite(clusters.sizes).all()
    if clusters.synopsis is not None:
        synopsis = clusters.synopsis
        assert (synopsis.lower >= low).all()
        assert (synopsis.upper <= high).all()
        assert np.isfinite(synopsis.weights).all()
        sides = np.subtract(high, low)
        volume = ((synopsis.upper - synopsis.lower) / sides).prod(axis=1).sum()
        # Every bound of a box is rounded to the digits that the declared ones have.
        rounding = 2 * (np.spacing(np.abs([low, high])).max(axis=0) / sides).max()
        assert np.isclose(volume, 1, rtol=0, atol=1e-9 + rounding * len(synopsis.weights))
