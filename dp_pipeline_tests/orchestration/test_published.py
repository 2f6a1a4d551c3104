"""Methods as published: on benchmarks alone, recorded as what they are, never to leave."""

import json
import re
from collections.abc import Mapping
from fractions import Fraction

import dagster as dg
import pytest

from dp_pipeline.cli.released import release_cells
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import BoundaryViolation, BudgetExceeded, DeclarationError
from dp_pipeline.ledger import Entry
from dp_pipeline.orchestration.dataset import chain_definitions
from dp_pipeline.orchestration.metadata import charge_table
from dp_pipeline.releases.outcome import report_path
from dp_pipeline.releases.run_plan import plan_run
from dp_pipeline.releases.run_result import ReleaseResult
from dp_pipeline.reporting.releases import Standing
from dp_pipeline_tests.orchestration.events import check_results, materializations
from dp_pipeline_tests.orchestration.projects import PLANTS, RIDES, Project
from dp_pipeline_tests.orchestration.warm import assert_refused

MODELS: Mapping[str, Mapping[str, str]] = {
    "dp_kmeans": {"k": "2", "rounds": "2", "variant": "published"},
    "dpqt_kmeans": {"k": "2", "nominal_rows": "40", "variant": "published"},
    "idp_kmeans": {"k": "2", "rounds": "3", "variant": "published"},
}
GARDEN = {
    **PLANTS,
    "one_hot": "false",
    "attributes": {"height": {"bounds": ["0", "8"]}, "width": {"bounds": ["0", "4"]}},
    "partitions": ["0.1"],
    "models": {**MODELS, "eug_kmeans": {"k": "2"}},
    "publish": None,
    "ceiling": {"total": "1"},
    "evaluation": {"epsilon": "0.05"},
}
"""Public plants by three published methods and a sound one; T + 1 = 4 rounds at ε/3 are no whole
number of nano-ε.
"""

COMPOSED = Fraction(4, 30)
NANO = {"dp_kmeans": 0, "dpqt_kmeans": 0, "idp_kmeans": 183_333_334, "eug_kmeans": 150_000_000}
REASONS = {
    "dp_kmeans": "the initial centres are records without noise",
    "dpqt_kmeans": "the box is taken from the smallest and largest records",
}
Ran = tuple[Project, DatasetSpec, dict[str, ReleaseResult]]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    project = Project(tmp_path_factory.mktemp("garden"))
    spec = project.declare("plants", GARDEN)
    outcomes = {outcome.release.name: outcome for outcome in project.run(spec)}
    return project, spec, outcomes


def reserved(project: Project, spec: DatasetSpec) -> dict[str, Entry]:
    entries = project.ledger.entries(spec.population)
    return {entry.facts["model"]: entry for entry in entries if entry.event == "reserve"}


@pytest.mark.parametrize("name", MODELS)
def test_published_method_is_refused_on_release_data(name: str, rides: Project):
    spec = rides.declare("rides", RIDES, models={name: MODELS[name]}, publish=None)
    line = f"rides: {name}: the model must not be used on sensitive rows"
    with pytest.raises(DeclarationError, match=line):
        chain_definitions(spec)
    with pytest.raises(DeclarationError, match=line):
        rides.publish(spec, model=name)
    assert reserved(rides, spec) == {}
    assert not rides.home.released.exists()


def test_the_refusal_is_one_line_and_exit_code_2(project: Project):
    models = {"dp_kmeans": MODELS["dp_kmeans"]}
    project.declare("rides", RIDES, models=models, publish=None)
    path = str(project.datasets / "rides.yaml")
    for command in (["run", "rides"], ["plan", "rides"], ["data", "check", path]):
        assert_refused(project.cli_here(*command), 2, REASONS["dp_kmeans"])
    assert not project.home.root.exists()


