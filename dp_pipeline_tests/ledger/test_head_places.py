"""The head behind a link, and one that is looked for elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from dp_pipeline.config.errors import Damaged, PipelineError
from dp_pipeline.ledger import Ledger
from dp_pipeline.ledger.head import Head
from dp_pipeline_tests.ledger.population import account, charge, release


def test_a_link_in_the_place_of_the_head_keeps_it_on_the_other_disk(tmp_path: Path):
    """A rename onto the link would bring the head back to where a restored backup reaches it."""
    disk, link = tmp_path / "disk", tmp_path / "ledger.head"
    disk.mkdir()
    link.symlink_to(disk / "head")
    ledger = Ledger(tmp_path / "ledger")
    ledger.open_account(account())
    release(ledger, charge("a"), "0.1")
    assert link.is_symlink()
    assert Head(disk / "head").read() == ledger.verify()


def test_a_head_that_is_named_elsewhere_later_is_refused_by_whoever_asks(tmp_path: Path):
    Ledger(tmp_path / "ledger").open_account(account())
    elsewhere = Ledger(tmp_path / "ledger", head=tmp_path / "empty" / "head")
    for ask in (elsewhere.verify, lambda: elsewhere.open_account(account("others"))):
        with pytest.raises(Damaged, match="expected the head of this ledger, got none"):
            ask()
    assert not (tmp_path / "empty" / "head").exists()


@pytest.mark.parametrize("is_named", [False, True], ids=["beside", "named"])
def test_a_head_that_is_a_circle_of_links_is_refused(tmp_path: Path, *, is_named: bool):
    Ledger(tmp_path / "ledger").open_account(account())
    head = tmp_path / "ledger.head"
    circle = tmp_path / "circle" if is_named else head
    head.unlink()
    circle.symlink_to(circle)
    ledger = Ledger(tmp_path / "ledger", head=circle if is_named else None)
    for ask in (ledger.verify, lambda: ledger.open_account(account("others"))):
        with pytest.raises(PipelineError, match="links lead in a circle") as refused:
            ask()
        assert "\n" not in str(refused.value)
    assert circle.is_symlink()
