"""What every model promises, as checks that a model passes or a mutant fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

import numpy as np

from dp_pipeline.gate.counts import Counter
from dp_pipeline.gate.noise import NoiseSource
from dp_pipeline.models import MODELS
from dp_pipeline.models.base import Model, Released, claim_of
from dp_pipeline.models.clustering import Clustering
from dp_pipeline.release.accountant import LAPLACE, NOISY_MAX
from dp_pipeline.release.clusters import Clusters
from dp_pipeline.release.transcript import Transcript
from dp_pipeline.schema.domain import Domain
from dp_pipeline.schema.encoding import IntArray
from dp_pipeline_tests.gate.distributions import log_probability_of_splits
from dp_pipeline_tests.instruments import Draw, ForcedNoise, RecordingNoise, curator_over
from dp_pipeline_tests.populations import NOBODY, TEN_PEOPLE, TOWN, LoopCounter, Row

SMALL: Mapping[str, Any] = {"k": 3, "starts": 2, "levels": 3}
"""Small values of the parameters that a model has, to be quick."""

BIASED = "biased splits"

LOOSE = ("splits over", "residuals of")
"""Questions whose proof bounds what a person loses without everybody reaching it."""

PLACES: Sequence[Row] = tuple(
    (x, y, "red", "no") for x in (0.0, 0.3, 3.9, 4.0, 8.0) for y in (-1.0, -0.1, 1.0)
)
"""Where a person of the town may stand: on edges and corners of the box, and within."""


def built(model_type: type, **values: object) -> Model:
    """A model with small parameters, and those of ``values`` that it has."""
    known = {one.name for one in fields(model_type)}
    return model_type(**{name: v for name, v in {**SMALL, **values}.items() if name in known})


def model_cases(*, declared: int = 1000) -> dict[str, Model]:
    """Every registered model; where it plans with a number of rows, declared and paid for; where
    a finite ε is proven for its published variant, that one too.
    """
    cases = {}
    for name, model_type in MODELS.items():
        if any(one.name == "nominal_rows" for one in fields(model_type)):
            for how, rows in {"declared": declared, "paid": None}.items():
                cases[f"{name}, rows {how}"] = built(model_type, nominal_rows=rows)
        else:
            cases[name] = built(model_type)
        if any(one.name == "variant" for one in fields(model_type)):
            published = built(model_type, nominal_rows=declared, variant="published")
            if claim_of(published, Fraction(1)).is_dp:
                cases[f"{name}, published"] = published
    return cases


def clustering_cases(*, declared: int = 1000) -> dict[str, Model]:
    """The cases that release centres."""
    cases = model_cases(declared=declared)
    return {name: model for name, model in cases.items() if isinstance(model, Clustering)}


@dataclass(frozen=True)
class Constant:
    """The same answer to every question."""

    answer: int
    name: str = "constant"
    fit_for_release: bool = False

    def discrete_laplace(self, counts: IntArray, _: Fraction) -> IntArray:
        return np.full(counts.shape, self.answer, dtype=np.int64)

    def noisy_max(self, _: IntArray, __: Fraction) -> int:
        return 0


@dataclass(frozen=True)
class LargeAnswers(Constant):
    """Every box is split as often as it can be."""

    answer: int = 2000


@dataclass(frozen=True)
class Run:
    """One fit: what came out, what was drawn, what was charged."""

    released: Released
    draws: tuple[Draw, ...]
    spends: tuple[Any, ...]

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
    reach: int = 1,
    noise: NoiseSource | None = None,
    transcript: Transcript | None = None,
    seed: int = 7,
    domain: Domain = TOWN,
) -> Run:
    """Fit on a fresh curator with a budget of what the model claims to cost; ``seed`` is for
    post-processing.
    """
    recorder = RecordingNoise() if noise is None else RecordingNoise(noise)
    curator = curator_over(
        LoopCounter(rows, domain) if isinstance(rows, tuple | list) else rows,
        epsilon=claim_of(model, epsilon).epsilon,
        reach=reach,
        noise=recorder,
        transcript=transcript,
        domain=domain,
    )
    accountant = curator.accountant
    released = model.fit(curator, epsilon=epsilon, rng=np.random.default_rng(seed))
    return Run(released, tuple(recorder.draws), accountant.spends)


def check_budget(
    model: Model,
    rows: Sequence[Row] = TEN_PEOPLE,
    *,
    epsilon: Fraction,
    reach: int,
    domain: Domain = TOWN,
    places: Sequence[Row] = PLACES,
) -> None:
    """Every draw was charged, and the scales drawn prove charges of exactly what is claimed.

    A session is one charge with many draws, of which a person is in those of one path: there
    the proof is what a person loses, in many places.
    """
    done = run(model, rows, epsilon=epsilon, reach=reach, domain=domain)
    claimed = claim_of(model, epsilon).epsilon
    assert all(isinstance(spend.epsilon_of_scale, Fraction) for spend in done.spends)
    assert sum(spend.epsilon_of_scale for spend in done.spends) == claimed
    if {spend.mechanism for spend in done.spends} <= {LAPLACE, NOISY_MAX}:
        assert sum(_proven(done)) == claimed
    else:
        tight = not any(spend.what.startswith(LOOSE) for spend in done.spends)
        for place in places:
            person = (place,) * reach
            loss = check_loss(
                model, (), person, epsilon=epsilon, reach=reach, seed=3, domain=domain
            )
            assert not tight or loss == claimed


def _proven(done: Run) -> list[Fraction]:
    """ε of every draw, from its scale and the charge that it stands beside."""
    assert [draw.mechanism for draw in done.draws] == [spend.mechanism for spend in done.spends]
    return [
        Fraction((2 if draw.mechanism == NOISY_MAX else 1) * spend.sensitivity) / draw.scale
        for draw, spend in zip(done.draws, done.spends, strict=True)
    ]


def privacy_loss(one: Run, other: Run) -> Fraction | float:
    """Most that any answer's log-probability differs between two runs with the same answers.

    Laplace: ‖c − c'‖₁/scale. Noisy max: 2·max|u − u'|/scale. Biased splits: the difference of
    the log-probabilities of the bits. Read off what the noise source was handed; no claimed
    sensitivity enters.
    """
    total: Fraction | float = Fraction(0)
    bits = 0.0
    splitting = {s.scale for s in one.spends if s.mechanism.startswith(BIASED)}
    for here, there in zip(one.draws, other.draws, strict=True):
        assert (here.mechanism, here.scale) == (there.mechanism, there.scale)
        difference = np.abs(here.exact.astype(object) - there.exact.astype(object))
        if here.scale in splitting:
            split = (here.answer > 0).tolist()
            assert split == (there.answer > 0).tolist()
            bits += log_probability_of_splits(here.exact, split, here.scale)
            bits -= log_probability_of_splits(there.exact, split, there.scale)
        elif here.mechanism == LAPLACE:
            total += int(difference.sum()) / here.scale
        else:
            total += 2 * int(difference.max(initial=0)) / here.scale
    return total + abs(bits) if splitting else total


def check_loss(
    model: Model,
    rows: Sequence[Row],
    person: Sequence[Row],
    *,
    epsilon: Fraction,
    reach: int,
    seed: int = 1,
    domain: Domain = TOWN,
) -> Fraction | float:
    """With the same answers, a person changes nothing that is released, and the answers'
    log-probability by at most what is claimed; returns by how much.
    """
    one, other = (
        run(model, people, epsilon=epsilon, reach=reach, noise=ForcedNoise(seed), domain=domain)
        for people in (tuple(rows), (*rows, *person))
    )
    assert one.contents == other.contents
    loss = privacy_loss(one, other)
    rounding = 0 if isinstance(loss, Fraction) else 1e-9
    assert loss <= claim_of(model, epsilon).epsilon + rounding
    return loss


def check_replay(
    model: Model,
    rows: Sequence[Row] = TEN_PEOPLE,
    *,
    elsewhere: Sequence[Row] | None = NOBODY,
    epsilon: Fraction = Fraction(1),
    reach: int = 1,
    domain: Domain = TOWN,
) -> None:
    """The recorded answers, replayed over another population, give the same bytes and draw
    nothing.
    """
    asked: Mapping[str, Any] = {"epsilon": epsilon, "reach": reach, "domain": domain}
    transcript = Transcript()
    first = run(model, rows, transcript=transcript, **asked)
    replay = run(model, elsewhere, transcript=transcript.rewind(), **asked)
    assert replay.contents == first.contents
    assert replay.spends == first.spends
    assert replay.draws == ()


def check_valid(model: Model, released: Released, *, domain: Domain = TOWN) -> None:
    """k finite centres inside the declared box, or probabilities and rows of declared cells."""
    if isinstance(released, Clusters):
        _check_clusters(released, model.k, domain)  # type: ignore[attr-defined]
    else:
        for marginal in released.marginals:
            assert marginal.table.shape == domain.shape(marginal.attributes)
            shares = released.probabilities(marginal.attributes)
            assert (shares >= 0).all()
            assert np.isclose(shares.sum(), 1)
        names = tuple(marginal.attributes[0] for marginal in released.marginals)
        assert released.codes.shape[1] == len(names)
        assert ((released.codes >= 0) & (released.codes < domain.shape(names))).all()
    for columns in released.tables().values():
        assert len({len(values) for values in columns.values()}) == 1


def _check_clusters(clusters: Clusters, k: int, domain: Domain) -> None:
    box = domain.box(clusters.columns)
    low, high = ([getattr(one, end) for one in box] for end in ("lower", "upper"))
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