def test_ledger_and_budget_hold_what_is_claimed_and_why(ran: Ran):
    project, spec, _ = ran
    charges = reserved(project, spec)
    assert {name: release.nano_epsilon for name, release in charges.items()} == NANO
    assert {name: release.kind for name, release in charges.items()} == {
        "dp_kmeans": "not-dp", "dpqt_kmeans": "not-dp", "idp_kmeans": "dp", "eug_kmeans": "dp",
    }  # fmt: skip
    for name, reason in REASONS.items():
        facts = charges[name].facts
        assert (facts["kind"], facts["composed"], facts["reason"]) == ("not-dp", "none", reason)
        assert charges[name].what == f"plants/{name} at nominal ε=0.1, not-dp"
    idp = charges["idp_kmeans"]
    assert (idp.facts["kind"], idp.facts["composed"]) == ("dp", "2/15")
    assert "the initial round is not charged" in idp.facts["reason"]
    assert idp.what == "plants/idp_kmeans at nominal ε=0.1, composed ε=2/15"
    plain = charges["eug_kmeans"].facts
    assert (plain["kind"], plain["composed"], plain["reason"]) == ("dp", "0.1", "")
    balance = project.ledger.balance(spec.population)
    assert (balance.spent, balance.not_dp) == (Fraction(sum(NANO.values()), 10**9), 2)
    paid = {"idp_kmeans": COMPOSED + Fraction("0.05"), "eug_kmeans": Fraction("0.15")}
    for name, charge in charges.items():
        _, settled = project.ledger.history(str(charge.key))
        assert sum(spend.epsilon for spend in settled.spends) == paid.get(name, 0)
    project.ledger.verify()
    rows = [dict(record.data) for record in charge_table(project.ledger, spec.population).records]
    assert {row["release"].split()[0]: (row["kind"], row["ε"]) for row in rows} == {
        "plants/dp_kmeans": ("not-dp", "none"),
        "plants/dpqt_kmeans": ("not-dp", "none"),
        "plants/idp_kmeans": ("dp", "0.183333334"),
        "plants/eug_kmeans": ("dp", "0.15"),
    }
    (account,) = json.loads(project.cli_here("budget", "--json").out)["accounts"]
    assert (account["releases"], account["not_dp"]) == ("4", "2")
    result = project.cli_here("budget").out.splitlines()
    assert [line.split() for line in result if "garden" in line] == [
        ["garden", "4", "2", "0.333333334", "0.666666666", "1", "none", "none"]
    ]


def test_bundle_and_pictures_say_what_it_is_and_none_leaves(ran: Ran):
    project, spec, outcomes = ran
    # Quality is bought only beside an ε.
    assert bool(outcomes["idp_kmeans"].bundle.quality and outcomes["eug_kmeans"].bundle.quality)
    for name, reason in REASONS.items():
        bundle = outcomes[name].bundle
        assert (bundle.is_dp, bundle.is_releasable, bundle.quality) == (False, False, {})
        assert bundle.facts["evaluation"] == "none"
        assert any(row.metric == "nicv" for row in outcomes[name].quality), "exact on a benchmark"
        with pytest.raises(BoundaryViolation, match=f"not differentially private: {reason} "):
            bundle.require_exportable()
    composed = outcomes["idp_kmeans"].bundle
    assert (composed.is_dp, composed.is_releasable) == (True, False)
    assert composed.spent == COMPOSED + Fraction("0.05")
    with pytest.raises(BoundaryViolation, match=r"costs ε = 2/15, not the nominal 0\.1: the init"):
        composed.require_exportable()
    outcomes["eug_kmeans"].bundle.require_exportable()
    labels = {f"{name} (published)" for name in MODELS} | {"eug_kmeans"}
    assert {outcome.bundle.model for outcome in outcomes.values()} == labels
    assert {row.model for outcome in outcomes.values() for row in outcome.quality} == labels
    (metadata,) = materializations(project, spec)[dg.AssetKey(["plants", "comparison"])][None]
    for name in labels:
        assert f"| {name} |" in metadata["summary"].value
    page = report_path(project.request(spec)).read_text(encoding="utf-8")
    assert set(re.findall(r'role="rowheader">(\w+_kmeans[^<]*)</th>', page)) == labels


def test_metadata_and_checks_tell_kind_and_what_it_composes_to(ran: Ran):
    project, spec, _ = ran
    materialized = materializations(project, spec)
    for name in spec.models:
        (metadata,) = materialized[dg.AssetKey(["plants", name])]["0.1"]
        is_dp = name not in REASONS
        assert metadata["privacy/kind"].value == ("dp" if is_dp else "not-dp")
        assert ("privacy/epsilon" in metadata) is is_dp
        assert ("privacy/caveat" in metadata) is (name in MODELS)
        assert metadata["releasable"].value is (name not in MODELS)
        if not is_dp:
            assert metadata["privacy/exact epsilon"].value == "none"
            assert metadata["privacy/caveat"].value.startswith("not differentially private: ")
    claims = {"dp_kmeans": 0.1, "dpqt_kmeans": 0.1, "idp_kmeans": 0.1833, "eug_kmeans": 0.15}
    for result in check_results(project, spec):
        if result.check_name == "spent_equals_claim":
            name = result.asset_key.path[1]
            assert result.passed
            assert result.metadata["privacy/claimed"].value == claims.pop(name)
            kind = result.metadata["privacy/kind"].value
            assert (kind == "not-dp") is (name in REASONS)
    assert claims == {}


