"""Classifiers on many rows: seconds of a processor and peak memory, each in a process of its own.

    .venv/bin/python benchmarks/classifier_scale.py [ROWS ...]       default 1000000

Rows of six attributes as benchmarks/anonymous_scale.py makes them, and a label of two. Learned and
tested on all of them, as ``HeldOut`` does with four fifths and a fifth.
"""

import os
import subprocess
import sys

import anonymous_scale

# ruff: noqa: T201


def classify(method: str, rows: int) -> None:
    """Learn and test, in this process; nothing learned, where the method is ``rows``."""
    from dp_pipeline.metrics.classification import misclassification, train

    given = anonymous_scale.people(rows)
    codes = {one.name: given.codes[:, at] for at, one in enumerate(given.columns)}
    answers = given.target == 1
    if method == "rows":
        return
    sizes = {column.name: column.size for column in given.columns}
    wrong = misclassification(train(method, codes, answers, sizes), codes, answers)  # type: ignore[arg-type]
    assert 0 < wrong < 0.5


def main(sizes: list[int]) -> None:
    """A line a method and number of rows; the first is of what the others start with."""
    for rows in sizes:
        for method in ("rows", "svm", "logistic"):
            process = subprocess.Popen([sys.executable, __file__, "--one", method, str(rows)])
            _, status, usage = os.wait4(process.pid, 0)
            busy, megabytes = usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
            failed = f", exit status {status}" if status else ""
            print(f"{method:<10} {rows:>12,} {busy:>8.1f} s {megabytes:>8,.0f} MB{failed}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        classify(sys.argv[2], int(sys.argv[3]))
    else:
        main([int(one) for one in sys.argv[1:]] or [1_000_000])
