"""Limits of a month, new rows by the calendar, and who answers for a data set."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from dp_pipeline_tests.config.declarations import loaded
from dp_pipeline_tests.config.test_parser import check_mistake

PUBLISH = "publish: {model: independent, epsilon: 0.5}"


def test_a_file_without_these_fields_has_no_month_no_refresh_and_no_owner(tmp_path: Path):
    spec = loaded(tmp_path)
    assert (spec.per_month, spec.refresh, spec.updates_public, spec.owners) == (
        None, None, False, (),
    )  # fmt: skip


def test_each_field_is_read(tmp_path: Path):
    spec = loaded(
        tmp_path,
        ceiling="ceiling: {total: 4, per_month: 1.5}",
        publish=PUBLISH,
        refresh="refresh: weekly",
        updates="updates: public",
        owners="owners: [ana@example.org, 'team:privacy']",
    )
    assert (spec.ceiling, spec.per_month) == (4, Fraction("1.5"))
    assert (spec.refresh, spec.updates_public) == ("weekly", True)
    assert spec.owners == ("ana@example.org", "team:privacy")


def test_none_of_them_makes_another_release(tmp_path: Path):
    changed = loaded(
        tmp_path,
        ceiling="ceiling: {total: 9, per_month: 2}",
        publish=PUBLISH,
        refresh="refresh: weekly",
        updates="updates: public",
        owners="owners: ['team:privacy']",
    )
    assert changed.digest == loaded(tmp_path).digest


@pytest.mark.parametrize("purpose", ["release", "benchmark"])
def test_only_public_changes_and_public_rows_may_be_watched(purpose: str, tmp_path: Path):
    spec = loaded(tmp_path, purpose=f"purpose: {purpose}")
    assert spec.may_watch_source == (purpose == "benchmark")
    assert loaded(tmp_path, updates="updates: public").may_watch_source


# As in test_parser: what is written, the field, what stands on its line, a part of what was got.
MISTAKES = {
    "a month above the total": (
        {"ceiling": "ceiling:\n  total: 4\n  per_month: 5"},
        "ceiling.per_month",
        "per_month: 5",
        "5",
    ),
    "a month too small for the largest release": (
        {"ceiling": "ceiling: {total: 4, per_month: 0.9}"},
        "ceiling",
        "per_month: 0.9",
        "0.9",
    ),
    "a month too small for a release with its evaluation": (
        {
            "ceiling": "ceiling: {total: 9, per_month: 1}",
            "evaluation": "evaluation: {epsilon: 0.1}",
        },
        "ceiling",
        "per_month: 1",
        "1",
    ),
    "a month alone": (
        {"ceiling": "ceiling: {per_month: 1}"},
        "ceiling.total",
        "ceiling",
        "nothing",
    ),
    "a refresh of another length": (
        {"refresh": "refresh: daily", "publish": PUBLISH},
        "refresh",
        "daily",
        "'daily'",
    ),
    "a refresh of nothing": ({"refresh": "refresh: weekly"}, "refresh", "weekly", "nothing"),
    "updates that are not public": (
        {"updates": "updates: secret"},
        "updates",
        "updates: secret",
        "'secret'",
    ),
    "updates of what never changes": (
        {
            "updates": "updates: public",
            "source": "source: {kind: generator, name: trips_like}",
        },
        "updates",
        "updates: public",
        "generator",
    ),
    "an owner without a form": (
        {"owners": "owners: [ana]"},
        "owners",
        "owners: [ana]",
        "'ana'",
    ),
    "a team without a name": ({"owners": "owners: ['team:']"}, "owners", "owners", "'team:'"),
    "no owner": ({"owners": "owners: []"}, "owners", "owners", "none"),
    "an owner twice": (
        {"owners": "owners: [ana@example.org, ana@example.org]"},
        "owners",
        "owners",
        "2",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line_with_file_line_field_expected_and_got(name: str, tmp_path: Path):
    check_mistake(tmp_path, *MISTAKES[name])


def test_a_declared_owner_is_one_that_dagster_takes(tmp_path: Path):
    import dagster as dg

    owners = "owners: ['a.b+c@data.example.org', 'team:people-and-places', 'x@y.zz']"
    spec = loaded(tmp_path, owners=owners)
    dg.AssetSpec("toy", owners=spec.owners)
