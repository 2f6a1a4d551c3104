"""A data set file becomes a DatasetSpec, or one line that says where it is wrong."""

import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dp_pipeline.config.amounts import PURE, Currency
from dp_pipeline.config.domain import Protection
from dp_pipeline.config.errors import DeclarationError, UnknownFormat
from dp_pipeline.config.formats import require_format
from dp_pipeline.config.parser import load_spec
from dp_pipeline.config.sections import (
    PARTITIONS,
    DeclaredExpectation,
    KAnonymity,
    Publication,
    Target,
    parse_k,
)
from dp_pipeline.config.source import Source
from dp_pipeline_tests.config.declarations import FIELDS, declaration, loaded, written


def complaint(path: Path) -> str:
    """The message with which a file is refused; always one line that begins with the path."""
    with pytest.raises(DeclarationError) as refused:
        load_spec(path)
    message = str(refused.value)
    assert len(message.splitlines()) == 1
    assert message.startswith(str(path))
    text = message.removeprefix(str(path))
    # The file has the name of the data set, which a command to copy may have too.
    assert not re.search(rf"\b{path.stem}\b", re.sub("`.+?`", "", text))
    return text


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
def test_what_is_no_declaration_is_refused_in_one_line(name, tmp_path):
    assert len(complaint(written(tmp_path, NO_DECLARATIONS[name]))) < 320
    assert "No such file or directory: `dp-pipeline data init" in complaint(tmp_path / "not.yaml")


def fine_or_refused(path: Path) -> None:
    """Load, or refuse in one line; nothing else may be raised."""
    try:
        load_spec(path)
    except DeclarationError as refused:
        assert len(str(refused).splitlines()) == 1
        assert str(path) in str(refused)


fuzz = settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@fuzz
@given(text=st.text(max_size=60) | st.binary(max_size=60))
def test_any_content_is_a_declaration_or_refused_in_one_line(text, tmp_path):
    raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    fine_or_refused(written(tmp_path, raw))


@fuzz
@given(
    field=st.sampled_from(sorted(FIELDS)), value=st.text("ab01.-e[]{}:,'\"&*?|>\n !#~", max_size=12)
)
def test_any_value_of_a_field_is_accepted_or_refused_in_one_line(field, value, tmp_path):
    fine_or_refused(written(tmp_path, declaration(**{field: f"{field}: {value}"})))


def test_every_field_is_loaded_as_declared(tmp_path):
    more = """title: Toy people
one_hot: true
nominal_rows: 10
publish: {model: independent, epsilon: 0.50}
evaluation: {epsilon: 0.25}
distinct_population: other town
label: colour
point: [x, age]
refresh: weekly
updates: public
owners: [ana@example.org, 'team:privacy']"""
    spec = loaded(tmp_path, ceiling="ceiling: {total: 4, per_month: 1.5}", more=more)
    assert (spec.name, spec.title, spec.population) == ("toy", "Toy people", "people")
    assert spec.protection == Protection("person", 3)
    assert (spec.relation, spec.distance, spec.purpose) == ("add_remove", 3, "release")
    assert spec.source == Source("csv", str(tmp_path / "toy.csv"))
    assert spec.columns == ("x", "age", "colour", "person")
    assert spec.partition_keys == ("0.5", "1")
    assert spec.models == {"dpqt_kmeans": {"k": "2"}, "independent": {}}
    assert spec.publish == Publication(model="independent", epsilon="0.5")
    assert spec.charge_for(Fraction(1)) == Fraction(5, 4)
    assert spec.cost_of_everything == 2 * (Fraction(1, 2) + 1 + Fraction(1, 2))
    assert (spec.ceiling, spec.one_hot, spec.nominal_rows) == (4, True, 10)
    assert (spec.distinct_population, spec.label) == ("other town", "colour")
    assert (spec.point, spec.per_month, spec.refresh) == (("x", "age"), Fraction("1.5"), "weekly")
    assert (spec.updates_public, spec.owners) == (True, ("ana@example.org", "team:privacy"))


def test_absent_fields_have_their_defaults(tmp_path):
    protection = "protection: {unit: one_row}"
    spec = loaded(tmp_path, purpose="purpose: benchmark", ceiling=None, protection=protection)
    assert (spec.title, spec.relation, spec.protection) == ("toy", "add_remove", Protection())
    absent = "ceiling nominal_rows publish evaluation distinct_population label per_month refresh"
    assert {getattr(spec, name) for name in (*absent.split(), "point", "delta")} == {None}
    assert (spec.one_hot, spec.updates_public, spec.owners) == (False, False, ())
    assert spec.currency == PURE
    assert spec.columns == ("x", "age", "colour")


