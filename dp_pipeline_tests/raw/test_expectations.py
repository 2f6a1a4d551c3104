"""What a user declares in Great Expectations' words is what the library tests, row by row."""

import json
import logging
import os
import re
import socket
import stat
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import Damaged, NotPrepared, PipelineError
from dp_pipeline.config.expectation_parser import TYPES
from dp_pipeline.raw import great_expectations_session
from dp_pipeline.raw.data_docs import FOLDER, INDEX, write_data_docs
from dp_pipeline.raw.expectations import expectations_of
from dp_pipeline.raw.great_expectations_session import load_library
from dp_pipeline.raw.retirement import retire
from dp_pipeline.raw.snapshot import require_prepared, require_validated
from dp_pipeline.raw.validate import Verdict, add_passing_shares, refusal, validate
from dp_pipeline_tests.raw.test_prepare import PEOPLE, WITH_GAPS
from dp_pipeline_tests.raw.written import PERSONS, ingested, written_spec

AGE_AND_SEX = "{age: {bounds: [0, 100]}, sex: {levels: [f, m]}}"
SOUND = {"age": ["1", " 99.5 ", "100"], "sex": ["f", "m", " m"]}


def failed(verdicts: tuple[Verdict, ...]) -> set[str]:
    return {verdict.expectation.name for verdict in verdicts if not verdict.passed}


@pytest.fixture
def spec(tmp_path):
    return written_spec(tmp_path, AGE_AND_SEX)


def test_sound_rows_fulfil_everything_in_the_order_declared(spec, tmp_path):
    snapshot = ingested(tmp_path, SOUND)
    verdicts = validate(spec, snapshot)
    assert tuple(verdict.expectation for verdict in verdicts) == expectations_of(spec)
    assert failed(verdicts) == set()
    assert refusal(spec, verdicts) is None
    validated = snapshot.manifest["validated"]
    assert validated == {"structural": True, "refused": False, "digest": spec.digest, "checks": ""}
    # Missing values fulfil expectations of nullable attributes.
    spec = written_spec(tmp_path, PEOPLE)
    assert failed(validate(spec, ingested(tmp_path, WITH_GAPS, "gaps"))) == set()
    named = {e.name: e.description for e in expectations_of(spec) if not e.structural}
    assert list(named) == ["has_rows", "bounds__age", "levels__job", "present__sex", "levels__sex"]
    assert named["bounds__age"] == "Every value of age is missing or a number between 0 and 90."


NOTHING = pa.table(dict.fromkeys(("age", "sex"), pa.array([], pa.string())))
TWENTY = {"age": ["1"] * 19 + ["200"], "sex": ["f"] * 19 + ["x"]}
SHARED_AGE = "{age: {bounds: [0, 100], usable: %s}, sex: {levels: [f, m]}}"
BOTH = {"bounds__age", "levels__sex"}
AGES, SMOKES = "{age: {bounds: [0, 100]}}", "{smokes: {levels: [0, 1]}}"
SEVEN = {"age": ["", "?", "1", "200", "300", "2", "-1"]}
BROKEN = [
    *(
        (AGE_AND_SEX, "", {"age": [age], "sex": ["f"]}, {"present__age"})
        for age in ("?", "", "nan")
    ),
    *((AGE_AND_SEX, "", {"age": [x], "sex": ["f"]}, {"bounds__age"}) for x in ("100.5", "-inf")),
    (AGE_AND_SEX, "", {"age": [101, 3], "sex": ["f", "m"]}, {"bounds__age"}),
    (AGE_AND_SEX, "", {"age": [None, 3.5], "sex": ["f", "m"]}, {"present__age"}),
    *((AGE_AND_SEX, "", {"age": ["1"], "sex": [sex]}, {"levels__sex"}) for sex in ("x", "")),
    (AGE_AND_SEX, "", {"age": ["1", "2"], "sex": ["f", None]}, {"present__sex"}),
    (AGE_AND_SEX, "", NOTHING, {"has_rows"}),
    *(
        (PEOPLE, "", WITH_GAPS | {column: [value, *WITH_GAPS[column][1:]]}, {name})
        for column, value, name in (
            *(("age", age, "bounds__age") for age in ("old", "nan", "90.5")),
            *(("job", job, "levels__job") for job in ("idle", "-1")),
        )
    ),
    *((SMOKES, "", {"smokes": values}, set()) for values in ([1, 0], [1.0, 0.0])),
    (SMOKES, "", {"smokes": [0.5]}, {"levels__smokes"}),
    # All, more than are sound, as many as are sound, and half of the rows.
    *((AGE_AND_SEX, f"usable: {share}", TWENTY, BOTH) for share in ("1", "0.96")),
    *((AGE_AND_SEX, f"usable: {share}", TWENTY, set()) for share in ("0.95", ".5")),
    (SHARED_AGE % "0.95", "", TWENTY, {"levels__sex"}),
    (SHARED_AGE % "1", "usable: 0.9", TWENTY, {"bounds__age"}),
    # Missing values count among all rows, bad ones among the others.
    (AGES, "usable: 0.5", {"age": ["", "?", "1", "200"]}, set()),
    (AGES, "usable: 0.5", {"age": ["", "?", "1"]}, {"present__age"}),
    (AGES, "usable: 0.5", SEVEN, {"bounds__age"}),
    (AGE_AND_SEX, "usable: 0.6", SOUND | {"rider": ("a", "", "b")}, set()),
    (AGE_AND_SEX, "usable: 0.6", SOUND | {"rider": ("a", "", " ")}, {"present_person_id"}),
]


