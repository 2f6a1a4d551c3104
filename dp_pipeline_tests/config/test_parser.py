"""A data set file becomes a DatasetSpec, or one line that says where it is wrong."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dp_pipeline.config.dataset import Publication
from dp_pipeline.config.domain import OneRow, RowsOfPerson
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.parser import load_spec
from dp_pipeline.config.source import Source
from dp_pipeline_tests.config.declarations import (
    FIELDS,
    declaration,
    loaded,
    with_attribute,
    written,
)


def complaint(path: Path) -> str:
    """The message with which a file is refused; always one line that begins with the path."""
    with pytest.raises(DeclarationError) as refused:
        load_spec(path)
    message = str(refused.value)
    assert len(message.splitlines()) == 1
    assert message.startswith(str(path))
    assert re.search(r"expected .+, got.+", message)
    said = message.removeprefix(str(path))
    # The file has the name of the data set, which a command to copy may have too.
    assert not re.search(rf"\b{path.stem}\b", re.sub("`.+?`", "", said))
    return said


# Every row: what is written, the field that is named, what stands on the line that is named,
# and a part of what was got.
MISTAKES = {
    "unknown": (
        {"partition": "partition: [1]"},
        "partition",
        "partition: [1]",
        "a field that is not known",
    ),
    "missing": ({"population": None}, "population", "name: toy", "nothing"),
    "missing nested": (
        {"protection": "protection:\n  column: c"},
        "protection.unit",
        "column: c",
        "nothing",
    ),
    "unknown nested": (
        {"ceiling": "ceiling:\n  total: 4\n  per_week: 1"},
        "ceiling.per_week",
        "per_week",
        "not known",
    ),
    "a label that is a number": ({"label": "label: age"}, "label", "label: age", "'age'"),
    "a label that is not declared": ({"label": "label: job"}, "label", "label: job", "'job'"),
    "an empty label": ({"label": "label:"}, "label", "label:", "''"),
    "twice": ({"again": "purpose: release"}, "purpose", "purpose: release", "twice"),
    "attribute twice": (
        {"attributes": FIELDS["attributes"] + "\n  x: {bounds: [0, 9]}"},
        "attributes.x",
        "x: {bounds: [0, 9]}",
        "twice",
    ),
    "list for a value": ({"purpose": "purpose: [release]"}, "purpose", "[release]", "a list"),
    "value for a list": ({"partitions": "partitions: 1"}, "partitions", "partitions", "something"),
    "nested list": (
        {"partitions": "partitions: [[1]]"},
        "partitions",
        "partitions",
        "a nested list",
    ),
    "value for a mapping": ({"source": "source: toy.csv"}, "source", "toy.csv", "something else"),
    "list for a mapping": ({"models": "models: [independent]"}, "models", "models", "something"),
    "list for a parameter": (
        {"models": "models: {independent: {k: [1]}}"},
        "models.independent.k",
        "models",
        "a list",
    ),
    "list as a name": ({"odd": "[a, b]: c"}, "a field's name", "[a, b]", "a list or mapping"),
    "empty value": ({"description": "description:"}, "description", "description", "''"),
    "name of another file": ({"name": "name: tow"}, "name", "name: tow", "'tow'"),
    "odd population": ({"population": "population: A b"}, "population", "A b", "'A b'"),
    "odd purpose": ({"purpose": "purpose: secret"}, "purpose", "secret", "'secret'"),
    "odd relation": ({"relation": "relation: swap"}, "relation", "swap", "'swap'"),
    "odd kind": (
        {"source": "source:\n  kind: xls\n  path: a"},
        "source.kind",
        "xls",
        "'xls'",
    ),
    "odd variable": (
        {"source": "source:\n  kind: csv\n  path: $HOME/a.csv"},
        "source.path",
        "path: $HOME",
        "'$HOME/a.csv'",
    ),
    "odd rule": ({"on_invalid": "on_invalid: keep"}, "on_invalid", "keep", "'keep'"),
    "odd boolean": ({"one_hot": "one_hot: yes"}, "one_hot", "yes", "'yes'"),
    "odd attribute": (
        {"attributes": FIELDS["attributes"] + "\n  Odd: {bounds: [0, 1]}"},
        "attributes.Odd",
        "Odd",
        "'Odd'",
    ),
    "no attribute": ({"attributes": "attributes:"}, "attributes", "attributes", "none"),
    "no model": ({"models": "models:"}, "models", "models", "none"),
    "rows not a number": ({"nominal_rows": "nominal_rows: 1e5"}, "nominal_rows", "1e5", "'1e5'"),
    "rows not positive": ({"nominal_rows": "nominal_rows: 0"}, "nominal_rows", "rows: 0", "'0'"),
    "at most none": (
        {"protection": "protection:\n  unit: rows_of_person\n  column: p\n  at_most: 0"},
        "protection.at_most",
        "at_most",
        "'0'",
    ),
    "path and paths": (
        {"source": "source:\n  kind: csv\n  path: a.csv\n  paths: [b.csv]"},
        "source.path",
        "path: a.csv",
        "not known",
    ),
    "no paths": ({"source": "source:\n  kind: csv\n  paths: []"}, "source.paths", "paths", "none"),
    "a file twice": (
        {"source": "source:\n  kind: csv\n  paths: [a.csv, ./a.csv]"},
        "source.paths",
        "paths",
        "2",
    ),
    "odd variable in a list": (
        {"source": "source:\n  kind: csv\n  paths: [a.csv, $HOME/b.csv]"},
        "source.paths",
        "paths",
        "'$HOME/b.csv'",
    ),
    "parquet files are one": (
        {"source": "source:\n  kind: parquet\n  paths: [a, b]"},
        "source.path",
        "kind: parquet",
        "nothing",
    ),
    "a comment of two characters": (
        {"source": "source:\n  kind: csv\n  path: a.csv\n  comment: //"},
        "source.comment",
        "comment",
        "'//'",
    ),
    "a comment that is the delimiter": (
        {"source": "source:\n  kind: csv\n  path: a.csv\n  delimiter: ;\n  comment: ;"},
        "source.comment",
        "comment",
        "';'",
    ),
    "release without ceiling": ({"ceiling": None}, "ceiling", "name: toy", "nothing"),
    "ceiling too low": ({"ceiling": "ceiling:\n  total: 2.999"}, "ceiling", "2.999", "2.999"),
    "ceiling too low for the evaluations": (
        {"evaluation": "evaluation: {epsilon: 0.3}"},
        "ceiling",
        "total: 4",
        "4",
    ),
    "unlisted model published": (
        {"publish": "publish: {model: eug_kmeans, epsilon: 1}"},
        "publish",
        "eug_kmeans",
        "eug_kmeans",
    ),
    "unlisted partition published": (
        {"publish": "publish: {model: independent, epsilon: 0.7}"},
        "publish",
        "0.7",
        "0.7",
    ),
    "the person is an attribute": (
        {"attributes": with_attribute("{column: person, levels: [a, b]}")},
        "attributes",
        "x: {bounds",
        "one",
    ),
}

# Mistakes in an attribute `odd`: what is written, the field below it, and a part of what was got.
ATTRIBUTE_MISTAKES = {
    "unknown in an attribute": ("{bounds: [0, 1], bnis: 4}", "bnis", "not known"),
    "levels and bounds": ("{levels: [a, b], bounds: [0, 1]}", "bounds", "not known"),
    "bins and edges": ("{bounds: [0, 1], bins: 4, edges: [0.5]}", "bins", "both"),
    "neither levels nor bounds": ("{column: odd}", "levels", "neither"),
    "twice nested": ("{bounds: [0, 1], bounds: [0, 9]}", "bounds", "twice"),
    "levels repeated": ("{levels: [a, b, a]}", "levels", "3"),
    "one level": ("{levels: [a]}", "levels", ""),
    "other not a level": ("{levels: [a, b], other: c}", "other", "'c'"),
    "other without a level": ("{levels: [a, b], on_invalid: other}", "on_invalid", "none"),
    "levels cannot be clipped": ("{levels: [a, b], on_invalid: clip}", "on_invalid", "'clip'"),
    "numbers have no other": ("{bounds: [0, 1], on_invalid: other}", "on_invalid", "'other'"),
    "a range that is none": ("{levels: 0-3}", "levels", "'0-3'"),
    "a range that goes down": ("{levels: 3..0}", "levels", "'3..0'"),
    "a range without end": ("{levels: 0..999999999999999999}", "levels", "'0..999999999999999999'"),
    "an alias of no level": ("{levels: [a, b], aliases: {A: c}}", "aliases.A", "'c'"),
    "an alias that is a level": ("{levels: [a, b], aliases: {a: b}}", "aliases.a", "another"),
    "an alias with spaces around it": (
        "{levels: [a, b], aliases: {' A': b}}",
        "aliases.A",
        "another",
    ),
    "numbers have no aliases": ("{bounds: [0, 1], aliases: {a: b}}", "aliases", "not known"),
    "missing texts of what is never missing": (
        "{levels: [a, b], missing: ['?']}",
        "missing",
        "none",
    ),
    "a level that means missing": (
        "{levels: [a, b], nullable: true, missing: [b]}",
        "missing",
        "one that is",
    ),
    "an alias that means missing": (
        "{levels: [a, b], nullable: true, missing: [A], aliases: {A: a}}",
        "missing",
        "one that is",
    ),
    "a level called missing": ("{levels: [a, missing], nullable: true}", "levels", "one"),
    "missing numbers without bins": ("{bounds: [0, 1], nullable: true}", "nullable", "none"),
    "whole numbers between no whole numbers": (
        "{bounds: [0.2, 0.8], integer: true}",
        "integer",
        "none",
    ),
    "levels are no whole numbers": ("{levels: 0..3, integer: true}", "integer", "not known"),
}


def check_mistake(
    folder: Path, changes: dict[str, str | None], field: str, at: str, got: str
) -> None:
    text = declaration(**changes)
    found = re.fullmatch(
        r":(\d+): (.+?): expected (.+), got (.+)", complaint(written(folder, text))
    )
    assert found
    assert found[2] == field
    assert at in text.splitlines()[int(found[1]) - 1]
    assert got in found[4]


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line_with_file_line_field_expected_and_got(
    name: str, tmp_path: Path
) -> None:
    check_mistake(tmp_path, *MISTAKES[name])


def check_attribute(folder: Path, section: str, field: str, got: str = "") -> None:
    changes: dict[str, str | None] = {"attributes": with_attribute(section)}
    check_mistake(folder, changes, f"attributes.odd.{field}", "odd", got)


@pytest.mark.parametrize("name", ATTRIBUTE_MISTAKES)
def test_a_mistake_in_an_attribute_is_named_with_its_field(name: str, tmp_path: Path) -> None:
    check_attribute(tmp_path, *ATTRIBUTE_MISTAKES[name])


@pytest.mark.parametrize(
    "bounds",
    [
        *("[8, 0]", "[1, 1]", "[.nan, 1]", "[nan, 1]", "[0, inf]", "[-.inf, 0]", "[low, high]"),
        *("[0]", "[0, 1, 2]", "[]", "[0, '']", "[0, 1e16]", "[-1e400, 0]"),
        *("[0, 1e-300]", "[1e15, 1.00000000001e15]", "[1.0, 1.0000000000000002]"),
    ],
)
def test_bounds_that_are_not_an_interval_are_refused(bounds: str, tmp_path: Path) -> None:
    check_attribute(tmp_path, f"{{bounds: {bounds}}}", "bounds")


@pytest.mark.parametrize("bins", ["0", "-1", "1.5", "many", "65537", "999999999999999999"])
def test_a_number_of_bins_that_cannot_be_is_refused(bins: str, tmp_path: Path) -> None:
    check_attribute(tmp_path, f"{{bounds: [0, 1], bins: {bins}}}", "bins", bins)


@pytest.mark.parametrize("edges", ["[0]", "[1]", "[0.5, 0.5]", "[0.6, 0.5]", "[2]", "[nan]"])
def test_edges_that_do_not_ascend_inside_the_bounds_are_refused(edges: str, tmp_path: Path) -> None:
    check_attribute(tmp_path, f"{{bounds: [0, 1], edges: {edges}}}", "edges")


BAD_EPSILONS = ["0", "-1", ".nan", "nan", ".inf", "inf", "abc", "1e-12", "1e-7", "0.0000000001"]
BAD_EPSILONS += ["1/2", "0x1", "1000001", "0.1234567891", "''", "1_0", "1e999999999", "9" * 5000]


@pytest.mark.parametrize("epsilon", BAD_EPSILONS, ids=lambda text: text[:15])
def test_an_epsilon_that_the_ledger_cannot_hold_is_refused_everywhere(
    epsilon: str, tmp_path: Path
) -> None:
    places = {
        "partitions": f"partitions: [{epsilon}]",
        "ceiling": f"ceiling: {{total: {epsilon}}}",
        "evaluation": f"evaluation: {{epsilon: {epsilon}}}",
        "publish": f"publish: {{model: independent, epsilon: {epsilon}}}",
    }
    for field, block in places.items():
        name = {"partitions": field, "ceiling": "ceiling.total"}.get(field, f"{field}.epsilon")
        check_mistake(tmp_path, {field: block}, name, field, "")


def test_the_line_of_a_mistake_in_a_long_list_is_the_items_own(tmp_path: Path) -> None:
    partitions = "partitions:\n  - 0.1\n  - 0.5x\n  - 1"
    check_mistake(tmp_path, {"partitions": partitions}, "partitions", "- 0.5x", "'0.5x'")
    edges = with_attribute("{bounds: [0, 9], edges: [1,\n    two,\n    3]}")
    check_mistake(tmp_path, {"attributes": edges}, "attributes.odd.edges", "two,", "'two'")


@pytest.mark.parametrize("partitions", ["[1, 0.5]", "[0.5, 0.5]", "[0.5, 0.50]", "[]"])
def test_partitions_that_do_not_ascend_are_refused(partitions: str, tmp_path: Path) -> None:
    check_mistake(
        tmp_path, {"partitions": f"partitions: {partitions}"}, "partitions", "partitions", ""
    )


# What is no declaration at all.


def test_an_alias_is_refused_with_its_line(tmp_path: Path) -> None:
    text = declaration(attributes="attributes:\n  x: &x {bounds: [0, 8]}\n  y: *x")
    line = next(n for n, one in enumerate(text.splitlines(), 1) if "*x" in one)
    assert complaint(written(tmp_path, text)) == f":{line}: expected YAML, got: an alias"


NO_DECLARATIONS = {
    "empty": "",
    "comment": "# nothing",
    "list": "- name: toy",
    "text": "name",
    "two documents": declaration() + "---\n" + declaration(),
    "tab": "name:\n\t- x",
    "unclosed": "name: [toy",
    "not UTF-8": b"name: toy\ndescription: caf\xe9\n",
    "UTF-16": declaration().encode("utf-16"),
    "zero byte": "name: to\0y",
    "deep list": "name: " + "[" * 5000,
    "deep mapping": "name: " + "{a: " * 5000 + "1" + "}" * 5000,
    "field name of two lines": declaration(odd='"a\\nb": 1'),
    "level of two lines": declaration(
        attributes='attributes: {x: {levels: ["a\\nb", c], other: d}}'
    ),
    "long field name": declaration(odd=f"? {'a' * 9000}\n: 1"),
}


@pytest.mark.parametrize("name", NO_DECLARATIONS)
def test_what_is_no_declaration_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    assert len(complaint(written(tmp_path, NO_DECLARATIONS[name]))) < 320


@pytest.mark.parametrize("reason", ["Is a directory", "No such file"])
def test_a_file_that_cannot_be_read_is_refused(reason: str, tmp_path: Path) -> None:
    if reason == "Is a directory":
        (tmp_path / "toy.yaml").mkdir()
    assert reason in complaint(tmp_path / "toy.yaml")


def fine_or_refused(path: Path) -> None:
    """Load, or refuse in one line; nothing else may be raised."""
    try:
        load_spec(path)
    except DeclarationError as refused:
        assert len(str(refused).splitlines()) == 1
        assert str(path) in str(refused)


fuzz = settings(
    derandomize=True,
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@fuzz
@given(text=st.text(max_size=60) | st.binary(max_size=60))
def test_any_content_is_a_declaration_or_refused_in_one_line(
    text: str | bytes, tmp_path: Path
) -> None:
    raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    fine_or_refused(written(tmp_path, raw))


@fuzz
@given(
    field=st.sampled_from(sorted(FIELDS)), value=st.text("ab01.-e[]{}:,'\"&*?|>\n !#~", max_size=12)
)
def test_any_value_of_a_field_is_accepted_or_refused_in_one_line(
    field: str, value: str, tmp_path: Path
) -> None:
    fine_or_refused(written(tmp_path, declaration(**{field: f"{field}: {value}"})))


# What is declared is what is loaded.


def test_every_field_is_loaded_as_declared(tmp_path: Path) -> None:
    spec = loaded(
        tmp_path,
        title="title: Toy people",
        one_hot="one_hot: true",
        nominal_rows="nominal_rows: 10",
        publish="publish: {model: independent, epsilon: 0.50}",
        evaluation="evaluation: {epsilon: 0.25}",
        distinct_population="distinct_population: other town",
        label="label: colour",
    )
    assert (spec.name, spec.title, spec.population) == ("toy", "Toy people", "people")
    assert spec.protection == RowsOfPerson("person", 3)
    assert (spec.relation, spec.distance, spec.purpose) == ("add_remove", 3, "release")
    assert spec.source == Source("csv", str(tmp_path / "toy.csv"))
    assert spec.columns == ("x", "age", "colour", "person")
    assert spec.partition_keys == ("0.5", "1")
    assert spec.models == {"dpqt_kmeans": {"k": "2"}, "independent": {}}
    assert spec.publish == Publication("independent", Fraction(1, 2))
    assert spec.charge_for(Fraction(1)) == Fraction(5, 4)
    assert spec.cost_of_everything == 2 * (Fraction(1, 2) + 1 + Fraction(1, 2))
    assert (spec.ceiling, spec.one_hot, spec.nominal_rows) == (4, True, 10)
    assert (spec.distinct_population, spec.label) == ("other town", "colour")


def test_absent_fields_have_their_defaults(tmp_path: Path) -> None:
    spec = loaded(
        tmp_path,
        purpose="purpose: benchmark",
        ceiling=None,
        protection="protection: {unit: one_row}",
    )
    assert (spec.title, spec.relation, spec.ceiling) == ("toy", "add_remove", None)
    assert (spec.one_hot, spec.nominal_rows, spec.publish) == (False, None, None)
    assert (spec.evaluation, spec.distinct_population, spec.label) == (None, None, None)
    assert spec.protection == OneRow()
    assert spec.columns == ("x", "age", "colour")


def test_a_ceiling_of_exactly_the_sum_of_everything_is_enough(tmp_path: Path) -> None:
    assert loaded(tmp_path, ceiling="ceiling: {total: 3}").cost_of_everything == 3


def test_booleans_numbers_and_null_stay_the_texts_that_were_written(tmp_path: Path) -> None:
    attributes = "attributes: {a: {levels: [yes, no, 0.10, null, 0x1, 2024-01-01, ~, True]}}"
    spec = loaded(tmp_path, attributes=attributes)
    texts = ("yes", "no", "0.10", "null", "0x1", "2024-01-01", "~", "True")
    assert spec.domain["a"].cells.labels() == texts


@pytest.mark.parametrize(
    ("default", "attribute", "rule"),
    [
        ("clip", "{bounds: [0, 1]}", "clip"),
        ("drop", "{bounds: [0, 1]}", "drop"),
        ("drop", "{bounds: [0, 1], on_invalid: clip}", "clip"),
        ("clip", "{levels: [a, b]}", "drop"),
        ("clip", "{levels: [a, b], other: a}", "other"),
        ("drop", "{levels: [a, b], other: a}", "drop"),
        ("drop", "{levels: [a, b], other: a, on_invalid: other}", "other"),
    ],
)
def test_an_attribute_follows_its_own_rule_or_the_data_sets(
    default: str, attribute: str, rule: str, tmp_path: Path
) -> None:
    spec = loaded(
        tmp_path,
        on_invalid=f"on_invalid: {default}",
        attributes=f"attributes: {{a: {attribute}}}",
    )
    assert spec.domain["a"].on_invalid == rule


def test_a_path_is_beside_its_file_or_in_the_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = "source: {kind: parquet, path: $DP_PIPELINE_DATA/deep/toy.parquet}"
    monkeypatch.delenv("DP_PIPELINE_DATA", raising=False)
    without = loaded(tmp_path, source=block).source
    assert (without.location, without.needs) == (
        "$DP_PIPELINE_DATA/deep/toy.parquet",
        "DP_PIPELINE_DATA",
    )
    monkeypatch.setenv("DP_PIPELINE_DATA", str(tmp_path / "data"))
    within = loaded(tmp_path, source=block).source
    assert within.location == str(tmp_path / "data/deep/toy.parquet")


def test_several_files_are_one_source_and_each_of_them_is_known_to_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DP_PIPELINE_DATA", str(tmp_path / "data"))
    block = "source: {kind: csv, paths: [a.csv, $DP_PIPELINE_DATA/b.csv], comment: '#'}"
    source = loaded(tmp_path, source=block).source
    files = (str(tmp_path / "a.csv"), str(tmp_path / "data/b.csv"))
    assert source.locations == files
    assert source.identities == tuple(f"file:{file}" for file in files)
    assert (source.needs, source.comment) == ("DP_PIPELINE_DATA", "#")
    monkeypatch.delenv("DP_PIPELINE_DATA")
    assert loaded(tmp_path, source=block).source.needs == "DP_PIPELINE_DATA"


def test_a_range_of_levels_is_its_whole_numbers_as_texts(tmp_path: Path) -> None:
    attributes = "attributes: {a: {levels: 0..3}, b: {levels: 8..11, other: 9}}"
    spec = loaded(tmp_path, attributes=attributes)
    assert [one.cells.labels() for one in spec.domain] == [
        ("0", "1", "2", "3"),
        ("8", "9", "10", "11"),
    ]
    assert spec.domain["b"].other == "9"


def test_missing_values_aliases_and_whole_numbers_are_loaded_as_declared(tmp_path: Path) -> None:
    attributes = """attributes:
  job: {levels: [paid, none], nullable: true, missing: ["?", " -", "?"], aliases: {Paid: paid}}
  age: {bounds: [0, 9], bins: 3, nullable: true, integer: true}
  x: {bounds: [0, 9], nullable: false, integer: false}"""
    job, age, x = loaded(tmp_path, attributes=attributes).domain
    assert (job.nullable, job.missing, job.aliases) == (True, ("-", "?"), (("Paid", "paid"),))
    assert (age.nullable, age.is_integer, age.missing) == (True, True, ())
    assert (x.nullable, x.is_integer, x.missing, x.aliases) == (False, False, (), ())


def test_only_a_listed_partition_can_be_asked_for(tmp_path: Path) -> None:
    spec = loaded(tmp_path)
    assert spec.partition("0.50") == Fraction(1, 2)
    for text in ("0.7", "2", "no", "-0.5"):
        with pytest.raises(DeclarationError, match="toy"):
            spec.partition(text)
