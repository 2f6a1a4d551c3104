"""Two frames, of units and of their parts, are fitted as two files are, and come out as two."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.source import Source
from dp_pipeline.estimators import PrivateSynthesizer
from dp_pipeline.estimators.parameters import InvalidParameter
from dp_pipeline.estimators.rows import prepared_rows
from dp_pipeline.estimators.units import TwoFrames
from dp_pipeline.raw.prepare import normalized
from dp_pipeline.raw.sources import read_source
from dp_pipeline.raw.units import join_parts, unit_keys

DOMAIN: dict[str, Any] = {
    "homes": {"region": ["north", "south"]},
    "persons": {"age": {"bounds": [0, 90], "edges": [30, 60], "integer": True}, "sex": ["f", "m"]},
}
KEY = b"k" * 32


def frames(units: list[tuple[Any, ...]], parts: list[tuple[Any, ...]]) -> dict[str, pd.DataFrame]:
    return {
        "homes": pd.DataFrame(units, columns=["home", "region"]),
        "persons": pd.DataFrame(parts, columns=["home", "age", "sex"]),
    }


ids = st.sampled_from([7, 2**53, 2**53 + 1])
homes = st.lists(st.tuples(ids, st.sampled_from(["north", "south", "?"])), max_size=5, min_size=1)
persons = st.lists(
    st.tuples(ids, st.integers(-5, 99), st.sampled_from("fm?")), max_size=6, min_size=1
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return tmp_path_factory.mktemp("files")


@given(homes, persons)
def test_two_frames_give_the_codes_of_two_files(files: Any, units, parts) -> None:
    rows = frames(units, parts)
    # The type of a cell is part of its digest: a file holds texts.
    rows = {name: frame.astype(str) for name, frame in rows.items()}
    two = TwoFrames.of(rows, DOMAIN, "home", 3)
    paths = {name: files / f"{name}.csv" for name in rows}
    for name, frame in rows.items():
        frame.to_csv(paths[name], index=False)
    source = Source("csv", str(paths["homes"]), parts=Source("csv", str(paths["persons"])))
    spec = DatasetSpec.of_domain(
        "homes", two.domain, protection=two.protection, purpose="release", source=source
    )
    joined = join_parts(read_source(spec), unit_keys(spec, KEY)).table
    stored = normalized(spec, joined, KEY).to_pylist()
    codes = prepared_rows(replace(spec, source=Source("csv", "")), two.stored(), KEY).codes
    fitted = pa.table({name: pa.array(column) for name, column in codes.items()}).to_pylist()
    assert sorted(fitted, key=repr) == sorted(stored, key=repr)


def town(kind: str = "pandas") -> dict[str, Any]:
    rng = np.random.default_rng(0)
    units = [(home, "north" if home % 3 else "south") for home in range(900)]
    parts = [
        (home, int(rng.integers(90)), "fm"[i % 2]) for home, _ in units for i in range(home % 3)
    ]
    both = frames(units, parts)
    return both if kind == "pandas" else {n: pa.table(f) for n, f in both.items()}


def synthesizer(**changes: Any) -> PrivateSynthesizer:
    return PrivateSynthesizer(
        **{"domain": DOMAIN, "epsilon": 4, "noise": "seeded:1", "random_state": 0, **changes}
    )


@pytest.mark.parametrize("kind", ["pandas", "arrow"])
def test_synthetic_frames_refer_to_each_other_by_key(kind: str) -> None:
    fitted = synthesizer(constraints={"never": [{"size": "1", "age": "[0, 30)"}]}).fit(
        town(kind), person="home", at_most=3
    )
    both = fitted.sample()
    if kind == "arrow":
        both = {name: table.to_pandas() for name, table in both.items()}
    units, parts = both["homes"], both["persons"]
    assert [*units] == ["home", "region"] and [*parts] == ["home", "age", "sex"]
    assert units["home"].is_unique and {*parts["home"]} <= {*units["home"]}
    sizes = parts.groupby("home").size().reindex(units["home"], fill_value=0)
    assert (sizes == 0).mean() == pytest.approx(0.4, abs=0.1)
    alone = parts[parts["home"].map(sizes) == 1]
    assert (alone["age"].dropna() >= 30).all()
    assert len(fitted.sample(20, random_state=1)["homes"]) <= 20
    assert str(fitted).startswith("PrivateSynthesizer by one_shot, fitted: ε=4, protects one unit")


MISTAKES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "no key": ({}, {"person": None}, "person: expected the column of both frames"),
    "another key": (
        {},
        {"person": "age"},
        "person: expected a column of both frames, but homes has",
    ),
    "no bound": ({}, {"at_most": None}, "at_most: expected an integer in 2..32"),
    "other names": ({"domain": {"homes": {}}}, {}, "domain: expected the columns of the frames"),
    "never missing": (
        {"domain": DOMAIN | {"persons": {"sex": {"levels": ["f", "m"], "nullable": False}}}},
        {},
        "domain: column 'sex': expected one that may be missing",
    ),
    "in both": ({"domain": DOMAIN | {"persons": {"region": 2}}}, {}, "each column in one of the"),
    "the key": ({"domain": DOMAIN | {"persons": {"home": 2}}}, {}, "each column in one of the"),
    "to discover": ({"domain": DOMAIN | {"persons": {"age": "discover"}}}, {}, "one to discover"),
    "another model": ({"method": "independent"}, {}, "independent: the protected units have parts"),
    "a rehearsal": ({}, {"rehearse": True}, "rehearse: this argument is for one frame"),
    "errors": ({"on_unknown": "error"}, {}, "on_unknown: this argument is for one frame"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_wrong_declaration_of_two_frames_is_one_line(name: str) -> None:
    parameters, arguments, message = MISTAKES[name]
    both = town()
    both["persons"]["region"] = 0
    with pytest.raises(InvalidParameter, match=message):
        synthesizer(**parameters).fit(both, **{"person": "home", "at_most": 3, **arguments})


def test_a_key_of_floats_is_refused() -> None:
    both = town()
    both["persons"]["home"] = both["persons"]["home"].astype(float)
    with pytest.raises(InvalidParameter, match="round two persons to one"):
        synthesizer().fit(both, person="home", at_most=3)
