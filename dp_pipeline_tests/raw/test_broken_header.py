"""A first line that runs on into the rows, and origins that are not to be quoted."""

from __future__ import annotations

from pathlib import Path

import pytest

from dp_pipeline.cli.draft import _source_fields
from dp_pipeline.config.errors import DeclarationError, SourceError
from dp_pipeline.config.source import Source
from dp_pipeline.raw.proposals import first_look

SECRET = "90210777"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_quotation_mark_that_nobody_closed_makes_no_name_of_rows(tmp_path: Path, end: str):
    path = tmp_path / "rides.csv"
    lines = ['id,"age,sex', f"1,44,{SECRET}", '2,33,f"', "3,1,m", ""]
    path.write_bytes(end.join(lines).encode())
    with pytest.raises(SourceError, match="of several lines") as refusal:
        first_look(Source("csv", str(path)))
    assert SECRET not in str(refusal.value)


def test_a_url_with_a_password_is_not_quoted(tmp_path: Path):
    with pytest.raises(DeclarationError, match="got a URL") as refusal:
        _source_fields(
            f"postgresql://ana:{SECRET}@h/x", tmp_path, query="", header="", delimiter=""
        )
    assert SECRET not in str(refusal.value)
