"""A release that refines another, or is drawn beside public rows: its cost and what it needs."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import Damaged, DeclarationError, NotPrepared
from dp_pipeline.ledger import DeadRelease
from dp_pipeline.releases.epsilon_release import EpsilonRelease
from dp_pipeline.releases.noisy_release import NoisyRelease
from dp_pipeline.releases.publish import PublishedBundle, give_up, publish
from dp_pipeline.releases.release_text import write_card
from dp_pipeline.releases.replay import require_intact, require_reproducible
from dp_pipeline.releases.run_options import PREVIOUS
from dp_pipeline.releases.run_plan import plan_run
from dp_pipeline_tests.orchestration.faults import stopped
from dp_pipeline_tests.orchestration.projects import HOMES, ROWS, Project
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


OTHERS: dict[str, Any] = {
    **{name: HOMES[name] for name in ("attributes", "protection")},
    "description": "Homes of another town: public.",
    "population": "elsewhere",
    "purpose": "benchmark",
    "source": {"kind": "csv", "path": "others.csv"},
    "partitions": ["1"],
    "models": {"independent": {}},
}
ATTRIBUTES: dict[str, Any] = HOMES["attributes"]
PUBLIC = "the prior must be a data set with `purpose: benchmark`"
ALIKE = "but it has others there: declare it alike in both"
MODELS_BESIDE = {"one_shot": {"prior": "others"}, "independent": {}}


@pytest.fixture
def homes_with_prior(project: Project) -> DatasetSpec:
    """HOMES with the homes of another town beside them, both prepared."""
    prepare_others(project)
    return prepare_homes(project)


def prepare_others(project: Project, **changes: Any) -> None:
    project.datasets.mkdir(parents=True, exist_ok=True)
    project.write_rows("others.csv", [ROWS["homes"][0], *ROWS["homes"][1:] * 20])
    project.prepare(project.declare("others", OTHERS, **changes))


def prepare_homes(project: Project) -> DatasetSpec:
    declared = project.declare("homes", HOMES, models=MODELS_BESIDE)
    project.prepare(declared)
    return declared


@pytest.fixture(autouse=True)
def files(project: Project, monkeypatch) -> None:
    monkeypatch.setenv("DP_PIPELINE_DATASETS", str(project.datasets))


def test_it_names_public_rows_and_is_rebuilt_by_them_alone(
    project: Project, homes_with_prior: DatasetSpec
):
    release = project.release(homes_with_prior, model="one_shot", epsilon="1")
    published = publish(release)
    assert published.nano == 10**9, "what it would cost without them"
    name, digest = published.bundle.facts["prior"].split()
    assert (name, len(digest)) == ("others", 32)
    assert all(spend.what.startswith(("marg", "number")) for spend in published.bundle.spends)
    card = write_card(release, published.bundle, project.folder).read_text(encoding="utf-8")
    assert "public rows of others" in " ".join(card.split())
    require_reproducible(release, require_intact(release, published.folder))
    project.write_rows("others.csv", ROWS["homes"])
    project.prepare(project.declare("others", OTHERS), "later")
    assert project.publish(homes_with_prior, model="one_shot", epsilon="1").state == "replayed"
    shutil.rmtree(published.folder)
    with pytest.raises(DeclarationError, match=r"prior: the public rows of .* are not those"):
        project.publish(homes_with_prior, model="one_shot", epsilon="1")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"purpose": "release", "ceiling": {"total": "9"}}, PUBLIC),
        ({"population": HOMES["population"]}, PUBLIC),
        ({"attributes": {**ATTRIBUTES, "tenure": {"levels": ["owner", "renter"]}}}, ALIKE),
        ({"attributes": {**ATTRIBUTES, "rooms": {**ATTRIBUTES["rooms"], "bins": "2"}}}, ALIKE),
    ],
)
def test_rows_not_public_or_not_alike_are_refused_at_no_cost(
    changes, words, project, homes_with_prior
):
    project.write_declaration("others", OTHERS, **changes)
    with pytest.raises(DeclarationError, match=words):
        project.publish(homes_with_prior, model="one_shot", epsilon="1")
    assert not [entry for entry in project.ledger.entries() if entry.nano_epsilon]


def test_protected_rows_stay_so_whatever_their_file_says(project: Project):
    prepare_others(project, purpose="release", ceiling={"total": "9"})
    declared = prepare_homes(project)
    project.write_declaration("others", OTHERS)
    with pytest.raises(DeclarationError, match="the account was opened with purpose 'release'"):
        project.publish(declared, model="one_shot", epsilon="1")
    assert not [entry for entry in project.ledger.entries() if entry.nano_epsilon]


def test_rows_read_through_a_link_to_protected_ones_are_no_prior(project: Project):
    project.datasets.mkdir()
    lake = project.datasets / "lake.csv"
    (project.datasets / "others.csv").symlink_to(lake)
    prepare_others(project)
    (project.datasets / "others.csv").unlink()
    declared = prepare_homes(project)
    project.ledger.claim_source("town", lake.as_uri(), distinct_population="other persons")
    with pytest.raises(DeclarationError, match="is protected by population town"):
        project.publish(declared, model="one_shot", epsilon="1")


def test_rows_that_are_not_there_are_requested_by_name(project: Project):
    declared = prepare_homes(project)
    project.write_declaration("others", OTHERS)
    with pytest.raises(NotPrepared, match=r"are not prepared: `dp-pipeline run others` first"):
        project.publish(declared, model="one_shot", epsilon="1")
    assert not [entry for entry in project.ledger.entries() if entry.nano_epsilon]
