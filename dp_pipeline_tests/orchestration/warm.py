"""`dp-pipeline` as real processes, forked from a server that has imported everything."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path

from dp_pipeline_tests.config.declarations import assert_no_name_twice

PRELOADED = (
    "great_expectations",
    "great_expectations.data_context.types.base",
    "great_expectations.expectations.core",
    "dp_pipeline.cli",
    "dp_pipeline.reporting.text",
    "dp_pipeline.raw.great_expectations_session",
    "matplotlib.backends.backend_agg",
    "matplotlib.figure",
    "opendp.prelude",
    "pyarrow.dataset",
    "rich.table",
    "sklearn.cluster",
    "dp_pipeline_tests.orchestration.preload",
)
WARM_SERVER = "DP_PIPELINE_TESTS_WARM_SERVER"
"""Set in the environment of the server alone."""

OURS = ("DP_PIPELINE_", "DAGSTER_HOME")
"""How the names of variables begin that a command reads."""

STEP = " …\n"
"""How a line ends that says which step begins."""


@dataclass(frozen=True)
class Result:
    """What a shell sees of a command; a negative code is the signal that ended it.

    err     stderr without the lines of steps
    steps   what it was told to do, a line each
    """

    code: int
    out: str
    err: str
    steps: tuple[str, ...] = ()

    @classmethod
    def of(cls, code: int, out: str, stderr: str) -> Result:
        lines = stderr.splitlines(keepends=True)
        steps = tuple(line.rstrip() for line in lines if line.endswith(STEP))
        return cls(code, out, "".join(line for line in lines if not line.endswith(STEP)), steps)


def assert_refused(result: Result, code: int, *words: str) -> None:
    """One line on stderr with these words, nothing on stdout, this exit code."""
    assert result.code == code, result
    assert result.out == ""
    assert "Traceback" not in result.err
    assert result.err.startswith("dp-pipeline: ")
    assert result.err.count("\n") == 1
    for word in words:
        assert word in result.err
    assert_no_name_twice(result.err)


def start_server() -> None:
    # Read by the library when it is imported, and the server imports it before any test does.
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    os.environ[WARM_SERVER] = "yes"
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    forkserver.ensure_running()
    del os.environ[WARM_SERVER]


def start(folder: Path, work: Callable[..., None], *arguments: object) -> BaseProcess:
    """``work(*arguments)`` in a process of its own, working in ``folder``, its words in files."""
    context = multiprocessing.get_context("forkserver")
    # daemon: a child that hangs must not outlive the tests.
    child = context.Process(target=_inside, args=(folder, work, arguments), daemon=True)
    child.start()
    return child


def ended(child: BaseProcess, folder: Path) -> Result:
    child.join(timeout=600)
    assert child.exitcode is not None, "a command that does not end"
    out, err = ((folder / name).read_text(encoding="utf-8") for name in ("out.txt", "err.txt"))
    return Result.of(child.exitcode, out, err)


def command(arguments: list[str], environment: Mapping[str, str], folder: Path) -> None:
    """`dp-pipeline` itself; to be started in a child."""
    for name in [name for name in os.environ if name.startswith(OURS)]:
        del os.environ[name]
    os.environ.update(environment)
    from dp_pipeline.cli import main

    os.chdir(folder)
    main(args=arguments, prog_name="dp-pipeline")


def _inside(folder: Path, work: Callable[..., None], arguments: tuple[object, ...]) -> None:
    for descriptor, name in ((1, "out.txt"), (2, "err.txt")):
        file = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, descriptor)
        os.close(file)
    work(*arguments)
