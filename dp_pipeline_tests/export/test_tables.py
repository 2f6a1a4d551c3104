"""Tables as files: every value comes back as it was, or is refused."""

import csv
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.export import tables
from dp_pipeline.export.tables import FORMATS, has_missing, read_table, types_of, write_table
from dp_pipeline.results.bundle import table_digest

TABLE = {
    "text": np.array(["a", "=1+1", "-0.5", 'c,\n"d"']),
    "whole": np.array([1, -2, 2**62, 0]),
    "number": np.array([0.1, 1e300, 5e-324, -0.0]),
    "strange": np.array([np.inf, -np.inf, np.nan, 1.0]),
    "date": np.array(["1970-01-01", "NaT", "2026-12-31", "0001-01-01"], dtype="datetime64[D]"),
    "time": np.array(["2026-10-05T02:00:01", "NaT", "NaT", "NaT"], dtype="datetime64[s]"),
    "some texts": np.array(["x", None, "@y", None], dtype=object),
    "some wholes": np.array([None, 7, 8, None], dtype=object),
    "some numbers": np.array([None, 0.1, None, 2.5], dtype=object),
    "none": np.array([None] * 4, dtype=object),
}


def written(path: Path, table: dict[str, np.ndarray], sign: str = ".") -> dict[str, np.ndarray]:
    write_table(path, table, decimal=sign)
    return read_table(path, types_of(table), missing=has_missing(table), decimal=sign)


@pytest.mark.parametrize(("ending", "sign"), [*((ending, ".") for ending in FORMATS), ("csv", ",")])
@pytest.mark.parametrize("name", [*TABLE, "all of them", "empty texts, none missing"])
def test_every_value_comes_back_as_it_was(
    ending: str, sign: str, name: str, tmp_path: Path
) -> None:
    table = {name: TABLE.get(name, np.array(["", "a"]))} if name != "all of them" else TABLE
    back = written(tmp_path / f"table.{ending}", table, sign)
    assert list(back) == list(table)
    assert table_digest(back) == table_digest(table)


DAMAGES = {
    "an open quotation mark": ("csv", b"bb", b'"b'),
    "an integer over 64 bits": ("csv", b"7", b"7" * 30),
    "offsets beyond the texts": ("arrow", b"\1\0\0\0\3\0\0\0", b"\1\0\0\0\3\0\0\x7f"),
    "the end is not there": ("arrow", b"ARROW1", b"ARROW2"),
    "another file": ("parquet", b"PAR1", b"PAR2"),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_a_damaged_table_is_a_value_error(what: str, tmp_path: Path) -> None:
    ending, old, new = DAMAGES[what]
    table = {"text": np.array(["a", "bb"]), "whole": np.array([7, 8])}
    path = tmp_path / f"table.{ending}"
    write_table(path, table)
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new))
    with pytest.raises(ValueError, match="damaged"):
        read_table(path, types_of(table), missing=False)


def test_a_table_in_parts_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "LINES", 3)
    many = {name: np.concatenate([values, values]) for name, values in TABLE.items()}
    many["late"] = np.array([1, 2, 3, 4, 5, 6, 7, None], dtype=object)
    many["early"] = np.array(["", None, "x"] + ["y"] * 5, dtype=object)[::-1]
    many["early"][many["early"] == ""] = "z"
    assert table_digest(written(tmp_path / "table.csv", many)) == table_digest(many)
    assert len((tmp_path / "table.csv").read_text(encoding="utf-8").splitlines()) > 8


def test_a_spreadsheet_knows_signs_and_digits_of_csv(tmp_path: Path) -> None:
    table = {"zip": np.array(["01234", "a;b"]), "cost": np.array([1.5, 2.0])}
    write_table(tmp_path / "a.csv", table, decimal=",")
    assert (tmp_path / "a.csv").read_bytes() == b'\xef\xbb\xbfzip;cost\n"01234";1,5\n"a;b";2,0\n'


def test_a_text_like_a_formula_is_guarded_in_csv(tmp_path: Path) -> None:
    path, texts = tmp_path / "table.csv", ["=1+1", "-0.5", "plain"]
    write_table(path, {"=name": np.array(texts)})
    lines = list(csv.reader(path.open(encoding="utf-8-sig")))
    assert lines == [["'=name"], ["'=1+1"], ["-0.5"], ["plain"]]
    back = read_table(path, {"'=name": "string"}, missing=False)
    assert [*back] == ["=name"]
    assert back["=name"].tolist() == texts


@pytest.mark.parametrize(
    "table",
    [
        {"guarded already": np.array(["'=1+1"])},
        {"missing or empty": np.array(["", None], dtype=object)},
        {"empty": np.array(["", "a"]), "missing": np.array([1, None], dtype=object)},
    ],
    ids=str,
)
def test_csv_refuses_what_parquet_can_hold(table: dict[str, np.ndarray], tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match=r"CSV cannot distinguish an? .*text .*from an? "):
        write_table(tmp_path / "table.csv", table)
    back = written(tmp_path / "table.parquet", table)
    assert table_digest(back) == table_digest(table)


@given(
    texts=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0")), min_size=1),
    numbers=st.lists(st.floats(allow_nan=False), min_size=1),
)
def test_any_text_and_number_comes_back_or_is_refused(
    texts: list[str], numbers: list[float], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.csv"
    many = min(len(texts), len(numbers))
    table = {"text": np.array(texts[:many]), "number": np.array(numbers[:many])}
    try:
        back = written(path, table)
    except DeclarationError:
        return
    assert table_digest(back) == table_digest(table)
