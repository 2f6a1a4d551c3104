"""A fit at a larger ε takes noise away from an earlier one of the same rows, once."""

import copy
import os
import pickle
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from dp_pipeline.config.amounts import rho_of
from dp_pipeline.config.errors import BudgetExceeded, DeclarationError
from dp_pipeline.estimators import InvalidParameter, PrivateSynthesizer
from dp_pipeline.estimators.declared import declared_columns, domain_of
from dp_pipeline.estimators.rows import PreparedRows
from dp_pipeline.gate.noise import ExactNoise
from dp_pipeline.ledger import Ledger
from dp_pipeline.models.tables.independent import Independent
from dp_pipeline.models.tables.one_shot import OneShot
from dp_pipeline.releases.home import HOME_VARIABLE, find_home
from dp_pipeline.results.accountant import REFINED
from dp_pipeline.results.bundle import REFINED_FROM, REFINES, refinement_digest
from dp_pipeline_tests.estimators.conftest import ACCOUNTS, DELTA
from dp_pipeline_tests.estimators.households import METHODS, VILLAGE, copier, refusal
from dp_pipeline_tests.instruments import ForcedNoise, RecordingNoise

REFINABLE = ["independent", "priview", "one_shot"]
PEOPLE = pd.DataFrame({"smokes": ["no", "yes", "yes", "no"] * 200, "age": [30, 60, 70, 20] * 200})
DOMAIN = {"smokes": ["no", "yes"], "age": {"bounds": [0, 100], "bins": 4, "integer": True}}


def synthesizer(epsilon: Any = "0.5", **changes: Any) -> PrivateSynthesizer:
    return copier(**{"domain": DOMAIN, "method": "independent", **changes, "epsilon": epsilon})


def two(**changes: Any) -> tuple[PrivateSynthesizer, PrivateSynthesizer]:
    """A fit of the people at ε = 0.5, and its refinement at ε = 2."""
    first = synthesizer(**changes).fit(PEOPLE)
    return first, synthesizer("2", **{"noise": "seeded:8", **changes}).fit(PEOPLE, refines=first)


def paid(*fits: PrivateSynthesizer) -> Fraction:
    return sum((spend.epsilon for fit in fits for spend in fit.spends_), Fraction(0))


@pytest.mark.parametrize("method", REFINABLE)
def test_fit_and_refinement_cost_the_larger_epsilon(method: str) -> None:
    first, second = two(method=method)
    assert (paid(first), paid(second)) == (Fraction("0.5"), Fraction("1.5"))
    assert {spend.mechanism for spend in second.spends_} == {REFINED}
    if method == "one_shot":
        # Of two columns the default has less noise in pure ε, at both ε.
        for quality, cost in (("best", 2), ("best_plus", rho_of(Fraction(2), DELTA))):
            both = two(method=method, delta="1e-9", method_params={"quality": quality})
            assert paid(*both) == cost


def test_a_refined_table_has_the_noise_of_the_larger_epsilon() -> None:
    first, second = two(method="independent")
    single = synthesizer("2", method="independent").fit(PEOPLE)
    noises = [item.marginal("age")["deviation"].iloc[0] for item in (first, second, single)]
    assert noises[0] > 3 * noises[1]
    assert noises[1] == noises[2]


def test_refinement_removes_noise_and_draws_no_other() -> None:
    near = []
    for seed in range(40):
        first = synthesizer(method="independent", noise=f"seeded:{seed}").fit(PEOPLE)
        second = synthesizer("0.55", method="independent", noise=f"seeded:{seed + 100}")
        second.fit(PEOPLE, refines=first)
        counts = [item.marginal("age")["noisy_count"].to_numpy(float) for item in (first, second)]
        near.append(np.mean(counts[0] == counts[1]))
    # Of noise at ε the part ε²/ε'² is that of the smaller scale: drawn anew, few would agree.
    assert np.mean(near) > 0.7


def test_refinement_is_refined_and_sampled_again() -> None:
    first, second = two()
    third = synthesizer("8", noise="seeded:9").fit(PEOPLE, refines=second)
    assert paid(first, second, third) == 8
    assert third.sample(37).equals(third.sample(37))
    assert len(pickle.loads(pickle.dumps(third)).sample(37)) == 37
    assert third.marginal("smokes")["probability"].round(1).tolist() == [0.5, 0.5]


def test_promise_names_both_fits() -> None:
    _, second = two()
    assert repr(second) == (
        "PrivateSynthesizer by independent, fitted: ε=2 together with the fit at ε=0.5 that it "
        "refines, protects one row that is added or removed; its noise protects nobody"
    )