@pytest.mark.chain
@pytest.mark.parametrize(("attributes", "more", "rows", "broken"), BROKEN)
def test_broken_rows_fail_the_expectations_that_name_them(tmp_path, attributes, more, rows, broken):
    protection = {"protection": PERSONS} if "rider" in rows else {}
    spec = written_spec(tmp_path, attributes, more=more, **protection)
    verdicts = validate(spec, ingested(tmp_path, rows))
    assert failed(verdicts) == broken
    assert all(verdict.ran for verdict in verdicts)
    # What fails blocks public rows, but for attributes that may be missing.
    assert (refusal(spec, verdicts) is None) == (not broken or attributes == PEOPLE)


def test_a_missing_column_stops_before_rows_are_read(spec, tmp_path):
    snapshot = ingested(tmp_path, {"age": ["1"]})
    snapshot.record(stages={"normalized": spec.digest})
    verdicts = validate(spec, snapshot)
    broken = {v.expectation.name for v in verdicts if v.ran and not v.passed}
    assert broken == {"column__sex", "type__sex"}
    assert all(v.expectation.structural == v.ran for v in verdicts)
    assert not any(v.passed for v in verdicts if not v.ran)
    assert refusal(spec, verdicts) == (
        "people: the snapshot is not as declared, as these expectations failed: column__sex, "
        "type__sex; mend the source or the file, then name a new snapshot: "
        "`dp-pipeline run people --snapshot NAME`"
    )
    validated = snapshot.manifest["validated"]
    assert (validated["structural"], validated["refused"]) == (False, True)
    with pytest.raises(NotPrepared, match="its checks refused the snapshot"):
        require_prepared(spec, snapshot)


@pytest.mark.parametrize("kind", [pa.bool_(), pa.list_(pa.string()), pa.timestamp("s"), None])
def test_odd_column_fails_by_its_type(spec, tmp_path, kind):
    """A column that stands twice is not there."""
    ages, names = [pa.array([None], kind or pa.string())] * (1 if kind else 2), ["age", "age"]
    table = pa.Table.from_arrays([pa.array(["f"]), *ages], names=["sex", *names[: len(ages)]])
    name = "type__age" if kind else "column__age"
    assert name in failed(validate(spec, ingested(tmp_path, table)))


@pytest.mark.parametrize("kind", [pa.int8(), pa.float32(), pa.large_string()])
def test_structural_verdicts_do_not_change_with_the_rows(spec, tmp_path, kind):
    verdicts = []
    for index, ages in enumerate(([], [None], ["7"], ["99"] * 50)):
        age = pa.array(ages, pa.string()).cast(kind)
        table = pa.table({"age": age, "sex": pa.array(["f"] * len(ages), pa.string())})
        actual = validate(spec, ingested(tmp_path, table, f"day{index}"))
        verdicts.append([v.passed for v in actual if v.expectation.structural])
    assert verdicts == [[True] * 4] * 4


def test_failed_rows_refuse_benchmark_data(spec, tmp_path, capfd, caplog):
    snapshot = ingested(tmp_path, {"age": ["8675309"], "sex": ["Xanthippe"]})
    snapshot.record(stages={"normalized": spec.digest})
    with caplog.at_level(logging.DEBUG):
        verdicts = validate(spec, snapshot)
    line = refusal(spec, verdicts)
    assert re.search("people.*bounds__age", line)
    output = line + caplog.text + "".join(capfd.readouterr()) + repr(verdicts)
    assert not any(secret in output for secret in SECRETS)
    validated = snapshot.manifest["validated"]
    assert (validated["structural"], validated["refused"]) == (True, True)
    with pytest.raises(NotPrepared, match="its checks refused the snapshot"):
        require_prepared(spec, snapshot)


