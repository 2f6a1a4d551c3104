"""The digest changes with every declaration that changes a measurement, and with no other."""

import pytest

from dp_pipeline.config.parser import load_spec
from dp_pipeline_tests.config.declarations import FIELDS, declaration, loaded, written

EVALUATION = "evaluation: {epsilon: 0.01}"
TARGETS = "targets: {colour: {positive: [red]}}"
CLOSED = "blue, nullable: false}"
EXPECTATION = "{type: expect_column_values_to_match_regex, column: colour, regex: r}"
ROOM = "ceiling: {total: 9}"
MISSING = ("['?', '-']", "['-', '?', '-']")

MEASURED = [
    *(("[0, 8]", more) for more in ("[0, 9]", "[0, 8], on_invalid: drop", "[0, 8], column: lon")),
    *(("bins: 4", more) for more in ("bins: 5", "edges: [30]")),
    ("bins: 4, nullable: false", "bins: 4, nullable: true"),
    *(("green", "grey"), ("red, green", "green, red"), ("other: blue", "other: red")),
    (CLOSED, "blue, nullable: false, aliases: {rot: red}}"),
    *((CLOSED, more) for more in ("blue}", "blue, missing: ['?']}", "blue, missing: ['?', '-']}")),
    (CLOSED, f"{CLOSED}\n  odd: {{levels: [a, b]}}"),
    *(("at_most: 3", "at_most: 4"), ("column: person", "column: rider")),
]
"""Text of the declaration → another text."""

MEASURED_FIELDS = [
    {"protection": "protection: {unit: one_row}"},
    {"relation": "relation: replace_one"},
    {"label": "label: colour", "evaluation": EVALUATION},
    {"evaluation": EVALUATION, "ceiling": ROOM, "targets": TARGETS},
    {"delta": "delta: 1e-9"},
    {"delta": "delta: 1e-8"},
]
NOT_MEASURED = [
    {"title": "title: Others", "description": "description: Others."},
    {"partitions": "partitions: [0.1, 0.5, 1]", "ceiling": ROOM},
    {"models": "models: {eug_kmeans: {k: 3}}"},
    {"publish": "publish: {model: independent, epsilon: 1}", "refresh": "refresh: weekly"},
    {"evaluation": EVALUATION},
    {"label": "label: colour"},
    {"targets": TARGETS},
    {"one_hot": "one_hot: true", "point": "point: [x, age]"},
    {"source": "source: {kind: csv, path: moved.csv}"},
    {"attributes": FIELDS["attributes"].replace("bins: 4", "bins: 4, integer: true")},
    {"ceiling": "ceiling: {total: 9, per_month: 2}"},
    {"updates": "updates: public", "owners": "owners: ['team:privacy']"},
    {"usable": "usable: 0.9"},
    {"expectations": f"expectations: [{EXPECTATION}]"},
]


def test_every_change_of_a_measurement_has_its_own_digest(tmp_path):
    texts = [declaration().replace(*change) for change in MEASURED]
    texts += [declaration(**fields) for fields in MEASURED_FIELDS]
    digests = [load_spec(written(tmp_path, text)).digest for text in (declaration(), *texts)]
    assert len(set(digests)) == len(digests)


@pytest.mark.parametrize("fields", NOT_MEASURED, ids=" ".join)
def test_no_other_declaration_changes_the_digest(fields, tmp_path):
    changed = loaded(tmp_path, **fields)
    assert changed != loaded(tmp_path)
    assert changed.digest == loaded(tmp_path).digest


def test_the_digest_has_its_spelling_from_the_value(tmp_path):
    texts = [declaration().replace(CLOSED, f"blue, missing: {words}}}") for words in MISSING]
    assert len({load_spec(written(tmp_path, text)).digest for text in texts}) == 1
    deltas = ("delta: 0.000000001", "delta: 1e-9")
    assert len({loaded(tmp_path, delta=delta).digest for delta in deltas}) == 1


def test_a_k_anonymous_release_changes_no_digest_and_no_cost(tmp_path):
    fields = {"protection": "protection: {unit: one_row}", "label": "label: colour"}
    section = "k_anonymity: {methods: {kjig: }, diversity: 2}"
    plain = loaded(tmp_path, **fields)
    more = loaded(tmp_path, **fields, allow="allow_not_dp: true", k_anonymity=section)
    assert (plain.digest, plain.cost_of_everything) == (more.digest, more.cost_of_everything)


def test_checks_on_rows_have_a_digest_of_their_own(tmp_path):
    expecting = {"expectations": f"expectations: [{EXPECTATION}]"}
    fields = [{}, {"usable": "usable: 1"}, {"usable": "usable: 0.9"}, expecting]
    plain, same, *others = (loaded(tmp_path, **each).checks_digest for each in fields)
    assert plain == same == ""
    assert len({plain, *others}) == 3