class StopsAtOnce(RecordingNoise):
    def refined_laplace(self, *_: Any) -> Any:
        raise KeyboardInterrupt


@pytest.mark.parametrize("noise", [None, StopsAtOnce()], ids=["ended", "stopped"])
def test_a_fit_is_refined_once_though_the_first_time_stopped(noise: Any) -> None:
    first, recorder = synthesizer(noise="exact").fit(PEOPLE), RecordingNoise(ExactNoise())
    with pytest.raises(KeyboardInterrupt) if noise else nullcontext():
        synthesizer("2", noise=noise).fit(PEOPLE, refines=first)
    with refusal(match="refines: a refinement of the fit began already"):
        synthesizer("4", noise=recorder).fit(PEOPLE, refines=first)
    assert not recorder.draws


def test_of_many_threads_one_refines() -> None:
    first = synthesizer().fit(PEOPLE)
    with ThreadPoolExecutor(8) as pool:
        fits = [pool.submit(synthesizer("2").fit, PEOPLE, refines=first) for _ in range(8)]
    errors = [fit.exception() for fit in fits]
    assert sum(error is None for error in errors) == 1
    assert sum(isinstance(error, InvalidParameter) for error in errors) == 7


def test_failed_dry_run_leaves_the_refinement(monkeypatch: pytest.MonkeyPatch) -> None:
    first = synthesizer().fit(PEOPLE)
    with monkeypatch.context() as changed:
        error = DeclarationError("independent: expected what it can do, got more")
        changed.setattr(Independent, "refine", Mock(side_effect=error))
        with refusal(match="expected what it can do"):
            synthesizer("2").fit(PEOPLE, refines=first)
    synthesizer("2").fit(PEOPLE, refines=first)


@pytest.mark.parametrize("copy_of", [lambda fit: pickle.loads(pickle.dumps(fit)), copy.deepcopy])
def test_copy_is_not_refined(copy_of: Any) -> None:
    first = synthesizer().fit(PEOPLE)
    with refusal(match="refines: the value must be the fit itself"):
        synthesizer("2").fit(PEOPLE, refines=copy_of(first))
    synthesizer("2").fit(PEOPLE, refines=first)


def test_a_shallow_copy_is_refined_in_the_place_of_its_original() -> None:
    first = synthesizer().fit(PEOPLE)
    synthesizer("2").fit(PEOPLE, refines=copy.copy(first))
    with refusal(match="began already"):
        synthesizer("2").fit(PEOPLE, refines=first)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_refines_nothing_that_was_fitted_before() -> None:
    first = synthesizer(method="independent").fit(PEOPLE)
    child = os.fork()
    if child == 0:
        try:
            synthesizer("2", method="independent").fit(PEOPLE, refines=first)
        except InvalidParameter:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@pytest.mark.parametrize("columns", [1, 30, 70])
