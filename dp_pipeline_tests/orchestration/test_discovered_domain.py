"""A domain is discovered once a snapshot, by a charge of its own; every release is made with it."""

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.discovered_domain import DiscoveredAttribute, DiscoveredDomain
from dp_pipeline.config.errors import BoundaryViolation, BudgetExceeded, Damaged, NotPrepared
from dp_pipeline.gate import discovery
from dp_pipeline.raw.first_rows import parse_first_rows
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.releases import domain_release
from dp_pipeline.releases.domain_release import DomainRelease, publish_domain, with_discovered
from dp_pipeline.releases.k_anonymous_release import KAnonymousRelease
from dp_pipeline.releases.outcome import report_path
from dp_pipeline.releases.publish import publish
from dp_pipeline.releases.release import OTHER_NON_DP
from dp_pipeline.releases.run_plan import plan_run
from dp_pipeline_tests.ledger.population import charge
from dp_pipeline_tests.orchestration.conftest import copied
from dp_pipeline_tests.orchestration.events import failures, refusal
from dp_pipeline_tests.orchestration.projects import Project
from dp_pipeline_tests.orchestration.shops import SECRET, SHOPS, shops

DELTA = Fraction(1, 10**6)
COST = Fraction(2)


@pytest.fixture
def project(prepared_kinds: Callable[[str], Project], tmp_path: Path) -> Project:
    return copied(prepared_kinds("domain"), tmp_path / "domain")


@pytest.fixture
def spec(project: Project) -> DatasetSpec:
    return project.declare("shops", SHOPS)


@pytest.fixture
def release(project: Project, spec: DatasetSpec) -> DomainRelease:
    return DomainRelease(spec, project.home, "opendp")


def test_what_one_person_has_is_not_released(project, spec, release):
    bundle = publish_domain(release).bundle
    assert sum(spend.epsilon for spend in bundle.spends) == COST
    assert sum(spend.delta for spend in bundle.spends) == DELTA == bundle.own_delta
    for path, content in project.files("released").items():
        assert SECRET.encode() not in content, path
    # It is the same whoever else is in the data.
    discovered_spec = with_discovered(spec, project.home)
    assert set(discovered_spec.domain["zone"].labels()) == {"a", "b", "c", "other", "missing"}
    discovered = discovered_spec.discovered
    assert discovered["zone"] == DiscoveredAttribute(levels=("a", "b", "c"))
    low, high = discovered["fare"].bounds or (0.0, 0.0)
    assert low <= 4
    assert 16 <= high <= 32
    edges = discovered["fare"].edges or ()
    assert len(edges) == 3
    assert all(low < edge < high for edge in edges)


def test_run_discovers_and_releases_and_the_next_pays_nothing(tmp_path: Path):
    project = Project(tmp_path)
    spec = shops(project)
    released = [*project.run(spec, epsilons=["0.5"]), *project.run(spec, epsilons=["1"])]
    assert project.spent(spec) == spec.cost_of_everything == COST + Fraction("1.5")
    assert {outcome.state for outcome in project.run(spec)} == {"replayed"}
    assert project.spent(spec) == spec.cost_of_everything
    assert [entry.event for entry in project.ledger.entries("members")].count("reserve") == 3
    discovered_spec = with_discovered(spec, project.home)
    assert {release.bundle.facts["declaration"] for release in released} == {discovered_spec.digest}
    assert discovered_spec.digest != spec.digest
    page = " ".join(report_path(project.request(spec)).read_text(encoding="utf-8").split())
    assert "Discovered</dt><dd>zone, fare for ε=2 and δ=1e-6: paid for by itself" in page
    (card,) = (project.home.reports / "shops.cards").glob("domain.*.md")
    assert "plus a chance of δ = " in card.read_text(encoding="utf-8")
    zones = set(released[0].bundle.tables["synthetic"]["zone"]) - {None}
    assert zones <= {"a", "b", "c", "other"}


