"""Drafts of data set files: what is open stays open, what is proposed is good."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dp_pipeline.config.draft import (
    Outline,
    SourceColumn,
    attribute_names,
    public_draft,
    sensitive_draft,
)
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.parser import load_spec
from dp_pipeline.models import build_model

SOURCE = {"kind": "csv", "path": "rides.csv"}


NAMES = st.text(st.characters(codec="utf-8"), min_size=1)
KINDS = st.sampled_from(["number", "text", "boolean", "unknown"])
COLUMN = st.builds(SourceColumn, NAMES, KINDS, st.just(""))
COLUMNS = st.lists(COLUMN, min_size=1, max_size=8, unique_by=lambda column: column.name)

LAT = SourceColumn("lat", "number", "double", proposal={"bounds": ["47", "48"], "bins": "10"})
LON = SourceColumn("lon", "number", "double", proposal={"bounds": ["8", "9"], "bins": "10"})
BIKE = SourceColumn("Bike type", "text", "string", proposal={"levels": ["city", "cargo"]})
AGES = {"bounds": ["0", "99"], "bins": "10", "nullable": "true", "missing": ["?"]}
AGE = SourceColumn("age", "unknown", proposal=AGES)
NOTE = SourceColumn("note", "text", "string", remark="812 different texts")
START = SourceColumn("start", "unusable", "timestamp")


def outline(columns: Sequence[SourceColumn], person: str | None = None) -> Outline:
    return Outline("rides", "rides.csv", SOURCE, attribute_names(columns), person)


def draft(folder: Path, text: str) -> Path:
    path = folder / "rides.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def decided(text: str, bounds: str = "[0, 9]", levels: str = "[a, b, other]") -> str:
    """What a person makes of a draft: every column a number, or as its type says."""
    text = text.replace("unit: TODO", "unit: one_row").replace("at_most: TODO", "at_most: 5")
    text = re.sub(r"(?m)^    # From its name.*\n(    # (type|bounds|every):.*\n){3}", "", text)
    text = re.sub(r"(?m)^( +)# (bounds|bins|integer):", r"\1\2:", text)
    text = re.sub(r"(?m)^    # (levels|other):.*\n", "", text)
    return text.replace("[TODO, TODO]", bounds).replace("[TODO, TODO, other]", levels)


@settings(max_examples=40)
@given(columns=COLUMNS)
def test_every_column_gets_a_name_of_its_own(columns):
    names = attribute_names(columns)
    assert list(names.values()) == columns
    assert all(re.fullmatch(r"[a-z][a-z0-9_]{0,63}", name) for name in names)


@settings(max_examples=40)
@example(columns=[SourceColumn("Datum", "unknown", "")], with_person=True)
@given(columns=COLUMNS, with_person=st.booleans())
def test_a_sensitive_draft_is_refused_until_it_is_decided(columns, with_person, tmp_path_factory):
    person = "who is it?" if with_person else None
    if any(column.name == person for column in columns):
        return
    path = draft(tmp_path_factory.mktemp("draft"), sensitive_draft(outline(columns, person)))
    with pytest.raises(DeclarationError, match=r"rides\.yaml:\d+: protection\.(unit|at_most)"):
        load_spec(path)
    text = path.read_text(encoding="utf-8")
    path.write_text(decided(text), encoding="utf-8")
    spec = load_spec(path)
    assert [attribute.column for attribute in spec.domain] == [column.name for column in columns]
    assert spec.protection.column == person
    assert spec.is_release
    for name in spec.models:
        if name == "one_shot" or len(spec.domain.numeric) > 1:
            build_model(spec, name)


@settings(max_examples=40)
@given(columns=COLUMNS, place=st.integers(0, 7))
def test_one_column_left_open_is_named_with_its_line(columns, place, tmp_path_factory):
    """Booleans have nothing to decide."""
    names = attribute_names(columns)
    name = list(names)[place % len(names)]
    if names[name].kind == "boolean":
        return
    lines = sensitive_draft(outline(columns)).splitlines(keepends=True)
    first = next(i for i, line in enumerate(lines) if line.rstrip() == f"  {name}:")
    last = next(i for i in range(first + 1, len(lines)) if not lines[i].startswith("    "))
    before, after = ("".join(part) for part in (lines[:first], lines[last:]))
    text = decided(before) + "".join(lines[first:last]) + decided(after)
    path = draft(tmp_path_factory.mktemp("draft"), text)
    with pytest.raises(DeclarationError) as caught:
        load_spec(path)
    line, field = re.search(r"rides\.yaml:(\d+): attributes\.(\w+)\.", str(caught.value)).groups()
    written = path.read_text(encoding="utf-8").splitlines()
    start = written.index(f"  {name}:")
    assert field == name
    assert start < int(line) <= start + last - first


def test_the_draft_asks_nothing_that_a_type_states():
    rooms = SourceColumn("rooms", "number", "int64", is_integer=True)
    typed = [("rent", "number", "double"), ("let", "boolean", "bool"), ("town", "text", "string")]
    typed += [("born", "date", "date32"), ("at", "timestamp", "timestamp")]
    text = sensitive_draft(outline([rooms, *(SourceColumn(*each) for each in typed), START]))
    attributes = text.partition("\nattributes:\n")[2].partition("# The ε")[0]
    assert attributes == (
        "  rooms:  # int64\n    bounds: [TODO, TODO]\n    bins: 10\n    integer: true\n"
        "  rent:  # double\n    bounds: [TODO, TODO]\n    bins: 10\n"
        "  let:  # bool\n    levels: [true, false]\n"
        "  town:  # string\n    levels: [TODO, TODO, other]\n    other: other\n"
        "  born:  # date32\n    type: date\n    bounds: [TODO, TODO]\n    every: month\n"
        "  at:  # timestamp\n    type: timestamp\n    bounds: [TODO, TODO]\n    every: day\n"
        "  # start: timestamp, neither text nor number: left out\n"
    )
    comment = text[: text.index("\non_invalid: keep\n")].rpartition("\nsource:")[2]
    for choice in ("keep: ", "clip: ", "drop: ", "nothing says how many"):
        assert choice in comment


PLACE_MODEL = "htree_kmeans: {k: 8, columns: lat lon}"
HEIGHT = SourceColumn("height", "number", proposal=LON.proposal)


FITTED = {
    "a place": ((LAT, LON), PLACE_MODEL),
    "one number": ((LAT, AGE, BIKE), "one_shot:"),
    "a table": ((BIKE,), "one_shot:"),
    "both": ((AGE, LAT, LON, BIKE), PLACE_MODEL),
    "two numbers": ((LAT, HEIGHT), "one_shot:"),
}


@pytest.mark.parametrize(("columns", "models"), FITTED.values(), ids=FITTED)
def test_the_models_fit_the_columns(columns, models, tmp_path):
    spec = load_spec(draft(tmp_path, public_draft(outline(columns), rows=40)))
    assert f"  {models}\n" in (tmp_path / "rides.yaml").read_text()
    assert ("htree_kmeans" in spec.models) == (len(spec.domain.numeric) > 1)
    assert spec.publish is not None
    for name in spec.models:
        build_model(spec, name)


def test_a_public_draft_is_valid_and_lists_omissions(tmp_path):
    label = SourceColumn("class", "text", proposal={"levels": ["ill", "well"]})
    columns = (LAT, BIKE, AGE, NOTE, START, label)
    text = public_draft(outline(columns, "user"), rows=40)
    spec = load_spec(draft(tmp_path, text))
    assert spec.domain.names == ("lat", "bike_type", "age", "class")
    assert (spec.purpose, spec.label, spec.nominal_rows) == ("benchmark", "class", 40)
    assert spec.protection.column == "user"
    assert spec.domain["age"].missing == ("?",)
    assert "  # note: 812 different texts: left out\n" in text
    assert "  # start: timestamp, neither text nor number: left out\n" in text


def test_a_draft_without_a_column_is_refused():
    fault = r"rides\.csv has no column that can be declared: name a source"
    for columns in ((START,), (), (NOTE,)):
        with pytest.raises(DeclarationError, match=fault):
            outline(columns)
    with pytest.raises(DeclarationError, match="be declared, other than the person's: name a"):
        outline((), "user")


def test_a_name_shows_that_a_column_may_be_time_or_money():
    columns = [SourceColumn(name, "unknown") for name in ("Start Time", "Fare (CHF)", "bike")]
    text = sensitive_draft(outline(columns))
    assert text.count("    # type: timestamp") == text.count('    # decimal: ","') == 1
    assert text.index("start_time:") < text.index("    # type: timestamp") < text.index("fare_chf:")
    assert text.index("fare_chf:") < text.index('    # decimal: ","') < text.index("  bike:")
