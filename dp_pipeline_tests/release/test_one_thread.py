"""A limit on threads that holds in the first fit of a process, too."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

LIMITED = "from dp_pipeline.files import one_thread\nwith one_thread():\n"
TOO_EARLY = "from threadpoolctl import threadpool_limits\nwith threadpool_limits(limits=1):\n"
COUNTED = """
    import json, {libraries}, threadpoolctl
    print(json.dumps([one["num_threads"] for one in threadpoolctl.threadpool_info()]))
"""


def threads(begun: str, libraries: str) -> list[int]:
    """Threads of every pool inside, in a process that has loaded no library before."""
    surroundings = {name: v for name, v in os.environ.items() if not name.endswith("_THREADS")}
    result = subprocess.run(
        [sys.executable, "-c", begun + COUNTED.format(libraries=libraries)],
        env=surroundings,
        capture_output=True,
        text=True,
        check=True,
    )
    return list(json.loads(result.stdout))


@pytest.mark.chain
def test_every_pool_has_one_thread_in_a_new_process():
    assert set(threads(LIMITED, "numpy, sklearn.cluster")) == {1}


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core has one thread anyway")
def test_a_limit_before_the_libraries_are_loaded_is_caught():
    assert max(threads(TOO_EARLY, "numpy")) > 1
