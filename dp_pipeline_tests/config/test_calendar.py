"""Limits of a month, new rows by the calendar, and who answers for a data set."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from dp_pipeline_tests.config.declarations import loaded

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


def test_a_declared_owner_is_one_that_dagster_takes(tmp_path: Path):
    import dagster as dg

    owners = "owners: ['a.b+c@data.example.org', 'team:people-and-places', 'x@y.zz']"
    spec = loaded(tmp_path, owners=owners)
    dg.AssetSpec("toy", owners=spec.owners)