def test_new_snapshot_is_another_discovery_and_needs_delta(tmp_path: Path):
    project = Project(tmp_path)
    spec = shops(project)
    project.run(spec, epsilons=["0.5"])
    with pytest.raises(BudgetExceeded, match="requested δ=1e-06, spent 1e-06, left 0"):
        project.run(spec, epsilons=["0.5"], snapshot="next")
    limits = {"ceiling": Fraction(9), "delta_ceiling": 2 * DELTA}
    project.ledger.raise_ceiling("members", **limits, reason="x", by="ana")
    project.run(spec, epsilons=["0.5"], snapshot="next")
    assert project.ledger.balance("members").delta_spent == 2 * DELTA
    assert project.spent(spec) == 2 * (COST + Fraction("0.5"))


def test_a_file_may_declare_delta_for_several_discoveries(project: Project):
    spec = project.declare("shops", SHOPS, ceiling={"total": "9", "delta": "0.00001"})
    assert spec.delta_ceiling == 10 * DELTA
    discover = {**SHOPS["discover"], "delta": "0.000000001"}
    assert project.declare("small", SHOPS, discover=discover).delta_ceiling == DELTA / 100
    with pytest.raises(Exception, match="`dp-pipeline budget raise DATASET --delta … --reason …`"):
        publish_domain(DomainRelease(spec, project.home, "opendp"))


def test_plan_prices_domain_before_and_after_it_is_discovered(project: Project, spec: DatasetSpec):
    before = plan_run(project.request(spec))
    models = [release.model for release in before.releases]
    assert models == [domain_release.NAME, "independent", "independent"]
    assert before.total_cost == spec.cost_of_everything
    publish_domain(DomainRelease(spec, project.home, "opendp"))
    after = plan_run(project.request(spec))
    assert (after.releases[0].state, after.total_cost) == ("settled", Fraction("1.5"))


def test_nothing_is_prepared_or_released_before_domain_is(project: Project, spec: DatasetSpec):
    with pytest.raises(NotPrepared, match="domain of its snapshot"):
        with_discovered(spec, project.home)
    assert "domain of its snapshot" in refusal(project.launch(spec, "normalized"))
    assert "domain of its snapshot" in refusal(project.launch(spec, "independent", partition="0.5"))
    assert project.ledger.balance("members").spent == 0


def test_new_draw_has_a_key_of_its_own_and_leaves_the_domain(project, spec, release):
    publish_domain(release)
    discovered_spec = with_discovered(spec, project.home)
    with pytest.raises(BudgetExceeded):
        publish_domain(release, new_draw=True)
    assert with_discovered(spec, project.home) == discovered_spec
    # A file that asks otherwise needs another discovery.
    other = project.declare("shops", SHOPS, discover={"epsilon": "3", "delta": "0.000001"})
    with pytest.raises(NotPrepared, match="the domain was discovered for an earlier declaration"):
        with_discovered(other, project.home)
    first, second = (release.draw_key("2026-01-01", draw) for draw in (0, 1))
    assert second == first.with_replicate(1)
    assert second.digest != first.digest


def test_weak_discovery_is_replayed_with_its_line(project: Project, spec: DatasetSpec, monkeypatch):
    real, weak = discovery.discover, "levels of zone: no text has the about 90 persons"

    def too_little(*arguments: Any) -> DiscoveredDomain:
        domain = real(*arguments)
        nothing = dataclasses.replace(domain["zone"], levels=(), weak=weak)
        return DiscoveredDomain((("zone", nothing), *domain.attributes[1:]))

    monkeypatch.setattr(discovery, "discover", too_little)
    first, again = (publish_domain(DomainRelease(spec, project.home, "opendp")) for _ in range(2))
    assert domain_release.discovered_lines(first) == domain_release.discovered_lines(again)
    assert domain_release.discovered_lines(first)[0] == ("zone", f"0 levels: ; {weak}")
    assert with_discovered(spec, project.home).domain["zone"].labels()[0] == "other"
    assert project.ledger.balance("members").spent == COST
    assert project.ledger.unfinished() == ()