@pytest.mark.parametrize("purpose", ["release", "benchmark"])
def test_only_public_changes_and_public_rows_may_be_watched(purpose, tmp_path):
    spec = loaded(tmp_path, purpose=f"purpose: {purpose}")
    assert spec.may_watch_source == (purpose == "benchmark")
    assert loaded(tmp_path, updates="updates: public").may_watch_source


def test_dagster_takes_a_declared_owner(tmp_path):
    import dagster as dg

    owners = "owners: ['a.b+c@data.example.org', 'team:people-and-places', 'x@y.zz']"
    dg.AssetSpec("toy", owners=loaded(tmp_path, owners=owners).owners)


def test_a_file_with_a_delta_pays_in_rho(tmp_path):
    delta, small = "delta: 0.000000001", "ceiling: {total: 2}"
    spec = loaded(tmp_path, delta=delta)
    assert spec.currency == Currency(Fraction(1, 10**9))
    rho = spec.currency.amount_of(Fraction(1))
    assert spec.charge_for(rho) == rho
    bought = loaded(tmp_path, delta=delta, evaluation="evaluation: {epsilon: 0.5}")
    assert bought.charge_for(rho) == rho + Fraction(1, 8)
    # The price of all models in pure ε is no price in ρ, and may be all of a ceiling.
    assert loaded(tmp_path, ceiling=small, delta=delta).ceiling == 2
    assert loaded(tmp_path, ceiling="ceiling: {total: 3}").cost_of_everything == 3


def test_values_of_yaml_stay_the_texts_that_were_written(tmp_path):
    texts = ("yes", "no", "0.10", "null", "0x1", "2024-01-01", "~", "True")
    attributes = f"""attributes:
  a: {{levels: [{", ".join(texts)}]}}
  b: {{levels: 8..11, other: 9}}
  job: {{levels: [paid, none], nullable: true, missing: ["?", " -", "?"], aliases: {{Paid: paid}}}}
  age: {{bounds: [0, 9], bins: 3, nullable: true, integer: true}}
  x: {{bounds: [0, 9], nullable: false, integer: false}}
  state: {{levels: [TODO, doing], other: TODO, nullable: false, aliases: {{open: TODO}}}}"""
    a, b, job, age, x, state = loaded(tmp_path, attributes=attributes).domain
    assert state.labels() == ("TODO", "doing")
    assert (a.cells.labels(), b.cells.labels()) == (texts, ("8", "9", "10", "11"))
    assert b.other == "9"
    assert (job.nullable, job.missing, job.aliases) == (True, ("-", "?"), (("Paid", "paid"),))
    assert (age.nullable, age.is_integer, age.missing) == (True, True, ())
    assert (x.nullable, x.is_integer, x.missing, x.aliases) == (False, False, (), ())


@pytest.mark.parametrize(
    ("default", "attribute", "rule"),
    [
        ("clip", "{bounds: [0, 1]}", "clip"),
        ("drop", "{bounds: [0, 1]}", "drop"),
        ("drop", "{bounds: [0, 1], on_invalid: clip}", "clip"),
        ("clip", "{levels: [a, b]}", "keep"),
        ("keep", "{levels: [a, b], nullable: false}", "drop"),
        ("keep", "{levels: [a, missing]}", "other"),
        ("keep", "{bounds: [0, 1]}", "clip"),
        ("keep", "{bounds: [0, 1], bins: 2}", "keep"),
        ("keep", "{bounds: [0, 1], bins: 2, nullable: false}", "clip"),
        ("keep", "{bounds: [0, 1], bins: 2, on_invalid: clip}", "clip"),
        ("clip", "{levels: [a, b], other: a}", "other"),
        ("drop", "{levels: [a, b], other: a}", "drop"),
        ("drop", "{levels: [a, b], other: a, on_invalid: other}", "other"),
    ],
)
def test_an_attribute_follows_its_own_rule_or_the_data_sets(default, attribute, rule, tmp_path):
    fields = {"attributes": f"attributes: {{a: {attribute}}}", "models": "models: {independent: }"}
    spec = loaded(tmp_path, on_invalid=f"on_invalid: {default}", **fields)
    assert spec.domain["a"].on_invalid == rule