def test_fingerprints_differ_for_any_number_of_columns(columns: int) -> None:
    names = [f"x{index}" for index in range(columns)]
    codes = np.random.default_rng(1).integers(0, 5, (40, columns)).astype(np.uint8)
    domain = domain_of(declared_columns(dict.fromkeys(names, 5)))

    def print_of(rows: np.ndarray) -> str:
        by_name = dict(zip(names, rows.T, strict=True))
        return PreparedRows(domain, by_name, {}, len(rows), 0).fingerprint(b"secret")

    assert print_of(codes[::-1]) == print_of(codes)
    for index in {0, columns // 2, columns - 1}:
        changed = codes.copy()
        changed[7, index] = (changed[7, index] + 1) % 5
        assert print_of(changed) != print_of(codes)


OTHERS = {
    "one row more": pd.concat([PEOPLE, PEOPLE[:1]]),
    "one row less": PEOPLE[1:],
    "one value": PEOPLE.assign(age=[99, *PEOPLE["age"][1:]]),
    "columns mixed": PEOPLE.assign(age=PEOPLE["age"].sample(frac=1, random_state=1).to_numpy()),
    "nobody": PEOPLE[:0],
}


@pytest.mark.parametrize("rows", OTHERS)
def test_other_rows_are_refused_in_the_same_words(rows: str) -> None:
    first, recorder = synthesizer().fit(PEOPLE), RecordingNoise()
    second = synthesizer("2", noise=recorder)
    with refusal() as caught:
        second.fit(OTHERS[rows], refines=first)
    assert str(caught.value) == (
        "X: the rows must be those of the fit that is refined, prepared alike, but they differ: "
        "pass the same rows"
    )
    assert not recorder.draws
    # What was refused is not counted as a fit.
    assert "in all" not in repr(second.fit(PEOPLE, refines=first))
    with pytest.warns(UserWarning, match=r"fit 2 of it and its clones: ε=3\.5") as warned:
        second.fit(PEOPLE)
    assert warned[0].filename == __file__


@pytest.mark.parametrize("method", REFINABLE)
def test_refined_fit_holds_only_noisy_answers(method: str) -> None:
    displayed = []
    for rows in (VILLAGE, VILLAGE[:1], VILLAGE[:0]):
        first = copier(method=method, noise=ForcedNoise(5)).fit(rows)
        second = copier(method=method, epsilon=2, noise=ForcedNoise(4)).fit(rows, refines=first)
        displayed.append(pickle.dumps([item.set_params(noise=None) for item in (first, second)]))
    assert displayed[0] == displayed[1] == displayed[2]


SAME = "refines: both fits must have the same"
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a smaller ε": ({"epsilon": "0.2"}, "refines: the ε of the other fit must be below"),
    "the same ε": ({"epsilon": 0.5}, "refines: the ε of the other fit must be below"),
    "another δ": ({"delta": "1e-9"}, "refines: both fits must have one `delta`, but"),
    "another domain": (
        {"domain": {**DOMAIN, "smokes": ["no", "yes", "rarely"]}},
        f"{SAME} `domain`, `on_unknown` and types of columns",
    ),
    "constraints": (
        {"constraints": {"never": [{"smokes": "yes", "age": "[0, 25)"}]}},
        f"{SAME} `constraints`",
    ),
    "a workload": ({"method_params": {"workload": "age 3"}}, f"{SAME} `method_params`"),
    "another method": ({"method": "independent"}, f"{SAME} `method`"),
    "noise of a seed": ({"noise": None}, "is from neither opendp nor exact"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_no_refinement_of_the_other_is_refused(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Of two columns a fit with a δ would be pure as well.
    monkeypatch.setattr(OneShot, "is_better_pure", lambda *_: False)
    changes, line = REFUSED[case]
    method = {"method": "one_shot"}
    first = synthesizer(**method).fit(PEOPLE)
    with refusal(match=line) as caught:
        synthesizer(**{**method, "epsilon": "2", **changes}).fit(PEOPLE, refines=first)
    assert "\n" not in str(caught.value)
    synthesizer("2", **method).fit(PEOPLE, refines=first)


@pytest.mark.parametrize("method", [item for item in METHODS if item not in REFINABLE])
def test_other_methods_are_refused_by_name(method: str) -> None:
    first = synthesizer(method="independent").fit(PEOPLE)
    with refusal() as caught:
        synthesizer("2", method=method).fit(PEOPLE, refines=first)
    with refusal(match=f"do, but {method} does not"):
        synthesizer("2").fit(PEOPLE, refines=synthesizer(method=method).fit(PEOPLE))
    assert all(name in str(caught.value) for name in (*REFINABLE, method))


def test_nothing_that_learned_from_elsewhere_is_refined() -> None:
    method = {"method": "one_shot"}
    plain, public = synthesizer(**method).fit(PEOPLE), PEOPLE.assign(age=50)
    context = synthesizer(**method).fit(PEOPLE, prior=public)
    after = synthesizer(**method, plan_from=plain).fit(PEOPLE)
    for fit, name in ((context, "prior"), (after, "plan_from")):
        with refusal(match=f"refines: neither fit may have {name}"):
            synthesizer("2", **method).fit(PEOPLE, refines=fit)
    with refusal(match="neither fit may have prior"):
        synthesizer("2", **method).fit(PEOPLE, refines=plain, prior=public)


def test_a_discovered_domain_is_not_refined() -> None:
    opened = {"age": {"bounds": "discover", "bins": 4}}
    first = synthesizer(domain=opened, discover={"epsilon": "0.3"}).fit(PEOPLE)
    with refusal(match="refines: the domain of both fits must be declared, but that"):
        synthesizer("2").fit(PEOPLE, refines=first)


@pytest.mark.parametrize("kind", [PEOPLE, synthesizer(), clone(synthesizer()), "0.5", object()])
def test_what_is_no_fit_is_refused(kind: Any) -> None:
    with refusal(match="refines: the value must be a fitted PrivateSynthesizer, not"):
        synthesizer("2").fit(PEOPLE, refines=kind)


PAID = {"population": "pure", "noise": "exact"}


def test_a_population_pays_what_is_between_the_two(ledger: Ledger) -> None:
    two(**PAID)
    assert ledger.balance("pure").spent == 2
    reserve, settled = ledger.entries("pure")[-2:]
    assert reserve.nano_epsilon == 1_500_000_000
    assert reserve.what.endswith("at ε=2, refined from 0.5")
    assert reserve.facts[REFINES] == ledger.entries("pure")[-4].key
    assert reserve.facts[REFINED_FROM] == "0.5"
    assert settled.event == "settled"


def test_an_account_in_rho_pays_the_rho_between_the_two(ledger: Ledger) -> None:
    in_rho = {"population": "concentrated", "noise": "exact"}
    with refusal(match="a fit in pure ε cannot be refined by an account in ρ, where"):
        two(**in_rho)
    assert ledger.balance("concentrated").spent == Fraction("0.125")
    two(**in_rho, method="one_shot", delta="1e-9")
    assert ledger.balance("concentrated").spent == Fraction("0.125") + rho_of(Fraction(2), DELTA)


def test_pickle_is_refined_once_with_a_ledger(ledger: Ledger) -> None:
    first = synthesizer(**PAID).fit(PEOPLE)
    again = pickle.loads(pickle.dumps(first))
    synthesizer("2", **PAID).fit(PEOPLE, refines=again)
    for item in (first, again):
        with refusal(match="refines: the fit was refined already: refine"):
            synthesizer("2.5", **PAID).fit(PEOPLE, refines=item)
    assert ledger.balance("pure").spent == 2


def refine_and_end(first: PrivateSynthesizer) -> None:
    synthesizer("2", **PAID).fit(PEOPLE, refines=first)


def refine_and_stop(first: PrivateSynthesizer) -> None:
    """Refine a fit until its first answer is to be drawn."""
    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(ExactNoise, "refined_laplace", StopsAtOnce.refined_laplace)
        with pytest.raises(KeyboardInterrupt):
            refine_and_end(first)


def refine_and_be_killed(first: PrivateSynthesizer) -> None:
    """Refine a fit in a process that is killed there: nobody is left to say that it is dead."""
    child = os.fork()
    if child == 0:
        ExactNoise.refined_laplace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore
        refine_and_end(first)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


ENDS = {"settled": refine_and_end, "dead": refine_and_stop, "reserved": refine_and_be_killed}


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("epsilon", ["2", "2.5"])
@pytest.mark.parametrize("state", ENDS)
def test_a_fit_is_refined_once_however_that_ended(epsilon: str, state: str, ledger: Ledger) -> None:
    # Whoever left a reservation may have seen the answers that were drawn.
    first = synthesizer(**PAID).fit(PEOPLE)
    key = refinement_digest("pure", str(ledger.entries("pure")[-1].key))
    ENDS[state](first)
    assert ledger.state(key) == state
    for _ in range(2):
        with refusal(match="refines: (the fit was refined already|a refinement of the fit began)"):
            synthesizer(epsilon, **PAID).fit(PEOPLE, refines=first)
    assert ledger.state(key) in (state, "interrupted")
    assert ledger.balance("pure").spent == 2


def test_refused_refinements_are_not_charged(ledger: Ledger) -> None:
    first = synthesizer(**PAID).fit(PEOPLE)
    with refusal(match="X: the rows must be those of the fit that is refined"):
        synthesizer("2", **PAID).fit(OTHERS["one row less"], refines=first)
    with pytest.raises(BudgetExceeded):
        synthesizer("3.5", **PAID).fit(PEOPLE, refines=first)
    assert ledger.balance("pure").spent == Fraction("0.5")
    synthesizer("3", **PAID).fit(PEOPLE, refines=first)
    assert ledger.balance("pure").spent == 3


@pytest.mark.usefixtures("ledger")
def test_who_paid_for_the_first_pays_for_the_second() -> None:
    empty, pure = synthesizer(noise="exact").fit(PEOPLE), synthesizer(**PAID).fit(PEOPLE)
    for first, after, payers in (
        (empty, PAID, "None, and this one pure"),
        (pure, {"noise": "exact"}, "pure, and this one None"),
        (pure, {**PAID, "population": "concentrated"}, "pure, and this one concentrated"),
    ):
        with refusal(match=f"but the other one has {payers}"):
            synthesizer("2", **after).fit(PEOPLE, refines=first)


def test_fit_of_another_home_is_refused(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = synthesizer(**PAID).fit(PEOPLE)
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "other"))
    find_home().ledger.open_account(ACCOUNTS["pure"])
    with refusal(match="does not know the other fit: use the ledger that paid for it"):
        synthesizer("2", **PAID).fit(PEOPLE, refines=first)
    assert ledger.balance("pure").spent == Fraction("0.5")