MATCH = "expect_column_values_to_match_regex"
UNFIT = {
    "bad cells": (
        *(AGE_AND_SEX, "", {"age": ["200"], "sex": ["q"], "rider": [" "]}),
        {"bounds__age", "levels__sex", "present_person_id"},
    ),
    "a missed share": (
        *(AGE_AND_SEX, "usable: 0.5", {"age": ["?"], "sex": ["?"], "rider": ["a"]}),
        {"present__age", "levels__sex"},
    ),
    "what is declared": (
        AGE_AND_SEX,
        f"expectations: [{{type: {MATCH}, column: rider, regex: '^[a-c]$'}}]",
        *({"age": ["1"], "sex": ["f"], "rider": ["x"]}, {f"{MATCH}_person_id"}),
    ),
    "a constraint": (
        AGE_AND_SEX.replace("100]", "100], bins: 5"),
        "constraints: {never: {age: '[0, 20)', sex: f}}",
        *({"age": ["5"], "sex": ["f"], "rider": ["a"]}, {"keeps_constraint_1"}),
    ),
}


@pytest.mark.parametrize("name", UNFIT)
def test_failed_rows_of_release_data_leave_no_trace(tmp_path, name):
    attributes, more, rows, broken = UNFIT[name]
    spec = written_spec(tmp_path, attributes, purpose="release", protection=PERSONS, more=more)
    sound = {"age": ["21", " 99.5 ", "100"], "sex": ["f", "m", " m"], "rider": ["a", "b", "c"]}
    good, bad = ingested(tmp_path, sound, "good"), ingested(tmp_path, rows, "bad")
    for snapshot in (good, bad):
        snapshot.record(stages={"normalized": spec.digest})
    assert failed(validate(spec, good)) == set()
    verdicts = validate(spec, bad)
    assert all(e.blocking == e.structural for e in expectations_of(spec))
    assert failed(verdicts) == broken
    assert refusal(spec, verdicts) is None
    facts = [{k: s.manifest[k] for k in ("validated", "stages")} for s in (good, bad)]
    assert facts[0] == facts[1]


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff", b"[" * 100_000, b'{"bounds__age": "9"}'])
def test_damaged_shares_of_failed_checks_are_one_line(spec, tmp_path, content):
    snapshot = ingested(tmp_path, {"age": ["200", "2"], "sex": ["f", "m"]})
    names = sorted(failed(validate(spec, snapshot)))
    assert add_passing_shares(snapshot, names) == ("bounds__age (50.0000 % are so)",)
    (snapshot.folder / "failed_shares.json").write_bytes(content)
    line = r"/failed_shares\.json must hold a JSON object .*: `dp-pipeline run people --snapshot N"
    with pytest.raises(Damaged, match=line):
        add_passing_shares(snapshot, names)


def test_level_for_unknown_texts_never_blocks(tmp_path):
    spec = written_spec(tmp_path, "{work: {levels: [paid, none, other], other: other}}")
    verdicts = validate(spec, ingested(tmp_path, {"work": ["paid", "?", None]}))
    assert failed(verdicts) == {"levels__work", "present__work"}
    assert refusal(spec, verdicts) is None


def test_names_are_safe_different_and_described(tmp_path):
    attributes = "{person_id: {bounds: [0, 1], column: 'per cent %'}, x: {levels: [a, b]}}"
    declared = expectations_of(written_spec(tmp_path, attributes, protection=PERSONS))
    assert len(declared) == 12
    assert all(re.fullmatch(r"[A-Za-z0-9_]+", expectation.name) for expectation in declared)
    assert all(expectation.description for expectation in declared)
    columns = ("n", "m", "t", "rider")
    lines = (f"column_values_to_not_be_null, column: {column}" for column in columns)
    for expectations in (declared, expectations_of(expecting(tmp_path, *lines))):
        names = [expectation.name for expectation in expectations]
        assert len(set(names)) == len(names)


def test_an_expectation_that_the_library_drops_is_noticed(spec, tmp_path, monkeypatch):
    suite_of = great_expectations_session.library_suite
    monkeypatch.setattr(
        great_expectations_session,
        "library_suite",
        lambda name, suite: suite_of(name, suite[1:]),
    )
    with pytest.raises(
        PipelineError, match="install the version that this program was tested with"
    ):
        validate(spec, ingested(tmp_path, SOUND))


def test_declaring_expectations_does_not_load_the_library():
    code = (
        "import sys; from dp_pipeline.raw.expectations import expectations_of;"
        "assert not {'great_expectations', 'pandas'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)


def test_a_required_share_is_described_in_a_sentence(tmp_path):
    attributes = "{age: {bounds: [0, 100]}, n: {bounds: [0, 9], bins: 3, nullable: true}}"
    spec = written_spec(tmp_path, attributes, protection=PERSONS, more="usable: 0.975")
    at_least = "that are not missing, at least 97.5 % are"
    expected = {
        "present__age": "At least 97.5 % of the rows have a number in age.",
        "bounds__age": f"Of the values of age {at_least} between 0 and 100.",
        "bounds__n": f"Of the values of n {at_least} a number between 0 and 9.",
        "present_person_id": "At least 97.5 % of the rows have a person id in 'rider'.",
    }.items()
    assert expected <= {each.name: each.description for each in expectations_of(spec)}.items()


def test_another_declaration_or_share_is_another_validation(tmp_path, spec):
    snapshot = ingested(tmp_path, SOUND)
    validate(spec, snapshot)
    require_validated(spec, snapshot)
    wider = written_spec(tmp_path, "{age: {bounds: [0, 120]}}")
    stricter = written_spec(tmp_path, AGE_AND_SEX, more="usable: 0.9")
    assert stricter.digest == spec.digest
    for other in (wider, stricter):
        with pytest.raises(NotPrepared, match="as people is declared now"):
            require_validated(other, snapshot)
    validate(stricter, snapshot)
    require_validated(stricter, snapshot)


def test_library_results_hold_verdicts_and_counts(spec, tmp_path, monkeypatch):
    """Every other format puts values of rows into the result."""
    replies = []
    definition = great_expectations_session.add_frame_source

    class Listening:
        def __init__(self, context, name):
            self.inside = definition(context, name)

        def get_batch(self, **options):
            self.inside = self.inside.get_batch(**options)
            return self

        def validate(self, *arguments, **options):
            replies.append(self.inside.validate(*arguments, **options))
            return replies[-1]

    monkeypatch.setattr(great_expectations_session, "add_frame_source", Listening)
    validate(spec, ingested(tmp_path, {"age": ["8675309"], "sex": ["Xanthippe"]}))
    assert [len(reply.results) for reply in replies] == [4, 5]
    for reply in replies:
        for value in (value for result in reply.results for value in result.result.values()):
            assert value is None or value == [] or isinstance(value, float | int)
        assert not any(secret in str(reply) + str(reply.results) for secret in SECRETS)


ADULTS = "{age: {bounds: [0, 80], bins: 4}, state: {levels: [single, married]}}"
NEVER = 'constraints: {never: {age: "[0, 20)", state: married}}'
COUPLES = {"age": ["5", "30", "19", "60"], "state": ["single", "married", "married", "single"]}


def test_broken_constraint_fails_its_expectation(tmp_path):
    spec = written_spec(tmp_path, ADULTS, more=NEVER)
    verdicts = validate(spec, ingested(tmp_path, COUPLES))
    (broken,) = [verdict for verdict in verdicts if not verdict.passed]
    assert broken.expectation.name == "keeps_constraint_1"
    assert broken.expectation.description == (
        "Every row keeps the constraint: never age [0, 20) with state married."
    )
    assert refusal(spec, verdicts) is not None
    # A value without a cell breaks no constraint.
    rows = {"age": ["5", "x", ""], "state": ["odd", "married", "married"]}
    assert "keeps_constraint_1" not in failed(validate(spec, ingested(tmp_path, rows, "cells")))
    shared = written_spec(tmp_path, ADULTS, more=f"{NEVER}\nusable: 0.75")
    assert not failed(validate(shared, ingested(tmp_path, COUPLES, "other")))


def test_a_library_that_would_end_the_process_is_one_line(monkeypatch, tmp_path):
    # PySpark without Spark Connect does, when Great Expectations looks for it.
    folder = tmp_path / "great_expectations"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise SystemExit(0)")
    loaded = [name for name in sys.modules if name.partition(".")[0] == "great_expectations"]
    for name in loaded:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(PipelineError, match=r"pip install 'pyspark\[connect\]'"):
        great_expectations_session.load_library()
    monkeypatch.delitem(sys.modules, "great_expectations", raising=False)


ATTRIBUTES = """
  n: {bounds: [0, 10]}
  m: {bounds: [0, 10], bins: 2, nullable: true}
  t: {levels: [a, bb, "2020", "[1]"], nullable: true, column: word, aliases: {B: bb}}
"""
NINE_ROWS = "{unit: rows_of_person, column: rider, at_most: 9}"
DECLARED_ROWS: dict[str, list[Any]] = {
    "n": ["1", "2.5", "9"],
    "m": ["1", "", "10"],
    "word": [" a ", "B", "2020"],
    "rider": ["p1", " p2", "p3"],
}


def expecting(folder: Path, *lines: str, purpose: str = "benchmark") -> DatasetSpec:
    section = "expectations:\n" + "".join(f"  - {{type: expect_{line}}}\n" for line in lines)
    return written_spec(folder, ATTRIBUTES, protection=NINE_ROWS, purpose=purpose, more=section)


_PAIR = "column_A: n, column_B: m, ignore_row_if: either_value_is_missing"
_YEARS = "column_values_to_match_strftime_format, column: t, strftime_format: '%Y'"
_LISTS = "column_values_to_match_regex_list, column: t"

HELD_AND_BROKEN = [
    ("column_values_to_be_between, column: n, max_value: {}", "9", "8"),
    ("column_values_to_be_between, column: n, max_value: 9, strict_max: {}", "false", "true"),
    ("column_values_to_be_in_set, column: n, value_set: {}", "[1, 2.5, 9]", "[1, 9]"),
    ("column_values_to_be_in_set, column: t, value_set: {}", "[a, bb, '2020']", "[a, B]"),
    ("column_values_to_not_be_in_set, column: t, value_set: {}", "[B, x]", "[bb]"),
    ("column_values_to_be_null, column: m, mostly: {}", "0.3", "0.4"),
    ("column_values_to_not_be_null, column: m, mostly: {}", "0.6", "0.7"),
    ("column_value_lengths_to_be_between, column: t, max_value: {}", "4", "3"),
    ("column_value_lengths_to_equal, column: rider, value: {}", "2", "3"),
    ("column_values_to_match_regex, column: rider, regex: {}", "'^p[0-9]$'", "'^p[0-2]$'"),
    ("column_values_to_not_match_regex, column: rider, regex: {}", "'^ '", "'3$'"),
    (f"{_LISTS}, regex_list: {{}}", "[a, b, '^2']", "[a, b]"),
    (f"{_LISTS}, regex_list: [a, b, 2], match_on: {{}}", "any", "all"),
    ("column_values_to_not_match_regex_list, column: t, regex_list: {}", "[x, y]", "[x, a]"),
    (f"{_YEARS}, mostly: {{}}", "0.3", "0.4"),
    ("column_values_to_be_dateutil_parseable, column: t, mostly: {}", "0.3", "0.9"),
    ("column_values_to_be_json_parseable, column: t, mostly: {}", "0.3", "0.4"),
    (
        f"column_pair_values_a_to_be_greater_than_b, {_PAIR}, mostly: 0.5, or_equal: {{}}",
        *("true", "false"),
    ),
    (f"column_pair_values_to_be_equal, {_PAIR}, mostly: {{}}", "0.5", "0.6"),
]
"""An expectation with a gap, what makes it hold of DECLARED_ROWS, and what does not."""


def cases(which: int) -> list[str]:
    """The expectations that hold (1) or do not (2)."""
    filled = enumerate(case[0].format(case[which]) for case in HELD_AND_BROKEN)
    return [f"{line}, name: case_{index}" for index, line in filled]


def test_library_knows_each_type_and_its_arguments():
    assert {f"expect_{line.partition(',')[0]}" for line, _, _ in HELD_AND_BROKEN} == set(TYPES)
    kinds = load_library().expectations
    for name, type_ in TYPES.items():
        kind = getattr(kinds, "".join(map(str.capitalize, name.split("_"))))
        assert set(type_.model_fields) - {"type", "name"} <= set(kind.__fields__), name
        parents = {parent.__name__ for parent in kind.__mro__}
        assert parents & {"ColumnMapExpectation", "ColumnPairMapExpectation"}, name


@pytest.mark.chain
def test_each_expectation_is_fulfilled_or_not_as_the_rows_are(tmp_path):
    assert (
        failed(validate(expecting(tmp_path, *cases(1)), ingested(tmp_path, DECLARED_ROWS))) == set()
    )
    spec = expecting(tmp_path, *cases(2))
    names = {each.name for each in expectations_of(spec) if each.name.startswith("expect_")}
    assert failed(validate(spec, ingested(tmp_path, DECLARED_ROWS, "again"))) == names
    assert len(names) == len(HELD_AND_BROKEN)
    assert all(re.fullmatch(r"expect_[a-z0-9_]+", name) for name in names)


def test_what_fails_stops_public_rows_unless_it_is_a_warning(tmp_path):
    line = "column_values_to_match_regex, column: rider, regex: q"
    spec = expecting(tmp_path, line, f"{line}, severity: warning, name: mild")
    verdicts = validate(spec, ingested(tmp_path, DECLARED_ROWS))
    name = "expect_column_values_to_match_regex_person_id"
    assert failed(verdicts) == {name, f"{name}__mild"}
    words = refusal(spec, verdicts)
    assert name in words
    assert "mild" not in words


def test_no_rows_fulfil_every_expectation_of_single_rows(tmp_path):
    spec = expecting(tmp_path, *cases(2), purpose="release")
    empty = pa.table({name: pa.array([], pa.string()) for name in DECLARED_ROWS})
    assert failed(validate(spec, ingested(tmp_path, empty))) == {"has_rows"}


SECRETS = ("8675309", "Xanthippe")
SECRET_ROWS = {"age": [SECRETS[0], "5"], "sex": [SECRETS[1], "f"]}


@pytest.fixture
def documented(tmp_path):
    line = "{type: expect_column_values_to_match_regex, column: sex, regex: '^[fm]$', mostly: 0.9}"
    return written_spec(
        tmp_path,
        "{age: {bounds: [0, 100]}, sex: {levels: [f, m]}}",
        purpose="release",
        more=f"usable: 0.75\nexpectations: [{line}]",
    )


def test_suite_and_pages_hold_no_row(documented, tmp_path, monkeypatch):
    def refused(*_):
        raise AssertionError("nobody is asked over the network")

    monkeypatch.setattr(socket.socket, "connect", refused)
    snapshot = ingested(tmp_path, SECRET_ROWS)
    before = snapshot.manifest
    mask = os.umask(0)
    try:
        folder = write_data_docs(documented, snapshot)
    finally:
        os.umask(mask)
    assert folder == snapshot.folder / FOLDER
    assert (folder / INDEX).is_file()
    assert snapshot.manifest == before, "this validates nothing"
    suite = json.loads((folder / "people_rows.json").read_text())
    expectations = suite["expectations"]
    assert "expect_column_values_to_match_regex" in {each["type"] for each in expectations}
    assert {each["severity"] for each in expectations} == {"warning"}
    assert {each["kwargs"].get("mostly") for each in expectations} == {None, 0.75, 0.9}
    pages = list(folder.rglob("*.html"))
    assert len(pages) == 5, "an index, two suites and what came of each"
    for path in [folder, *folder.rglob("*")]:
        expected = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == expected, path
        if path.is_file():
            assert not any(secret.encode() in path.read_bytes() for secret in SECRETS), path
    for page in pages:
        text = page.read_text()
        assert text.index("Content-Security-Policy") < text.index("https://"), page
        assert '<html lang="en">' in text, page
    # No row is read under another schema.
    folder = write_data_docs(documented, ingested(tmp_path, {"age": ["1"]}, "other"))
    assert (folder / "people_schema.json").is_file()
    assert not (folder / "people_rows.json").exists()


@pytest.mark.chain
def test_they_are_written_anew_and_go_with_the_rows(documented, tmp_path):
    snapshot = ingested(tmp_path, SECRET_ROWS)
    folder = write_data_docs(documented, snapshot)
    (folder / "old").touch()
    assert write_data_docs(documented, snapshot) == folder
    assert not (folder / "old").exists()
    names = {path.name for path in snapshot.folder.iterdir()}
    assert names == {"manifest.json", "ingested.parquet", FOLDER}
    retire(snapshot, population=documented.population, on=date(2026, 1, 1))
    assert [path.name for path in snapshot.folder.iterdir()] == ["manifest.json"]
    with pytest.raises(NotPrepared):
        write_data_docs(documented, snapshot)
    assert [path.name for path in snapshot.folder.iterdir()] == ["manifest.json"]