def test_a_path_starts_at_its_file_or_the_data_folder(tmp_path, monkeypatch):
    path = "$DP_PIPELINE_DATA/deep/toy.parquet"
    block = f"source: {{kind: parquet, path: {path}}}"
    several = "source: {kind: csv, paths: [a.csv, $DP_PIPELINE_DATA/b.csv], comment: '#'}"
    monkeypatch.delenv("DP_PIPELINE_DATA", raising=False)
    without = loaded(tmp_path, source=block).source
    assert (without.location, without.needs) == (path, "DP_PIPELINE_DATA")
    assert loaded(tmp_path, source=several).source.needs == "DP_PIPELINE_DATA"
    monkeypatch.setenv("DP_PIPELINE_DATA", str(tmp_path / "data"))
    within = loaded(tmp_path, source=block).source
    assert within.location == str(tmp_path / "data/deep/toy.parquet")
    # Several files are one source with a name each.
    source = loaded(tmp_path, source=several).source
    files = (str(tmp_path / "a.csv"), str(tmp_path / "data/b.csv"))
    assert source.locations == files
    assert source.identities == tuple(f"file:{file}" for file in files)
    assert (source.needs, source.comment) == ("DP_PIPELINE_DATA", "#")


def test_only_a_listed_partition_can_be_asked_for(tmp_path):
    spec = loaded(tmp_path)
    assert spec.partition("0.50") == Fraction(1, 2)
    for text in ("0.7", "2", "no", "-0.5"):
        with pytest.raises(DeclarationError, match="toy"):
            spec.partition(text)


@pytest.mark.parametrize("stored", [None, 0, 2, 99, 10**30])
def test_an_unknown_format_is_refused_in_one_line(stored):
    actual = "no format" if stored is None else stored
    with pytest.raises(UnknownFormat) as caught:
        require_format(stored, of="bundle 3f55fba")
    assert str(caught.value) == (
        f"bundle 3f55fba: expected format 1, got {actual}: use the dp_pipeline that wrote it"
    )


@pytest.mark.parametrize("stored", ["1", 1.0, True, -1, [1], {"format": 1}, float("nan")])
def test_only_integers_are_format_numbers(stored):
    require_format(1, of="bundle")
    with pytest.raises(UnknownFormat, match="got another value: put back an unchanged copy"):
        require_format(stored, of="bundle")


@pytest.mark.parametrize("text", ["0", "1.0", "one", "-1", "true", "01"])
def test_an_unknown_format_of_a_file_is_refused_with_its_line(text, tmp_path):
    assert loaded(tmp_path, format="format: 1") == loaded(tmp_path)
    path = written(tmp_path, f"# mine\nformat: {text}\nwhatever: [1]\n{declaration()}")
    # The format is read before the fields.
    with pytest.raises(DeclarationError, match=rf"toy.yaml:2: format: expected 1, got '{text}'"):
        load_spec(path)


ALONE = {"protection": "protection: {unit: one_row}", "label": "label: colour"}
BENCHMARK = {**ALONE, "purpose": "purpose: benchmark"}
MORE = "\n  job: {levels: [a, b]}\n  income: {bounds: [0, 9]}"


def declared(folder: Path, lines: str = "", **changes: str | None) -> KAnonymity:
    section = f"k_anonymity:\n  methods: {{kjig: }}\n  {lines}"
    spec = loaded(folder, **BENCHMARK | {"k_anonymity": section} | changes)
    return spec.k_anonymity


def test_omitted_fields_have_defaults(tmp_path):
    default = KAnonymity(methods={"kjig": {}}, attributes="age", suppress="0", seed="0")
    assert declared(tmp_path) == default
    assert (default.sensitive_label, default.diversity) == (True, None)
    assert default.partitions == PARTITIONS
    plain = loaded(tmp_path)
    assert (plain.k_anonymity, plain.allow_not_dp) == (None, False)
    # All attributes with cells, and of sensitive rows all K above 0.
    assert declared(tmp_path, attributes=FIELDS["attributes"] + MORE).attributes == ("age", "job")
    release = {"purpose": "purpose: release", "allow_not_dp": "allow_not_dp: true"}
    assert declared(tmp_path, **release).partitions == (2, 5, 10, 20, 50)


def test_everything_is_read_in_the_order_of_the_file(tmp_path):
    block = (
        "k_anonymity: {methods: {rfka: {trees: 1000, depth: 3}, kjig: }, attributes: job age, "
        "partitions: [3, 7], sensitive_label: false, diversity: 2, suppress: 0.02, seed: 7}"
    )
    read = declared(tmp_path, attributes=FIELDS["attributes"] + MORE, k_anonymity=block)
    assert list(read.methods.items()) == [("rfka", {"trees": "1000", "depth": "3"}), ("kjig", {})]
    assert (read.attributes, read.partitions) == (("job", "age"), (3, 7))
    assert (read.sensitive_label, read.diversity) == (False, 2)
    assert (read.suppress, read.seed) == (Fraction(1, 50), 7)


