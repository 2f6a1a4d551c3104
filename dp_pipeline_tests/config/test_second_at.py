"""An @ in a password that is not written %40: its end is in no message and in no ledger row."""

from __future__ import annotations

import pytest

from dp_pipeline.config.database import database_name, database_url
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.ledger.postgres import place, postgres_url

SPLIT = ["postgresql://ana:pa@WORD@127.0.0.1/x", "postgresql://ana:p@a/WORD@127.0.0.1/x"]


@pytest.mark.parametrize("text", SPLIT)
def test_an_address_whose_password_would_be_shown_as_a_host_is_refused(text: str) -> None:
    with pytest.raises(DeclarationError, match="a second @") as refusal:
        postgres_url(text, of="DP_PIPELINE_LEDGER")
    assert "WORD" not in str(refusal.value)
    assert database_url(text) is None


def test_a_quoted_at_is_a_part_of_the_password() -> None:
    text = "postgresql://ana:pa%40WORD@127.0.0.1/x"
    assert place(postgres_url(text, of="X")) == "postgresql://127.0.0.1/x"
    url = database_url(text)
    assert url is not None
    assert database_name(url) == "postgresql://localhost:5432/x"