def test_the_terminal_table_and_the_plan_mark_what_is_not_plain(ran: Ran):
    project, spec, outcomes = ran
    cells = {name: release_cells(outcome, [])[2:] for name, outcome in outcomes.items()}
    assert cells == {
        "dp_kmeans": ["none", "0", "charged, not-dp"],
        "dpqt_kmeans": ["none", "0", "charged, not-dp"],
        "idp_kmeans": ["11/60", "0.183333334", "charged, composed"],
        "eug_kmeans": ["0.15", "0.15", "charged"],
    }
    again = project.run(spec)
    assert {(release.origin, release.cost) for release in again} == {("replayed", 0)}
    assert [release.bundle.is_dp for release in again] == [name not in REASONS for name in cells]
    planned = plan_run(project.request(spec, new_draw=True))
    for release in planned.releases:
        state = cells[release.model][2].replace("charged", "new")
        assert (release.state, release.cost * 10**9) == (state, NANO[release.model])
    assert planned.total_cost == project.spent(spec) == Fraction(sum(NANO.values()), 10**9)


def test_an_asset_and_a_check_say_what_a_method_costs(project: Project):
    definitions = chain_definitions(project.declare("plants", GARDEN))
    described = [asset.descriptions_by_key.items() for asset in definitions.assets or []]
    words = {key.path[1]: text for texts in described for key, text in texts}
    for name, reason in REASONS.items():
        assert words[name].endswith(f"Not differentially private: {reason}; charges nothing.")
    assert "charges its ε and its evaluation's (11/60: the initial round is" in words["idp_kmeans"]
    assert "charges its ε and its evaluation's (0.15); a re-run" in words["eug_kmeans"]
    checked = project.command("data", "check", str(project.datasets / "plants.yaml"))
    first, second = checked.splitlines()
    assert first.endswith("all models at all ε with evaluations cost 1/3")
    assert second == "not differentially private: dp_kmeans, dpqt_kmeans"


def test_the_report_never_calls_private_what_is_not(ran: Ran):
    project, spec, _ = ran
    page = report_path(project.request(spec)).read_text(encoding="utf-8")
    without, composed = re.findall(r'<div class="alarm" role="note">.*?</div>', page)
    assert f"<strong>{Standing.NOT_DP}</strong>" in without
    assert all(f"{name} (published) at ε = 0.1" in without for name in REASONS)
    assert "idp_kmeans (published) at ε = 0.1: costs ε = 2/15, not the nominal 0.1: " in composed
    assert "1 releasable; together they cost ε = 0.15 at most. Not counted: 3 not" in page
    for name in REASONS:
        assert re.search(rf'"rowheader">{name} \(published\)</th>.*?"ε spent">none</td>', page)
    assert_no_promise(re.sub(r"<[^>]+>|base64,[^\"]+", " ", page))
    with pytest.raises(AssertionError):
        assert_no_promise("The release dp_kmeans is differentially private at ε = 0.1.")


def assert_no_promise(words: str) -> None:
    """“Private” is said of releasable releases, and denied of the others."""
    sentences = re.findall(".{0,60}ifferentially priv", words, re.DOTALL)
    assert sentences
    for sentence in sentences:
        is_of_fit = sentence.endswith("Each releasable release is ε-differentially priv")
        assert is_of_fit or "not differ" in sentence


def test_composed_epsilon_needs_room_and_none_needs_none(project: Project):
    models = {"idp_kmeans": MODELS["idp_kmeans"]}
    spec = project.declare("plants", GARDEN, models=models, ceiling={"total": "0.18"})
    with pytest.raises(BudgetExceeded, match=r"requested ε=0\.183333334"):
        project.run(spec)
    assert project.spent(spec) == 0
    every = {"eug_kmeans": {"k": "2"}, "dp_kmeans": MODELS["dp_kmeans"]}
    full = project.declare("plants", GARDEN, models=every, ceiling={"total": "0.15"})
    assert [outcome.origin for outcome in project.run(full)] == ["charged", "charged"]
    assert project.ledger.balance(full.population).remaining == 0
