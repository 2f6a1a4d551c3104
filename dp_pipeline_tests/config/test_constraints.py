"""What a file may say of columns together, which cells that leaves, and what it may not say."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dp_pipeline.config.constraint_parser import constrained_domain, proposed_dependences
from dp_pipeline.config.constraints import Constraint, allowed_cells
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.raw.prepare import rows_as_declared, rows_breaking
from dp_pipeline_tests.config.mistakes import GOOD
from dp_pipeline_tests.raw.written import written_spec

PEOPLE = GOOD["constraints"]["attributes"].removeprefix("attributes:")


def people(folder: Path, words: str) -> DatasetSpec:
    return written_spec(folder, PEOPLE, more=f"constraints: {words}" if words else "")


def forbidden(spec: DatasetSpec) -> set[tuple[str, ...]]:
    """Labels of the cells of the only constraint that there cannot be."""
    (constraint,) = spec.domain.constraints
    labels = [spec.domain[name].labels() for name in constraint.attributes]
    mask = constraint.mask(spec.domain.shape(constraint.attributes))
    return {cell for cell, may in zip(product(*labels), mask.ravel(), strict=True) if not may}


YOUNG, NOT_GRAZ = ("[0, 10)", "[10, 20)"), ("Linz", "Wels", "other")
FORBIDDEN = {
    '{never: {state: [married, widowed], age: "[0, 20)"}}': {
        *product(YOUNG, ("married", "widowed"))
    },
    "{only: [{land: Styria, town: Graz}, {land: Upper}]}": {*product(NOT_GRAZ, ["Styria"])},
    "{depends: {town: {land: {Graz: Styria, Linz: Upper, Wels: Upper}}}}": {
        *(("Graz", "Upper"), ("Linz", "Styria"), ("Wels", "Styria"))
    },
}


@pytest.mark.parametrize("declaration", FORBIDDEN)
def test_a_constraint_forbids_these_cells_and_no_other(declaration, tmp_path):
    assert forbidden(people(tmp_path, declaration)) == FORBIDDEN[declaration]


CELLS = {
    **dict.fromkeys(('age: "[, 20)"', 'age: "[0, 19]"'), YOUNG),
    'age: "[70, ]"': ("[70, 80]",),
    'age: ["[0, 10)", "[70, 80]"]': ("[0, 10)", "[70, 80]"),
    **dict.fromkeys(('height: "[1.5, 2)"', 'height: "[1.5, 2]"'), ("[1.5, 2]",)),
    'born: "[2026-02-01, 2026-02-28]"': ("2026-02",),
    'born: "[2026-02-01, 2026-04-01)"': ("2026-02", "2026-03"),
    "state: missing": ("missing",),
    "town: G": ("Graz",),
}


@pytest.mark.parametrize("words", CELLS)
def test_cells_are_levels_or_intervals_that_end_where_bins_end(words, tmp_path):
    actual = forbidden(people(tmp_path, f"{{never: [{{{words}, land: Upper}}]}}"))
    cells = CELLS[words]
    assert {cell[0] if cell[0] in cells else cell[1] for cell in actual} == set(cells)


def test_a_bin_is_called_by_its_name_or_its_only_integer(tmp_path):
    attributes = "{n: {bounds: [0.5, 3.5], bins: 3, integer: true}, x: {levels: [a, b]}}"
    spec = written_spec(tmp_path, attributes, more="constraints: {never: {n: 2, x: a}}")
    assert forbidden(spec) == {("[1.5, 2.5)", "a")}
    age = "{bounds: [0, 100], edges: [18, 90], names: {95: 90 and over}}"
    attributes = f"{{age: {age}, sex: {{levels: [f, m]}}}}"
    more = "constraints: {never: {age: 90 and over, sex: m}}"
    spec = written_spec(tmp_path, attributes, more=more)
    assert spec.domain["age"].labels() == ("[0, 18)", "[18, 90)", "90 and over")
    assert forbidden(spec) == {("90 and over", "m")}
    assert spec.domain["age"].measured.keys().isdisjoint({"names"})


def test_bins_of_one_column_and_first_letters_need_no_map(tmp_path):
    attributes = (
        "{years: {column: age, bounds: [0, 8], bins: 8}, decade: {column: age, bounds: [0, 8], "
        "bins: 2}, zip: {levels: [A1, A2, B1]}, land: {levels: [A, B]}}"
    )
    more = "derive: {land: {prefix: [zip, 1]}}\nconstraints: {depends: {years: decade, zip: land}}"
    spec = written_spec(tmp_path, attributes, more=more, nullable="true")
    years, land = spec.domain.constraints
    first, second, free = [True, False, False], [False, True, False], [True, True, True]
    assert years.mask((9, 3)).tolist() == [first] * 4 + [second] * 4 + [free]
    assert land.mask((4, 3)).tolist() == [first, first, second, free]


LETTERS = "levels: [A1, A2, B1, C1, other]"
FINE = [
    *(LETTERS, f"{LETTERS}, other: other", f"{LETTERS}, nullable: true, missing: [A9]"),
    f"{LETTERS}, other: other, nullable: true, aliases: {{B9: A1, C2: other}}",
]
COARSE = [
    *("levels: [A, B, C, o]", "levels: [A, B, rest], other: rest"),
    "levels: [A, B, rest], other: rest, nullable: true, missing: [C]",
    "levels: [Alps, B, o, rest], other: rest, aliases: {A: Alps}",
]


@pytest.mark.parametrize("fine", FINE)
@pytest.mark.parametrize("coarse", COARSE)
def test_no_row_breaks_what_first_letters_decide(fine, coarse, tmp_path):
    attributes = f"{{zip: {{{fine}}}, land: {{{coarse}}}}}"
    more = "derive: {land: {prefix: [zip, 1]}}\n"
    plain = written_spec(tmp_path, attributes, more=more)
    spec = written_spec(tmp_path, attributes, more=f"{more}constraints: {{depends: {{zip: land}}}}")
    rows = [*("A1", "A2", "B1", "C1", "other", "A9", "B9", "C2", "D1", "", " A1 "), None]
    table = pa.table({"zip": pa.array(rows, pa.string())})
    rows_kept = rows_as_declared(plain.domain, table)
    assert rows_kept.tolist() == rows_as_declared(spec.domain, table).tolist()
    assert rows_kept[:2].all()
    free = [name for name in ("other", "missing") if f"{name}:" in fine]
    assert not [cell for cell in forbidden(spec) if cell[0] in free]


TIMES = "{type: timestamp, bounds: [2026-10-20, 2026-11-12], every: EVERY, zone: Europe/Zurich}"
DAYS = "{type: date, bounds: [2025-11-15, 2027-02-10], every: month, on_invalid: POLICY}"
PARTS = {
    "hour": (TIMES.replace("EVERY", "hour"), "{levels: 0..23}", "{hour: at}"),
    "weekday": (TIMES.replace("EVERY", "day"), "{levels: 1..7}", "{weekday: at}"),
    "year": (DAYS.replace("POLICY", "keep"), "{levels: [2025, 2026, 2027]}", "{year: at}"),
    "clipped": (DAYS.replace("POLICY", "clip"), "{bounds: [1, 12], bins: 4}", "{month: at}"),
    "product": ("{bounds: [0, 9], bins: 9}", "{bounds: [-9, 0], bins: 4}", "{product: [at, -0.9]}"),
}


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("nullable", ["true", "false"])
def test_no_row_breaks_what_its_declaration_implies(name, nullable, tmp_path):
    fine, coarse, function = PARTS[name]
    more = f"derive: {{part: {function}}}\nreading: {{zone: Europe/Zurich}}\n"
    attributes = f"{{at: {fine}, part: {coarse}}}"
    plain = written_spec(tmp_path, attributes, more=more, nullable=nullable)
    assert proposed_dependences(plain.domain) == [("at", "part")]
    more += "constraints: {depends: {at: part}}"
    spec = written_spec(tmp_path, attributes, more=more, nullable=nullable)
    hours = np.arange("2025-11-10", "2027-03-01", dtype="datetime64[h]").astype(str)
    rows = [*hours[::5], *(f"{number / 7}" for number in range(90)), "", "odd"]
    table = pa.table({"at": rows})
    assert not rows_breaking(spec.domain.constraints[0], spec.domain, table).any()
    assert forbidden(spec)
    assert proposed_dependences(spec.domain) == []


@pytest.mark.parametrize("zone", ["UTC", "Europe/Zurich"])
def test_a_day_implies_no_hour(zone, tmp_path):
    days = DAYS.replace("POLICY", "keep").replace("month", "day")
    attributes = f"{{at: {days}, part: {{levels: 0..23}}}}"
    more = f"derive: {{part: {{hour: at}}}}\nreading: {{zone: {zone}}}\n"
    assert proposed_dependences(written_spec(tmp_path, attributes, more=more).domain) == []


def test_a_constraint_changes_the_digest_but_not_its_words(tmp_path):
    only = "{only: [{land: Styria}, {land: Upper, town: [Linz, Wels, other]}]}"
    never, listed = (
        "{never: {land: Upper, town: Graz}}",
        "{never: [{town: [G, Graz], land: [Upper]}]}",
    )
    digests = [people(tmp_path, words).digest for words in (never, listed, only, "")]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3


def test_a_mapping_declares_the_same_as_a_file(tmp_path):
    spec = people(tmp_path, '{never: {age: "[0, 20)", state: [married, widowed]}}')
    declaration = {"never": {"age": "[0, 20)", "state": ("married", "widowed")}}
    plain = replace(spec.domain, constraints=())
    assert constrained_domain(declaration, plain) == spec.domain
    with pytest.raises(DeclarationError) as refused:
        constrained_domain({"never": {"age": 3, "state": "married"}}, spec.domain)
    assert str(refused.value).startswith("constraints.never.0.age: expected an interval of age")


ANY = Constraint("", ("a", "b", "c"), (((0,), (0, 1), (1,)),), is_only=False)
SIZES = {"a": 2, "b": 2, "c": 2}


def test_constraints_on_the_same_attributes_are_one_entry():
    more = replace(ANY, boxes=(((1,), (0,), (0,)),))
    (constraint,) = allowed_cells([ANY, more], ("c", "b", "a"), SIZES)
    assert constraint.names == ("a", "b", "c")
    assert np.argwhere(~constraint.mask).tolist() == [[0, 0, 1], [0, 1, 1], [1, 0, 0]]
    # Cells of fewer attributes hold whatever the others are.
    (constraint,) = allowed_cells([ANY], ("a", "c"), SIZES)
    assert np.argwhere(~constraint.mask).tolist() == [[0, 1]]
    for names, sizes in ((("a", "b"), SIZES), (("a",), SIZES), (("a", "c"), SIZES | {"b": 3})):
        assert allowed_cells([ANY], names, sizes) == ()
    only = Constraint("", ("a", "b", "c"), (((0,), (0,), (0,)), ((1,), (1,), (0,))), is_only=True)
    (constraint,) = allowed_cells([only], ("a", "b"), {"a": 2, "b": 3, "c": 2})
    assert constraint.mask.tolist() == [[True, False, False], [False, True, False]]