def test_run_of_asset_is_checked_and_shows_nothing_of_rows(project: Project, spec: DatasetSpec):
    result = project.launch(spec, domain_release.NAME)
    assert result.success
    checks = result.get_asset_check_evaluations()
    passed_checks = {check.check_name for check in checks if check.passed}
    assert passed_checks >= {"bundle_is_intact", "rebuilt_bundle_is_equal", "spent_equals_claim"}
    for event in result.all_events:
        assert SECRET not in str(event)
    assert not failures(result)
    # A run has charged for a domain what it paid itself.
    own = domain_release.domain_charge(spec, project.home, run=result.run_id)
    other = domain_release.domain_charge(spec, project.home, run="another")
    assert (own > 0, other) == (True, 0)


def test_k_anonymous_card_names_discovered_bins(tmp_path: Any):
    project = Project(tmp_path)
    spec = shops(
        project,
        protection={"unit": "one_row"},
        label="member",
        attributes={**SHOPS["attributes"], "member": {"levels": ["m", "n"], "other": "n"}},
        allow_not_dp=True,
        k_anonymity={"methods": {"mondrian": {}}, "attributes": "fare age", "partitions": ["5"]},
    )
    project.run(spec, epsilons=["0.5"])
    discovered_spec = with_discovered(spec, project.home)
    published = publish(KAnonymousRelease(discovered_spec, "mondrian", 5, project.home))
    card = (published.folder / "card.md").read_text(encoding="utf-8")
    assert "discovered by noisy answers" in card
    assert "zone, fare for ε=2" in card
    assert published.bundle.facts["declaration"] == discovered_spec.digest


def test_sample_of_undeclared_attributes_counts_readable_cells(spec: DatasetSpec):
    """Of levels and bounds that nobody knows yet, no text and no number is outside."""
    columns = {column.attribute: column for column in parse_first_rows(spec, 50).columns}
    assert {name for name, column in columns.items() if column.good} == set(columns)
    assert columns["zone"].outside == columns["fare"].outside == 0


def test_discovery_that_leaves_a_rest_is_refused(project: Project, spec: DatasetSpec, monkeypatch):
    def nothing(*_: object) -> DiscoveredDomain:
        return DiscoveredDomain(())

    monkeypatch.setattr(discovery, "discover", nothing)
    with pytest.raises(BoundaryViolation, match="must spend exactly"):
        publish_domain(DomainRelease(spec, project.home, "opendp"))
    assert project.ledger.balance("members").spent == 0


def test_pointer_to_domain_of_another_snapshot_is_no_domain(project: Project, spec: DatasetSpec):
    publish_domain(DomainRelease(spec, project.home, "opendp"))
    (pointer,) = (project.home.released / "shops" / domain_release.NAME).glob("snapshot-*.json")
    other = Snapshot(project.home.raw / "shops" / "2031-01-01", b"key")
    copied = pointer.with_name(f"snapshot-{other.id}.json")
    copied.write_bytes(pointer.read_bytes())
    with pytest.raises(Damaged, match=r"whose snapshot is .*: run .* run shops` again \("):
        domain_release.domain_bundle(spec, project.home, snapshot=other)


def test_discovery_names_earlier_non_dp_releases(project: Project, spec: DatasetSpec):
    earlier = charge("recoded", epsilon="0", population="members")
    with project.ledger.reserve(earlier) as reservation:
        reservation.settle([])
    published = publish_domain(DomainRelease(spec, project.home, "opendp"))
    (charged,) = project.ledger.history(published.bundle.key)[:1]
    assert earlier.what in published.bundle.facts[OTHER_NON_DP]
    assert charged.facts[OTHER_NON_DP] == published.bundle.facts[OTHER_NON_DP]
