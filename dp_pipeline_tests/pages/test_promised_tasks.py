"""Every task that README and docs promise, one command each, done in this order in one new home.

A change of structure must leave all of them possible. A digit before a command of
``promised_tasks.txt`` is the exit code that is promised, where it is not 0.
"""

import re
from pathlib import Path

import pytest

from dp_pipeline_tests.pages.pages import blocks
from dp_pipeline_tests.pages.test_blocks import Reader, for_the_readme, reader

__all__ = ["reader"]

pytestmark = pytest.mark.chain

TASKS = Path(__file__).with_name("promised_tasks.txt")
TASK = re.compile(r"(?P<task>.{36}) (?P<code>\d )?(?P<command>.+)")


def test_every_promised_task_can_be_done(reader: Reader):
    for_the_readme(reader.folder)
    readme = next(block for block in blocks("README.md") if "# my_data/rides.yaml" in block.text)
    reader.follow(readme)
    reader.shell("export DP_PIPELINE_DATASETS=my_data DAGSTER_HOME=$PWD/dagster")
    reader.shell("mkdir -m 700 dagster")
    failed = []
    for line in TASKS.read_text(encoding="utf-8").splitlines():
        task = TASK.fullmatch(line)
        assert task is not None, line
        code = int(task["code"] or 0)
        done = reader.try_shell(task["command"])
        if done.returncode != code:
            end = (done.stdout + done.stderr)[-500:]
            failed.append(f"{task['task'].strip()}: exit code {done.returncode}\n{end}")
    assert not failed, "\n".join(failed)
