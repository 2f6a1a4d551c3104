"""Every target of scale as a ratio measured in one run, as a table in docs/scaling.md.

    .venv/bin/python benchmarks/targets.py [--many ROWS] [--write]

--many    rows of the largest table: at least 10000000, the default; the targets are about
          100000000, which take 15 GB of disk
--write   puts the table in place of the one in docs/scaling.md; else it is printed alone

Both sides of a ratio are measured on the same rows in this run. Of Dask and Spark is measured what
is installed.
"""

import argparse
import importlib.util
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import clustering
import kernels
import scale

# ruff: noqa: T201

PAGE = Path(__file__).parent.parent / "docs" / "scaling.md"
BEGINS, ENDS = "<!-- targets: begin -->\n", "<!-- targets: end -->\n"
FEW = 10_000_000


@dataclass(frozen=True)
class Line:
    """One target: what it is about, what it asks for, and what was measured."""

    what: str
    target: str
    measured: str
    is_met: bool

    def __str__(self) -> str:
        met = "yes" if self.is_met else "**no**"
        return f"| {self.what} | {self.target} | {self.measured} | {met} |"


def kernel_lines() -> Iterator[Line]:
    """Counting beside NumPy's own histograms, one thread each."""
    for what, least, ratio in (
        ("all 91 pairs of 10⁶ × 14, beside `histogramdd` a pair", 40, kernels.all_pairs(10**6)),
        ("quadtree of 11 levels at 10⁷, beside one `histogram2d`", 10, kernels.quadtree(10**7)),
    ):
        yield Line(what, f"≥ {least} ×", f"{ratio:.0f} ×", ratio >= least)


def chain_lines(many: int) -> Iterator[Line]:
    """The whole chain of a small and of the largest table; what workers count of the latter."""
    few = many // 10
    with tempfile.TemporaryDirectory() as name:
        small = dict(scale.chain(few, Path(name)))
    with tempfile.TemporaryDirectory() as name:
        large = dict(scale.chain(many, Path(name)))
        same = list(_worker_lines(many, Path(name)))
    for one, read in (("read", "all 14 columns of the source"), ("codes", "the 14 prepared codes")):
        ratio = large["pairs"][0] / large[one][0]
        what = f"all 91 pairs of {many:.0e} rows, beside reading {read} with pyarrow"
        yield Line(what, "≤ 1.5 ×", f"{ratio:.1f} ×", ratio <= 1.5)
    growth = large["pairs"][1] / small["pairs"][1]
    what = f"memory of counting them, beside that of {few:.0e} rows"
    yield Line(what, "≤ 1.1 ×", f"{growth:.2f} ×", growth <= 1.1)
    peak = max(megabytes for one, (_, megabytes) in large.items() if one not in scale.READING)
    what = f"ingest to release of {many:.0e} rows, largest process"
    yield Line(what, "< 2,048 MB", f"{peak:,.0f} MB", peak < 2048)
    yield from same


def _worker_lines(rows: int, folder: Path) -> Iterator[Line]:
    for engine, module in (("dask", "distributed"), ("spark", "pyspark")):
        is_there = importlib.util.find_spec(module) and (engine == "dask" or shutil.which("java"))
        if not is_there:
            continue
        try:
            seconds, _ = scale.measured(f"lost {engine}", folder)
            found = f"yes, {seconds:.0f} s"
        except scale.StepFailed:
            found = "no"
        what = f"`{engine}`: all pairs of {rows:.0e} rows while one worker is killed"
        yield Line(what, "the same integers", found, found != "no")


def clustering_lines(most: int) -> Iterator[Line]:
    """The default clusterer with default noise, beside one start of KMeans."""
    for rows in (10**6, 10**7):
        if rows > most:
            continue
        seconds = clustering.seconds_of(
            ("KMeans(n_init=1), without privacy", "htree_kmeans, OpenDP noise"), rows, 100
        )
        ratio = seconds[0] / seconds[1]
        what = f"`htree_kmeans` at {rows:.0e} places with default noise, beside `KMeans(n_init=1)`"
        yield Line(what, "faster", f"{ratio:.1f} × as fast", ratio > 1)


def table(lines: list[Line], busy: float) -> str:
    """The lines with the machine and the day."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    when = datetime.now(UTC).date()
    head = (
        f"{os.cpu_count()} cores ({platform.machine()}), {memory:.0f} GB, Python "
        f"{platform.python_version()}, {when}; {busy:.1f} processes were running when it began.\n\n"
        "| | target | measured | met |\n| :-- | :-- | --: | :-- |\n"
    )
    return head + "".join(f"{line}\n" for line in lines)


def write(text: str) -> None:
    """Put the table in place of the one on the page."""
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGINS)
    _, _, after = rest.partition(ENDS)
    PAGE.write_text(before + BEGINS + text + ENDS + after, encoding="utf-8")


def main() -> None:
    """Measure all, print, and write where that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--many", type=int, default=FEW)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    if asked.many < FEW:
        parser.error(f"--many: expected at least {FEW}, got {asked.many}")
    busy, lines = os.getloadavg()[0], []
    for some in (kernel_lines(), chain_lines(asked.many), clustering_lines(asked.many)):
        for one in some:
            print(one, flush=True)
            lines.append(one)
    text = table(lines, busy)
    print(text)
    if asked.write:
        write(text)


if __name__ == "__main__":
    main()
