"""A file as exports in the wild look, from its bytes to a map and a table: every column alive."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dp_pipeline.config.parser import load_spec
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.models import build_model
from dp_pipeline.models.base import fit, guarantee_of
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.raw.prepare import discretized, normalized
from dp_pipeline.raw.sources import read_source
from dp_pipeline.results.accountant import Accountant
from dp_pipeline.results.transcript import Transcript

FILE = """
name: rides
description: Rides.
population: rides
purpose: release
protection: {unit: rows_of_person, column: User ID, at_most: 4}
ceiling: {total: 40}
source: {kind: csv, path: rides.csv}
reading: {missing: [N/A]}
derive:
  hour: {hour: Start Time, zone: Europe/Zurich}
attributes:
  started: {column: Start Time, type: timestamp, bounds: [2026-10-01, 2026-10-31], every: week}
  hour: {levels: 0..23, nullable: true}
  lat: {column: end lat, bounds: [47, 48], bins: 4, on_invalid: drop}
  lon: {column: end lon, bounds: [8, 9], bins: 4, on_invalid: drop}
  age: {bounds: [16, 80], bins: 4, integer: true, nullable: true}
  kind: {column: Membership, levels: [annual, day pass], nullable: true,
    aliases: {Day Pass: day pass}}
  fare: {column: "Fare (CHF)", bounds: [0, 20], bins: 4, decimal: ","}
partitions: [10]
models: {htree_kmeans: {k: 2, columns: lon lat}, one_shot: }
"""
HEADER = 'Start Time,User ID,end lat,end lon,age,Membership,"Fare (CHF)"'


def line(at: int) -> str:
    """A ride, one of fifty of which is broken in one of four ways."""
    cells = [f"2026-10-{1 + at % 31:02d}T{at % 24:02d}:30:00+00:00", f"u{at // 3}"]
    cells += [
        f"{47.25 + at % 2 / 2}",
        f"{8.25 + at % 2 / 2}",
        "" if at % 7 == 0 else str(20 + at % 50),
    ]
    cells += [("annual", "day pass", "Day Pass", "")[at % 4], f'"{at % 17},{at % 100:02d}"']
    match at % 200:
        case 50:
            cells = cells[:5]
        case 100:
            cells[2] = cells[3] = "N/A"
        case 150:
            cells[2] = cells[3] = "0.0"
        case 199:
            cells[0], cells[4] = "31/10/2026 25:61", "abc"
    return ",".join(cells)


@pytest.fixture
def spec(tmp_path: Path):
    lines = [HEADER, *map(line, range(4000))]
    (tmp_path / "rides.csv").write_bytes("\ufeff".encode() + "\r\n".join(lines).encode())
    (tmp_path / "rides.yaml").write_text(FILE)
    return load_spec(tmp_path / "rides.yaml")


def test_a_messy_file_keeps_all_rows_that_say_something(spec):
    rows = normalized(spec, read_source(spec), b"k" * 32)
    # Lines that are cut off, and those without a place: an odd date or age costs a cell alone.
    assert rows.num_rows == 4000 - 3 * 20
    codes = discretized(spec, rows)
    for name in spec.domain.discrete:
        # There are two places; of every other column each cell has rows, but no fare is missing.
        missing = {spec.domain[name].missing_code} if name == "fare" else set()
        cells = {1, 3} if name in ("lat", "lon") else {*range(spec.domain[name].size)} - missing
        assert set(codes.column(name).to_pylist()) == cells


@pytest.mark.parametrize("name", ["htree_kmeans", "one_shot"])
def test_a_messy_file_becomes_a_map_and_a_table(name: str, spec):
    rows = normalized(spec, read_source(spec), b"k" * 32)
    codes = discretized(spec, rows)
    counter = MemoryCounter(
        spec.domain,
        coordinates={one: rows.column(one).to_numpy() for one in spec.domain.numeric},
        codes={one: codes.column(one).to_numpy() for one in spec.domain.discrete},
        rows=rows.num_rows,
    )
    model = build_model(spec, name)
    guarantee = guarantee_of(model, spec.partitions[0], None, domain=spec.domain)

    def ask(accountant: Accountant) -> Curator:
        return Curator(
            counter,
            domain=spec.domain,
            distance=spec.distance,
            accountant=accountant,
            transcript=Transcript(),
            noise=SeededNoise(7),
        )

    result = fit(model, guarantee, ask, epsilon=guarantee.epsilon, rng=np.random.default_rng(0))
    tables = result.released.tables()
    if name == "htree_kmeans":
        centres = np.sort(np.stack(list(tables["centres"].values()), axis=1), axis=0)
        assert centres == pytest.approx(np.array([[8.25, 47.25], [8.75, 47.75]]), abs=0.05)
        return
    made_rows = tables["synthetic"]
    assert made_rows["Start Time"].dtype == np.dtype("datetime64[s]")
    assert len(made_rows["Start Time"]) == pytest.approx(3940, rel=0.05)
    for cells in made_rows.values():
        cells_with_values = [one for one in cells.tolist() if one is not None]
        assert len(set(cells_with_values)) > 1
