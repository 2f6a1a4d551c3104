"""A release that refines another: what it costs, that it is made once, and what it needs."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import Damaged, DeclarationError
from dp_pipeline.ledger import DeadRelease
from dp_pipeline.releases.epsilon_release import EpsilonRelease
from dp_pipeline.releases.noisy_release import NoisyRelease
from dp_pipeline.releases.publish import PublishedBundle, give_up, publish
from dp_pipeline.releases.run_options import PREVIOUS
from dp_pipeline.releases.run_plan import plan_run
from dp_pipeline_tests.orchestration.faults import stopped
from dp_pipeline_tests.orchestration.projects import HOMES, Project
from dp_pipeline_tests.orchestration.warm import assert_refused

MODELS = {"independent": {}, "one_shot": {}, "eug_kmeans": {"k": "3"}}
PARTITIONS = ["0.2", "0.5", "1"]
LEVELS = {"models": MODELS, "partitions": PARTITIONS, "ceiling": {"total": "20"}}

Refine = Callable[..., PublishedBundle]


@pytest.fixture
def spec(project: Project) -> DatasetSpec:
    declared = project.declare("homes", HOMES, **LEVELS)
    project.prepare(declared)
    return declared


@pytest.fixture
def drawn(project: Project, spec: DatasetSpec) -> Refine:
    return lambda *of, **named: publish(release_at(project, spec, *of, **named))


def release_at(
    project: Project,
    spec: DatasetSpec,
    epsilon: str,
    refine: str | None = None,
    model: str = "independent",
) -> EpsilonRelease:
    release = project.release(spec, model=model, epsilon=epsilon)
    return replace(release, refine=None if refine is None else Fraction(refine))


@pytest.mark.parametrize("model", ["independent", "one_shot"])
def test_sweep_costs_its_largest(model: str, drawn: Refine, project: Project, spec: DatasetSpec):
    steps = [drawn("0.2", model=model), drawn("0.5", "0.2", model), drawn("1", "0.5", model)]
    assert [step.nano for step in steps] == [200_000_000, 300_000_000, 500_000_000]
    assert project.spent(spec) == 1
    assert [step.state for step in steps] == ["charged"] * 3
    assert [step.bundle.facts["epsilon"] for step in steps] == PARTITIONS
    assert [step.bundle.facts.get("refined_from") for step in steps] == [None, "0.2", "0.5"]
    assert all(step.bundle.spent * 10**9 == step.nano for step in steps)
    project.ledger.verify()


def test_two_refinements_at_once_are_one_charge(drawn: Refine, project: Project, spec: DatasetSpec):
    """Whoever comes second finds the key taken, though nothing was charged when it looked."""
    drawn("0.2")
    slow, snapshot = release_at(project, spec, "1", "0.2"), project.snapshot(spec)
    key = slow.key(snapshot)
    resolved = slow.resolve(key)
    drawn("0.5", "0.2")
    charge = resolved.charge({}, rows=slow.counter(snapshot).fingerprint)
    with pytest.raises(Damaged, match="was reserved with 300000000"):
        project.ledger.reserve(charge).__enter__()
    assert project.spent(spec) == Fraction("0.5")


@pytest.mark.parametrize("moment", ["before", "key", "resolve", "open"])
def test_release_is_refined_once_whoever_was_first(drawn, project, spec, monkeypatch, moment):
    """Two refinements of one answer could tell up to the sum of both ε together."""
    drawn("0.2")
    if moment == "before":
        drawn("0.5", "0.2")
    else:
        method = getattr(EpsilonRelease, moment)

        def interleaved(release: EpsilonRelease, *release_at: object, **named: object) -> object:
            result = method(release, *release_at, **named)
            if release.refine is not None:
                monkeypatch.undo()
                drawn("0.5", "0.2")
            return result

        monkeypatch.setattr(EpsilonRelease, moment, interleaved)
    with pytest.raises(DeclarationError, match=r"ε=0.2 was refined already to ε=0.5") as refused:
        drawn("1", "0.2")
    assert refused.value.exit_code == 2
    assert project.spent(spec) == Fraction("0.5")
    project.ledger.verify()


def interrupted(project: Project, spec: DatasetSpec, *, after: int) -> EpsilonRelease:
    release = release_at(project, spec, "0.5", "0.2")
    with stopped(after):
        publish(release)
    return release


def test_damaged_answers_below_it_do_not_end_it(drawn: Refine, project: Project, spec: DatasetSpec):
    """They are needed before it is charged, and can be put back later: its own are whole."""
    transcript = drawn("0.2").folder.parent / "transcript.jsonl"
    answers = transcript.read_bytes()
    transcript.write_bytes(b"".join(answers.splitlines(keepends=True)[:-1]))
    with pytest.raises(Damaged, match="The transcript of homes/independent at"):
        drawn("0.5", "0.2")
    assert project.spent(spec) == Fraction("0.2")
    transcript.write_bytes(answers)
    interrupted(project, spec, after=1)
    for damaged in (answers[:-9] + b"x" * 8 + b"\n", b""):
        transcript.write_bytes(damaged)
        with pytest.raises(Damaged, match=r"at ε=0.2 in .* is (damaged|not the one that was set)"):
            drawn("0.5")
    transcript.write_bytes(answers + b"torn")
    assert (drawn("0.5").state, project.spent(spec)) == ("resumed", Fraction("0.5"))
    assert transcript.read_bytes() == answers + b"torn", "a settled file is not written to"


def test_refinement_given_up_is_not_replaced(drawn: Refine, project: Project, spec: DatasetSpec):
    drawn("0.2")
    release = interrupted(project, spec, after=1)
    give_up(project.home, release.key(project.snapshot(spec)).digest, reason="lost", by="me")
    with pytest.raises(DeadRelease):
        drawn("0.5", "0.2")
    unrefined = drawn("0.5")
    assert (unrefined.nano, unrefined.bundle.facts.get("refined_from")) == (500_000_000, None)


def test_an_unfinished_release_is_not_refined(project: Project, spec: DatasetSpec):
    with stopped(0):
        publish(release_at(project, spec, "0.2"))
    with pytest.raises(DeclarationError, match="only a finished release can be refined"):
        publish(release_at(project, spec, "0.5", "0.2"))
    assert project.spent(spec) == Fraction("0.2")


def test_other_rows_are_not_what_it_refines(drawn: Refine, project: Project, spec: DatasetSpec):
    """The noise that belongs to other rows would be taken for that of these."""
    drawn("0.2")
    release = release_at(project, spec, "0.5", "0.2")
    snapshot = project.snapshot(spec)
    other_drawing = release.open(release.resolve(release.key(snapshot)), snapshot)
    vars(other_drawing.counter)["fingerprint"] = "another"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NoisyRelease, "open", lambda *_: other_drawing)
        with pytest.raises(DeclarationError, match="were read or prepared again"):
            publish(release)
    assert project.spent(spec) == Fraction("0.2")


@pytest.mark.parametrize(
    ("epsilon", "refine", "model", "words"),
    [
        ("0.5", "0.2", "independent", "no release at ε=0.2 exists"),
        ("0.5", "0.5", "independent", "the release to refine must have a declared ε below"),
        ("0.5", "1", "independent", "the release to refine must have a declared ε below"),
        ("0.5", "0.2", "eug_kmeans", "does not ask the same questions at every ε, so it cannot be"),
    ],
)
def test_what_cannot_be_refined_is_refused_at_no_cost(
    epsilon: str, refine: str, model: str, words: str, drawn: Refine, project: Project
):
    with pytest.raises(DeclarationError, match=words):
        drawn(epsilon, refine, model)
    assert not [entry for entry in project.ledger.entries() if entry.nano_epsilon]


def test_pure_model_refines_nothing_in_a_population_of_rho(project: Project):
    """(ε² − ε'²)/2 is more than (ε − ε')²/2, which its own charges would add up to."""
    spec = project.declare("homes", HOMES, **LEVELS, delta="1e-9")
    with pytest.raises(DeclarationError, match="in pure ε cannot be refined"):
        plan_run(project.request(spec, models=["independent"], epsilons=["1"], refine="0.2"))


def test_in_rho_a_sweep_costs_its_largest_rho(project: Project):
    spec = project.declare("homes", HOMES, **LEVELS, delta="1e-9")
    project.prepare(spec)
    steps = [
        publish(release_at(project, spec, *levels, model="one_shot"))
        for levels in (("0.2",), ("0.5", "0.2"), ("1", "0.5"))
    ]
    rho = release_at(project, spec, "1", model="one_shot").guarantee.amount
    assert project.spent(spec) == rho
    assert sum(step.nano for step in steps) == rho * 10**9


def test_a_plan_says_what_a_sweep_costs_one_way_and_the_other(project: Project, spec: DatasetSpec):
    models = ["independent", "eug_kmeans"]
    apart = plan_run(project.request(spec, models=models))
    steps = plan_run(project.request(spec, models=models, refine=PREVIOUS))
    assert apart.total_cost == 2 * Fraction("1.7")
    assert steps.total_cost == 1 + Fraction("1.7")


def test_missing_release_is_not_refined_by_plan_or_run(project: Project, spec: DatasetSpec):
    """Else the release before it would be charged, and the run would end at the second."""
    arguments = (spec.name, "--model", "eug_kmeans", "--model", "independent", "--epsilon", "0.5")
    assert "--refine previous" not in project.command("plan", *arguments)
    for command in ("plan", "run"):
        refused = project.cli_here(command, *arguments, "--refine", "previous")
        assert_refused(refused, 2, "independent: refine: no release at ε=0.2 exists")
    assert project.spent(spec) == 0


def test_the_whole_chain_refines_by_command(project: Project, spec: DatasetSpec):
    name, options = spec.name, ("--model", "independent")
    planned = project.command("plan", name, *options)
    assert "each release made from the one before, it would cost 1" in planned
    ran = project.command("run", name, *options, "--refine", "previous")
    assert "0.3 + that of ε=0.2" in ran
    assert "charged by this run: 1" in ran
    assert "charged by this run: 0\n" in project.command("run", name, *options)
    card = project.home.reports / f"{name}.cards" / "independent.0.5.md"
    assert "It refines the release at ε = 0.2" in " ".join(card.read_text("utf-8").split())
    page = (project.home.reports / f"{name}.html").read_text(encoding="utf-8")
    assert "stands where a release refines another one" in page
    out = str(project.folder / "out")
    project.command("export", name, "independent", "--epsilon", "0.5", "--to", out)
    assert "0.3 + that of ε=0.2" in project.command("verify", out)
    for wrong, words in (
        (("0.5", "--refine", "0.3"), "must be one of 0.2, 0.5, 1, not 0.3"),
        (("0.5", "--refine", "0.2", "--new-draw"), "cannot be used with --new-draw"),
        (("1", "--refine", "0.2"), "refine that one"),
    ):
        assert_refused(project.cli_here("run", name, *options, "--epsilon", *wrong), 2, words)
    assert project.spent(spec) == 1


def test_a_partition_is_refined_from_the_launchpad(project: Project, spec: DatasetSpec):
    assert project.launch(spec, "independent", partition="0.2").success
    refined = {"refine": "0.2"}
    assert project.launch(spec, "independent", partition="0.5", config=refined).success
    assert project.spent(spec) == Fraction("0.5")
    assert project.launch(spec, "independent", partition="0.5").success
    assert project.spent(spec) == Fraction("0.5")
