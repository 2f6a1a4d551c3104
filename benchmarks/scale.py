"""Many rows through the whole chain: seconds and peak memory, beside reading them with pyarrow.

.venv/bin/python benchmarks/scale.py [ROWS ...]     default 1000000 10000000; 100000000 takes long

A table of 14 attributes (12 of 2 to 16 levels, two numbers in bins) of sensitive rows is written as
Parquet, one million rows a file; every step is a process of its own. The ratio is that of seconds
to reading all columns of the source with pyarrow in the same run; ``codes`` is reading those that
pairs are counted of. Peak memory is of the process, libraries too,
and not of workers elsewhere, where ``DP_PIPELINE_ENGINE`` names an engine that has some.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

# ruff: noqa: T201

SIZES = (2, 2, 3, 4, 4, 5, 6, 7, 8, 9, 12, 16)
ROWS_A_FILE = 1_000_000
FILE = """name: many
title: Many rows
description: Generated for measuring
population: many
purpose: release
relation: add_remove
protection: {unit: one_row}
ceiling: {total: 10}
source: {kind: parquet, path: ROWS}
nominal_rows: 1000000
partitions: [1]

models:
  one_shot: {synthetic_rows: 1000}
  independent: {synthetic_rows: 1000}
attributes:
  x: {bounds: [0, 100], bins: 10}
  y: {bounds: [0, 100], bins: 10}
"""
STEPS = ("read", "ingest", "validate", "prepare", "codes", "pairs", "release")
READING = ("read", "codes")
"""Steps by pyarrow alone: all columns of the source, and the prepared codes, which pairs are of."""


def write(folder: Path, rows: int) -> None:
    """The table and its declaration."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    (folder / "rows").mkdir(parents=True)
    for at in range(0, rows, ROWS_A_FILE):
        many, rng = min(ROWS_A_FILE, rows - at), np.random.default_rng(at)
        hidden = rng.random(many)
        columns = {
            f"a{place}": pa.DictionaryArray.from_arrays(
                ((hidden * 0.5 + rng.random(many) * 0.5) * size).astype(np.int8),
                [f"level {code}" for code in range(size)],
            )
            for place, size in enumerate(SIZES)
        }
        numbers = {name: hidden * 50 + rng.random(many) * 50 for name in ("x", "y")}
        name = f"{at // ROWS_A_FILE:05d}.parquet"
        pq.write_table(pa.table({**columns, **numbers}), folder / "rows" / name)
    levels = "".join(
        f"  a{place}: {{levels: [{', '.join(f'level {code}' for code in range(size))}]}}\n"
        for place, size in enumerate(SIZES)
    )
    (folder / "many.yaml").write_text(FILE.replace("ROWS", str(folder / "rows")) + levels)


def step(name: str, folder: Path) -> None:
    """One step of the chain, in this process."""
    os.environ["DP_PIPELINE_HOME"] = str(folder / "home")
    import datetime

    import pyarrow.parquet as pq

    if name == "read":
        for path in sorted((folder / "rows").iterdir()):
            pq.read_table(path)
        return
    if name == "codes":
        (path,) = folder.glob("home/raw/*/*/discretized.parquet")
        with pq.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                file.read_row_group(group)
        return
    from dp_pipeline.config.parser import load_spec
    from dp_pipeline.raw.snapshot import current_snapshot
    from dp_pipeline.releases.home import engine_name, find_home

    spec, key, home = load_spec(folder / "many.yaml"), b"k" * 32, find_home()
    if name == "ingest":
        from dp_pipeline.raw.ingest import ingest

        ingest(spec, home.raw, key=key, snapshot_id=None, today=datetime.date(2026, 1, 1))
        return
    snapshot = current_snapshot(home.raw, spec.name, key)
    assert snapshot is not None
    if name == "validate":
        from dp_pipeline.raw.validate import validate

        validate(spec, snapshot, engine_name())
    elif name == "prepare":
        from dp_pipeline.raw.prepare import prepare

        prepare(spec, snapshot, engine_name())
    elif name == "pairs":
        from dp_pipeline.raw.counters import open_counter

        open_counter(spec, snapshot, engine_name()).count(
            list(combinations(spec.domain.discrete, 2))
        )
    elif name == "release":
        release(spec, snapshot)
    elif name.startswith("lost "):
        lose_a_worker(spec, snapshot, name.removeprefix("lost "))


def release(spec, snapshot) -> None:  # type: ignore[no-untyped-def]
    """One release of one_shot, as it is drawn and evaluated."""
    import numpy as np

    from dp_pipeline.gate.noise import ExactNoise
    from dp_pipeline.models import build_model
    from dp_pipeline.models.base import ModelFit, guarantee_of
    from dp_pipeline.raw.counters import open_counter
    from dp_pipeline.releases.home import engine_name
    from dp_pipeline.results.transcript import Transcript

    counter, epsilon = open_counter(spec, snapshot, engine_name()), spec.partitions[0]
    model = build_model(spec, "one_shot")
    fit, rng = ModelFit(spec, model, guarantee_of(model, epsilon)), np.random.default_rng(0)
    fit.fit_model(counter, Transcript(), ExactNoise(), epsilon=epsilon, rng=rng)


def lose_a_worker(spec, snapshot, engine: str) -> None:  # type: ignore[no-untyped-def]
    """All pairs by an engine of which a worker is killed, and by threads; they must be the same."""
    # Workers import it from beside this file.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    import numpy as np
    from lost_worker import DiesOnce

    from dp_pipeline.raw.counters.checked import CheckedRows
    from dp_pipeline.raw.counters.fold import FoldCounter
    from dp_pipeline.raw.counters.stream import fold_of

    rows = CheckedRows.open(spec, snapshot).stored_rows
    dying = DiesOnce(**vars(rows))
    pairs = list(combinations(spec.domain.discrete, 2))
    expected, found = (
        [table.open_at_the_gate() for table in FoldCounter(spec.domain, fold).count(pairs)]
        for fold in (fold_of(rows, "stream"), fold_of(dying, engine))
    )
    mark = dying.pairs[0][0].with_suffix(".died")
    assert mark.exists(), "a worker died"
    mark.unlink()
    assert all(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))


class StepFailed(Exception):
    """A step that did not end well."""


def measured(name: str, folder: Path) -> tuple[float, float]:
    """Seconds and peak megabytes of one step in a process of its own."""
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, __file__, "--step", name, str(folder)])
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    if status:
        raise StepFailed(f"{name}: exit status {status}")
    return seconds, usage.ru_maxrss / 1024


def chain(rows: int, folder: Path) -> Iterator[tuple[str, tuple[float, float]]]:
    """Seconds and peak megabytes of every step, one after the other."""
    write(folder, rows)
    for step in STEPS:
        yield step, measured(step, folder)


def main(sizes: list[int]) -> None:
    """Print a table, one line a step and number of rows."""
    print(f"{'rows':>12} {'step':<9} {'seconds':>8} {'ratio':>7} {'peak MB':>8}")
    for rows in sizes:
        with tempfile.TemporaryDirectory() as name:
            first = None
            for one, (seconds, megabytes) in chain(rows, Path(name)):
                first = first or seconds
                ratio = seconds / first
                print(
                    f"{rows:>12,} {one:<9} {seconds:>8.1f} {ratio:>7.1f} {megabytes:>8.0f}",
                    flush=True,
                )


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.argv[1:2] == ["--step"]:
        step(sys.argv[2], Path(sys.argv[3]))
    else:
        main([int(one) for one in sys.argv[1:]] or [1_000_000, 10_000_000])
