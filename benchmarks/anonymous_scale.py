"""Every k-anonymous method on many rows: seconds and peak memory, each in a process of its own.

    .venv/bin/python benchmarks/anonymous_scale.py [ROWS [METHOD ...]]     default 1000000, all

Six attributes of 5 to 12 levels and a label of 2, as benchmarks/scale.py makes them, K = 10. The
first figure is of the choice alone; the second and the memory are of everything from codes to the
tables of a release, with the libraries.
"""

import os
import subprocess
import sys
import time

import scale

# ruff: noqa: T201

CHOSEN = (5, 6, 7, 8, 9, 10)
"""Places in ``scale.SIZES``; the label is the first."""


def people(rows: int):  # type: ignore[no-untyped-def]
    """The codes of such rows, as they are stored."""
    import numpy as np

    from dp_pipeline.anonymity.coded_rows import CodedRows, Column

    codes = np.empty((rows, len(CHOSEN)), np.uint8, order="F")
    target = np.empty(rows, np.int64)
    for start in range(0, rows, scale.ROWS_A_FILE):
        here = slice(start, min(start + scale.ROWS_A_FILE, rows))
        many, rng = here.stop - start, np.random.default_rng(start)
        hidden = rng.random(many)
        for at, place in enumerate(CHOSEN):
            codes[here, at] = (hidden * 0.5 + rng.random(many) * 0.5) * scale.SIZES[place]
        target[here] = (hidden * 0.5 + rng.random(many) * 0.5) * scale.SIZES[0]
    columns = tuple(
        Column(f"a{place}", tuple(f"level {code}" for code in range(scale.SIZES[place])), False)
        for place in CHOSEN
    )
    return CodedRows(columns, codes, target, ("level 0", "level 1"))


def anonymize(name: str, rows: int) -> None:
    """One method, in this process."""
    from dp_pipeline.anonymity import build_method
    from dp_pipeline.anonymity.coded_rows import KAnonymityGuarantee
    from dp_pipeline.releases.k_anonymous_tables import k_anonymous_tables

    given, promise = people(rows), KAnonymityGuarantee(10)
    method = build_method(name, {}, of="benchmark")
    began = time.perf_counter()
    anonymized = method.recode(given, promise, seed=0)
    chosen = time.perf_counter() - began
    k_anonymous_tables(given, anonymized, promise, label="a0", is_public=True)
    print(f"{name:<20} {rows:>12,} {chosen:>9.1f} s to choose", end=" ", flush=True)


def main(rows: int, names: list[str]) -> None:
    """A line a method."""
    from dp_pipeline.anonymity import METHODS

    for name in names or METHODS:
        began = time.perf_counter()
        process = subprocess.Popen([sys.executable, __file__, "--one", name, str(rows)])
        _, status, usage = os.wait4(process.pid, 0)
        taken, busy = time.perf_counter() - began, usage.ru_utime + usage.ru_stime
        print(
            f"{taken:>9.1f} s ({busy:.1f} s of a processor), {usage.ru_maxrss / 1024:,.0f} MB"
            + (f", exit status {status}" if status else "")
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        anonymize(sys.argv[2], int(sys.argv[3]))
    else:
        main(int(sys.argv[1]) if sys.argv[1:] else 1_000_000, sys.argv[2:])
