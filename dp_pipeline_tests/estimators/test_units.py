"""Frames of units and their parts are fitted as files are, and come out as two with keys."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.source import Source
from dp_pipeline.estimators.rows import prepare_rows
from dp_pipeline.estimators.tables import DeclaredRows
from dp_pipeline.raw.prepare import normalize
from dp_pipeline.raw.sources import read_source
from dp_pipeline.raw.units import join_parts, unit_keys
from dp_pipeline_tests.estimators.households import copier, refusal

DOMAIN: dict[str, Any] = {
    "homes": {"region": ["north", "south"]},
    "persons": {"age": {"bounds": [0, 90], "edges": [30, 60], "integer": True}, "sex": ["f", "m"]},
}
DATED = {
    "persons": {**DOMAIN["persons"], "day": {"bounds": ["2026-01-01", "2026-01-09"], "bins": 2}}
}
KEY = b"k" * 32


def frame(rows: list[tuple[Any, ...]], *columns: str) -> pd.DataFrame:
    # The type of a cell is part of its digest: a file holds texts.
    return pd.DataFrame(rows, columns=["home", *columns]).astype(str)


ids, regions = st.sampled_from([7, 2**53, 2**53 + 1]), st.sampled_from(["north", "south", "?"])
days = st.sampled_from(["2026-01-01", "2026-01-05", "2026-01-08", "?"])
person = st.integers(-5, 99), st.sampled_from("fm?"), days
homes = st.lists(st.tuples(ids, regions), max_size=5, min_size=1)
persons = st.lists(st.tuples(ids, *person), max_size=6, min_size=1)
two_frames = st.tuples(homes, persons).map(
    lambda rows: {"homes": frame(rows[0], "region"), "persons": frame(rows[1], "age", "sex", "day")}
)
flat_rows = st.lists(st.tuples(ids, regions, *person), max_size=8, min_size=1)
one_frame = flat_rows.map(lambda rows: frame(rows, "region", "age", "sex", "day"))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return tmp_path_factory.mktemp("files")


@given(st.one_of(two_frames, one_frame), st.sampled_from([None, "age", "day"]))
def test_frames_give_the_codes_of_files(files: Any, X: Any, order: str | None) -> None:
    rows = DeclaredRows.of_units(X, DOMAIN | DATED, "home", 3, order)
    sources = []
    for name, of_file in (X if isinstance(X, dict) else {"rows": X}).items():
        of_file.to_csv(files / f"{name}.csv", index=False)
        sources.append(Source("csv", str(files / f"{name}.csv")))
    source = replace(sources[0], parts=sources[1]) if isinstance(X, dict) else sources[0]
    spec = DatasetSpec.of_domain(
        "homes", rows.domain, protection=rows.protection, purpose="release", source=source
    )
    table = read_source(spec)
    table = join_parts(table, unit_keys(spec, KEY)).table if isinstance(X, dict) else table
    stored = normalize(spec, table, KEY).to_pylist()
    codes = prepare_rows(replace(spec, source=Source("csv", "")), rows.to_arrow(), KEY).codes
    fitted = pa.table({name: pa.array(column) for name, column in codes.items()}).to_pylist()
    assert sorted(fitted, key=repr) == sorted(stored, key=repr)


def town(kind: str = "pandas") -> dict[str, Any]:
    rng = np.random.default_rng(0)
    units = [(home, "north" if home % 3 else "south") for home in range(900)]
    parts = [(home, rng.integers(90), "fm"[i % 2]) for home, _ in units for i in range(home % 3)]
    homes = pd.DataFrame(units, columns=["home", "region"])
    both = {"homes": homes, "persons": pd.DataFrame(parts, columns=["home", "age", "sex"])}
    return both if kind == "pandas" else {name: pa.table(rows) for name, rows in both.items()}


def flat_town() -> pd.DataFrame:
    both = town()
    return both["persons"].merge(both["homes"], on="home")


synthesizer = partial(copier, domain=DOMAIN, epsilon=4, noise="seeded:1", on_unknown="keep")


@pytest.mark.parametrize("kind", ["pandas", "arrow"])
@pytest.mark.parametrize("is_flat", [False, True])
def test_synthetic_frames_refer_to_each_other_by_key(kind: str, is_flat: bool) -> None:
    X: Any = town(kind)
    if is_flat:
        X = flat_town() if kind == "pandas" else pa.table(flat_town())
    fitted = synthesizer(constraints={"never": [{"size": "1", "age": "[0, 30)"}]}).fit(
        X, person="home", at_most=3
    )
    both = fitted.sample()
    if kind == "arrow":
        both = {name: table.to_pandas() for name, table in both.items()}
    units, parts = both["homes"], both["persons"]
    assert [*units] == ["home", "region"] and [*parts] == ["home", "age", "sex"]
    assert units["home"].is_unique and {*parts["home"]} <= {*units["home"]}
    sizes = parts.groupby("home").size().reindex(units["home"], fill_value=0)
    assert (sizes == 0).mean() == (0 if is_flat else pytest.approx(0.4, abs=0.1))
    alone = parts[parts["home"].map(sizes) == 1]
    assert (alone["age"].dropna() >= 30).all()
    assert len(fitted.sample(20, random_state=1)["homes"]) <= 20
    assert str(fitted).startswith("PrivateSynthesizer by one_shot, fitted: ε=4, protects one unit")


def test_parts_in_order_follow_each_other() -> None:
    """Riders go there and back by turns, in rows of random order."""
    hours = np.tile(np.arange(6), 300)
    rides = pd.DataFrame({"rider": np.repeat(np.arange(300), 6), "hour": hours})
    rides["way"], rides["city"] = np.where(hours % 2, "back", "there"), "Graz"
    columns = {"hour": {"bounds": [0, 6], "bins": 6}, "way": ["there", "back"]}
    domain = {"riders": {"city": ["Graz", "Linz"]}, "rides": columns}
    turns = []
    for order in ("hour", None):
        fitted = synthesizer(domain=domain, epsilon=9).fit(
            rides.sample(frac=1, random_state=1), person="rider", at_most=6, order=order
        )
        synthetic = fitted.sample()["rides"]
        is_same_rider = synthetic["rider"].diff().iloc[1:] == 0
        is_turn = synthetic["way"].to_numpy()[1:] != synthetic["way"].to_numpy()[:-1]
        turns.append(is_turn[is_same_rider].mean())
    assert turns[0] > 0.75 and turns[1] < 0.7


@pytest.mark.parametrize("is_flat", [False, True])
def test_a_fit_answers_about_units_and_about_parts(is_flat: bool) -> None:
    rows = flat_town()
    fitted = synthesizer(epsilon=50).fit(rows if is_flat else town(), person="home", at_most=3)
    has_young = rows[rows["age"] < 30]["home"].nunique()
    assert fitted.count().value == pytest.approx(600 if is_flat else 900, rel=0.03)
    assert fitted.count("size == 2").value == pytest.approx(300, rel=0.03)
    young = fitted.count(any_part="age < 30")
    assert young.low <= has_young <= young.high
    assert fitted.parts.count("sex == 'm'").value == pytest.approx(300, rel=0.03)
    mean = fitted.parts.mean("age")
    assert mean.low <= rows["age"].mean() <= mean.high
    assert [*fitted.table("region")["count"].round(-2)] == [600, 0 if is_flat else 300, 0]


@pytest.mark.parametrize("is_flat", [False, True])
def test_a_report_is_of_units_of_parts_and_of_pairs(is_flat: bool) -> None:
    fitted = synthesizer().fit(flat_town() if is_flat else town(), person="home", at_most=3)
    homes, persons = fitted.sample().values()
    both = persons.merge(homes, on="home") if is_flat else {"homes": homes, "persons": persons}
    report = fitted.quality_report(both)
    assert [table.distance for table in report.compared] == [0.0] * len(report.compared)
    assert {table.name for table in report.pairs_of_parts} == {"age × age", "sex × sex"}
    assert report.left_out == 0 and "two parts of one unit" in repr(report)
    measured = fitted.quality_report().measured
    assert measured == report.measured and {"region", "age × age"} <= {t.name for t in measured}
    assert all(table.distance < 0.05 for table in measured)
    few = persons.assign(sex="f")
    changed = few.merge(homes, on="home") if is_flat else {"homes": homes, "persons": few}
    assert 0.4 < fitted.quality_report(changed).pairs_of_parts[0].distance <= 1


@pytest.mark.parametrize("X", [flat_town(), town()], ids=["flat", "two"])
def test_a_rehearsal_draws_units_of_every_size(X: Any) -> None:
    rehearsed = synthesizer().fit(X, person="home", at_most=3, rehearse=True)
    assert "a rehearsal of ε=4" in str(rehearsed)
    counts = [rehearsed.count(f"size == {size}").value for size in (1, 2, 3)]
    assert all(count > 80 for count in counts)
    assert rehearsed.share("region == 'north'").value == pytest.approx(0.5, abs=0.1)


KNOWN = {"sex": {"levels": ["f", "m"], "nullable": False}}
MISTAKES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "no key": ({}, {"person": None}, "person: expected the column that names the unit"),
    "another key": ({}, {"person": "age"}, "the frame of homes has no column 'age'"),
    "no bound": ({}, {"at_most": None}, "at_most: expected an integer in 2..32"),
    "other names": ({"domain": {"homes": {}}}, {}, "domain: expected the columns of the frames"),
    "never missing": ({"domain": DOMAIN | {"persons": KNOWN}}, {}, "'sex': .* that may be missing"),
    "in both": ({"domain": DOMAIN | {"persons": {"region": 2}}}, {}, "region in both"),
    "the key": ({"domain": DOMAIN | {"persons": {"home": 2}}}, {}, "another column than the key"),
    "to discover": ({"domain": DOMAIN | {"persons": {"age": "discover"}}}, {}, "got discover"),
    "the size": ({"domain": DOMAIN | {"homes": {"size": 3}}}, {}, "'size': expected another name"),
    "a level as order": ({}, {"order": "sex"}, "order: expected a number or a date of a part: age"),
    "another model": ({"method": "independent"}, {}, "independent: the protected units have parts"),
    "public rows": ({}, {"prior": []}, "prior: this argument is for one table"),
    "errors": ({"on_unknown": "error"}, {}, "on_unknown: this argument is for one table"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_wrong_declaration_of_units_is_one_line(name: str) -> None:
    parameters, arguments, message = MISTAKES[name]
    both = town()
    both["persons"]["region"] = both["homes"]["size"] = 0
    with refusal(match=message):
        synthesizer(**parameters).fit(both, **{"person": "home", "at_most": 3, **arguments})
    with refusal(match="X: expected the frames homes and persons by name"):
        synthesizer().fit({"homes": both["homes"]}, person="home", at_most=3)


def test_a_key_of_floats_is_refused() -> None:
    both = town()
    both["persons"]["home"] = both["persons"]["home"].astype(float)
    with refusal(match="round two persons to one"):
        synthesizer().fit(both, person="home", at_most=3)


def test_what_is_of_one_table_or_of_units_alone_says_so() -> None:
    of_units = synthesizer().fit(town(), person="home", at_most=3)
    with refusal(match="marginal: the shares are of rows of one table"):
        of_units.marginal("age")
    with refusal(match="label: classifiers learn from rows of one table"):
        of_units.quality_report(town(), label="sex")
    with refusal(match="real: expected the frames homes and persons by name"):
        of_units.quality_report(flat_town())
    of_table = synthesizer(domain=DOMAIN["homes"]).fit(town()["homes"], person="home", at_most=1)
    with pytest.raises(AttributeError, match="parts: the fit is of one table"):
        _ = of_table.parts
    with refusal(match="order: the parts of a unit"):
        of_table.fit(town()["homes"], person="home", at_most=1, order="age")
