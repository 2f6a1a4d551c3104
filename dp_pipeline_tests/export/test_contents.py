"""What lies in an export: tables as files, places, card and description; whole or not at all."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import Coordinate
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.export import tables
from dp_pipeline.export.contents import write_contents
from dp_pipeline.export.evidence import TITLES
from dp_pipeline.export.folder import files_of, replace_folder
from dp_pipeline.export.tables import FORMATS, write_table
from dp_pipeline.reporting.pages import card
from dp_pipeline.reporting.rendering import card_page, has_same_words
from dp_pipeline.results.bundle import table_digest
from dp_pipeline_tests.export.samples import (
    CITY,
    STRANGE,
    exported,
    map_release,
    read_back,
    table_release,
)
from dp_pipeline_tests.reporting.samples import MARKUP, k_anonymous
from dp_pipeline_tests.reporting.test_report import Page


def described(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "datapackage.json").read_text(encoding="utf-8"))


def fields_of(folder: Path, name: str) -> dict[str, dict[str, Any]]:
    (resource,) = [part for part in described(folder)["resources"] if part["name"] == name]
    return {field["name"]: field for field in resource["schema"]["fields"]}


def test_a_table_lies_first_and_its_counts_below(tmp_path: Path) -> None:
    folder = exported(tmp_path / "out", table_release())
    assert files_of(folder) == [
        "README.txt", "SHA256SUMS", "card.html", "card.json", "card.md", "datapackage.json",
        "details/cells.csv", "details/cliques.csv", "details/codes.csv", "details/marginals.csv",
        "details/measured.csv", *sorted(TITLES), "release.json", "synthetic.csv",
    ]  # fmt: skip


def test_columns_are_described_with_types_bounds_and_levels(tmp_path: Path) -> None:
    fields = fields_of(exported(tmp_path / "out", table_release(), "parquet"), "synthetic")
    assert {name: field["type"] for name, field in fields.items()} == {
        "Age": "integer", "Kind": "string", "Income": "number", "Born": "date",
        "Seen": "datetime", "Left": "date",
    }  # fmt: skip
    assert fields["Age"]["constraints"] == {"minimum": 0.0, "maximum": 90.0}
    assert fields["Age"]["edges"] == [0.0, 30.0, 90.0]
    assert fields["Kind"]["categories"] == fields["Kind"]["constraints"]["enum"] == list(STRANGE)
    assert fields["Left"]["format"] == "%d.%m.%Y"
    # In CSV a level like a formula is guarded.
    guarded = fields_of(exported(tmp_path / "csv", table_release()), "synthetic")
    assert guarded["Kind"]["categories"][0] == "'=1+1"


def test_centres_have_a_column_of_noisy_rows(tmp_path: Path) -> None:
    folder = exported(tmp_path / "out", map_release(sizes={"size": np.array([4.0, -1.5])}))
    assert (folder / "centres.csv").read_text(encoding="utf-8-sig").splitlines() == [
        "lat,lon,hour,noisy rows", "47.25,8.5,0.5,4.0", "47.75,8.125,0.25,-1.5",
    ]  # fmt: skip
    assert not (folder / "details").exists()


def test_places_in_degrees_are_geojson_with_longitude_first(tmp_path: Path) -> None:
    folder = exported(tmp_path / "out", map_release())
    centres = json.loads((folder / "centres.geojson").read_text(encoding="utf-8"))
    first = centres["features"][0]
    assert first["geometry"] == {"type": "Point", "coordinates": [8.5, 47.25]}
    assert set(first["properties"]) == {"hour", "noisy rows"}
    assert first["properties"]["hour"] == 0.5
    boxes = json.loads((folder / "synopsis.geojson").read_text(encoding="utf-8"))["features"]
    (ring,) = boxes[0]["geometry"]["coordinates"]
    assert ring == [[8.0, 47.0], [8.5, 47.0], [8.5, 47.5], [8.0, 47.5], [8.0, 47.0]]
    assert boxes[0]["properties"] == {"hour_lower": 0.0, "hour_upper": 1.0, "weight": 3.5}


METRES = tuple(
    replace(attribute, name=name)
    for attribute, name in zip(CITY, ("north", "east", "hour"), strict=True)
)
FAR = tuple(replace(attribute, coordinate=Coordinate(0.0, 5000.0)) for attribute in CITY)


@pytest.mark.parametrize("attributes", [METRES, FAR], ids=["other units", "no degrees"])
def test_places_that_are_no_degrees_are_no_geojson(attributes: Any, tmp_path: Path) -> None:
    domain = Domain(attributes)
    folder = exported(tmp_path / "out", map_release(domain=domain))
    assert not list(folder.glob("*.geojson"))
    text = (folder / "centres.csv").read_text(encoding="utf-8-sig")
    assert text.startswith(",".join(domain.names))


def test_two_exports_of_one_release_are_the_same_bytes(tmp_path: Path) -> None:
    first, second = (exported(tmp_path / name, table_release()) for name in ("first", "second"))
    assert files_of(first) == files_of(second)
    for file in files_of(first):
        assert (first / file).read_bytes() == (second / file).read_bytes(), file


def test_a_k_anonymous_table_is_marked_everywhere(tmp_path: Path) -> None:
    rows = {"x>=2": np.array(["0", "1"]), "colour": np.array(["a", "b"])}
    release = k_anonymous(purpose="benchmark")
    bundle = replace(release.bundle, tables={**release.bundle.tables, "released": rows})
    folder = exported(tmp_path / "out", replace(release, bundle=bundle))
    assert (folder / "released.csv").exists()
    standing = "NOT DIFFERENTIALLY PRIVATE"
    for name in ("card.md", "card.html", "card.json", "datapackage.json"):
        assert standing in (folder / name).read_text(encoding="utf-8"), name
    figures = json.loads((folder / "card.json").read_text(encoding="utf-8"))["guarantee"]
    assert (figures["cleared"], figures["epsilon"]) == (False, "none")


def tags_of(page: str) -> list[str]:
    return [tag for tag, _ in Page(page).tags]


def test_the_page_of_a_card_has_the_same_words() -> None:
    text = card(table_release())
    page = card_page(text)
    assert has_same_words(page, text)
    assert not has_same_words(page.replace("0.5 exactly", "0.1 exactly"), text)
    assert {"h1", "h2", "ul", "li", "table", "th", "td", "p"} <= set(tags_of(page))
    assert "script" not in tags_of(page)
    assert "**" not in page and "| :-" not in page


@pytest.mark.parametrize("text", [*MARKUP, "a | b", "**bold**", "<script>alert(1)</script>", "\\"])
def test_no_value_is_markup_on_the_page_of_a_card(text: str) -> None:
    release = table_release()
    titled = replace(release, spec=replace(release.spec, title=text), summary=text)
    page = card_page(card(titled))
    assert tags_of(page) == tags_of(card_page(card(release)))
    assert has_same_words(page, card(titled))


def test_a_card_on_a_phone_names_each_column() -> None:
    page = card_page("| Noise | Scale < 1 |\n| --- | ---: |\n| discrete Laplace | 400 |\n")
    assert '<td data-label="Noise">discrete Laplace</td>' in page
    assert '<td data-label="Scale &lt; 1">400</td>' in page


def test_no_markdown_of_a_card_becomes_a_link_or_a_picture() -> None:
    text = "# a\n\n[b](javascript:x) ![c](d) <e> <https://f.g>\n\n> h\n\n```\ni\n```\n"
    assert not {"a", "img", "e", "blockquote", "pre", "code"} & set(tags_of(card_page(text)))


RELEASE = map_release()
OF = {"dataset": "squares", "model": "eug_kmeans"}


def write(folder: Path) -> None:
    write_contents(folder, RELEASE, card(RELEASE), "csv", day="2026-11-27")


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in files_of(folder)}


def test_an_earlier_export_is_replaced_without_leftovers(tmp_path: Path) -> None:
    replace_folder(tmp_path / "deep" / "out", write, **OF)
    first = contents(tmp_path / "deep" / "out")
    (tmp_path / "deep" / "out" / "card.md").write_text("old", encoding="utf-8")
    replace_folder(tmp_path / "deep" / "out", write, **OF)
    assert contents(tmp_path / "deep" / "out") == first
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["out"]


def a_file(path: Path) -> None:
    path.write_text("mine", encoding="utf-8")


def a_folder(path: Path) -> None:
    path.mkdir()
    (path / "mine.txt").write_text("mine", encoding="utf-8")


def a_link(path: Path) -> None:
    replace_folder(path.with_name("elsewhere"), write, **OF)
    path.symlink_to(path.with_name("elsewhere"))


def with_a_note(path: Path) -> None:
    replace_folder(path, write, **OF)
    (path / "note.txt").write_text("mine", encoding="utf-8")


@pytest.mark.parametrize("there", [a_file, a_folder, Path.mkdir, a_link, with_a_note])
def test_what_is_no_earlier_export_is_refused_by_name_and_stays(there, tmp_path: Path) -> None:
    target = tmp_path / "out"
    there(target)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(DeclarationError, match=f"^{target} may only be an earlier"):
        replace_folder(target, write, **OF)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("other", [{"dataset": "rides"}, {"model": "htree_kmeans"}])
def test_an_export_of_another_model_is_refused(other: dict[str, str], tmp_path: Path) -> None:
    replace_folder(tmp_path / "out", write, **OF)
    before = contents(tmp_path / "out")
    with pytest.raises(DeclarationError, match="choose another folder"):
        replace_folder(tmp_path / "out", write, **{**OF, **other})
    assert contents(tmp_path / "out") == before


@pytest.mark.parametrize("error", ["no space left", "not now"])
def test_an_export_that_fails_leaves_what_was_there(
    error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_folder(tmp_path / "out", write, **OF)
    before, rename = contents(tmp_path / "out"), Path.rename

    def write_half(folder: Path) -> None:
        (folder / "half.csv").write_text("x", encoding="utf-8")
        if error == "no space left":
            raise OSError(error)

    def refuse(path: Path, target: Path) -> Path:
        if path.name == "new":
            raise OSError("not now")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(OSError, match=error):
        replace_folder(tmp_path / "out", write_half, **OF)
    assert contents(tmp_path / "out") == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


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
    return dict(read_back(path, table, sign))


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
        read_back(path, table)


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
    table = {"=name": np.array(texts)}
    write_table(path, table)
    lines = list(csv.reader(path.open(encoding="utf-8-sig")))
    assert lines == [["'=name"], ["'=1+1"], ["-0.5"], ["plain"]]
    back = read_back(path, table)
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