@pytest.mark.parametrize("text", ["0", ".5", "0.0", "0.999"])
def test_a_share_to_leave_out_is_exact(text, tmp_path):
    assert declared(tmp_path, f"suppress: {text}").suppress == Fraction(text)


@given(st.integers(0, 10**9 - 1))
def test_a_partition_is_found_by_its_key(k):
    listed = KAnonymity(methods={"kjig": {}}, attributes="age", partitions=[str(k)])
    assert listed.partition_keys == (str(k),)
    assert listed.partition(f" {k} ", of="toy") == parse_k(str(k)) == k


@pytest.mark.parametrize("text", ["", "-1", "2.0", "1e1", "two", "0x5", "٣", "1" * 10])
def test_only_listed_whole_numbers_are_k(text):
    listed = KAnonymity(methods={"kjig": {}}, attributes="age")
    with pytest.raises(DeclarationError, match="K: expected an integer from 0 to 999999999"):
        listed.partition(text, of="toy")
    fault = r"^toy: the K of a table must be one of 0, 2, 5, 10, 20, 50, not 3: list it"
    with pytest.raises(DeclarationError, match=fault):
        listed.partition("3", of="toy")


def test_targets_are_read_in_the_order_of_the_file(tmp_path):
    lines = "targets: {colour: {positive: [green, red], without: [age]}}"
    spec = loaded(tmp_path, targets=lines)
    assert spec.targets == (Target("colour", ("green", "red"), ("age",)),)
    assert spec.targets[0].codes(spec.domain) == (0, 1)
    assert loaded(tmp_path).targets == loaded(tmp_path, targets="targets:").targets == ()
    attributes = "attributes:\n  job: {levels: [a, b], nullable: true}"
    lines = "targets: {job: {positive: [missing]}}"
    spec = loaded(tmp_path, attributes=attributes, targets=lines)
    assert spec.targets[0].codes(spec.domain) == (2,)


def test_a_target_hides_itself_and_what_gives_it_away(tmp_path):
    spec = loaded(tmp_path)
    target = Target("colour", ("red",), without=("age",))
    codes = {"colour": np.array([0, 2]), "age": np.array([1, 3])}
    features, answers = target.classification_task(codes, spec.domain)
    assert features == {}
    assert answers.tolist() == [True, False]
    assert list(Target("colour", ("red",)).classification_task(codes, spec.domain)[0]) == ["age"]
    with pytest.raises(DeclarationError, match="positive levels of target 'colour' must be levels"):
        Target("colour", ("pink",)).codes(spec.domain)


REGEX = "type: expect_column_values_to_match_regex"
BETWEEN = "type: expect_column_values_to_be_between"
PUBLIC = {"purpose": "purpose: benchmark"}


def expecting(*lines: str) -> dict[str, str]:
    return {"expectations": "expectations:\n" + "".join(f"  - {{{line}}}\n" for line in lines)}


def test_arguments_of_an_expectation_have_their_types(tmp_path):
    lines = expecting(
        f"{BETWEEN}, column: age, min_value: 1, strict_max: true, mostly: 0.95, name: grown",
        f'{REGEX}, column: person, regex: "^[a-z]+$"',
        "type: expect_column_values_to_be_in_set, column: x, value_set: [1, 2.5]",
        "type: expect_column_values_to_be_in_set, column: colour, value_set: [1, red]",
    )
    ages, persons, numbers, texts = loaded(tmp_path, **lines).expectations
    between = BETWEEN.removeprefix("type: ")
    arguments, share = {"min_value": 1.0, "strict_max": True}, Fraction(19, 20)
    grown = DeclaredExpectation(between, {"column": "age"}, arguments, mostly=share, name="grown")
    assert ages == grown
    assert persons.arguments == {"regex": "^[a-z]+$"}
    values = [each.arguments["value_set"] for each in (numbers, texts)]
    assert values == [(1.0, 2.5), ("1", "red")]
    assert loaded(tmp_path).expectations == ()


def test_public_rows_may_be_stopped_and_sensitive_ones_never(tmp_path):
    line = f"{BETWEEN}, column: x, min_value: 1"
    warned, stopped = expecting(f"{line}, severity: warning"), expecting(line)
    for lines, more, is_critical in ((stopped, PUBLIC, 1), (warned, PUBLIC, 0), (stopped, {}, 0)):
        assert loaded(tmp_path, **lines, **more).expectations[0].is_critical == is_critical
