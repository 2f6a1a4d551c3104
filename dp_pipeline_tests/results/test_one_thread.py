"""A limit on threads that holds in the first fit of a process, too."""

import json
import os
import subprocess
import sys

import pytest

LIMITED = "from dp_pipeline.threads import one_thread\nwith one_thread({how}):\n"
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
@pytest.mark.parametrize(
    ("how", "libraries"),
    [("", "numpy, scipy.linalg, scipy.optimize"), ("with_sklearn=True", "numpy, sklearn.cluster")],
)
def test_every_pool_has_one_thread_in_a_new_process(how, libraries):
    assert set(threads(LIMITED.format(how=how), libraries)) == {1}


FITTED = """
import sys
import numpy as np
from dp_pipeline.inference.consistency import TableEstimate
from dp_pipeline.inference.graphical_model import GraphicalModel
from dp_pipeline.inference.tree_fit import fit_tree
from dp_pipeline.inference.junction_tree import JunctionTree
model = GraphicalModel(JunctionTree((("a", "b"),), ()), {"a": 2, "b": 2})
shares = np.array([0.5, 0.5])
ways = [TableEstimate((name,), 10 * shares, 1.0) for name in "ab"]
fit_tree(model, ways, start={"a": shares, "b": shares})
print([one for one in ("sklearn", "pandas") if one in sys.modules])
"""


def test_a_tree_is_fitted_without_scikit_learn():
    result = subprocess.run(
        [sys.executable, "-c", FITTED], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core has one thread anyway")
def test_a_limit_before_the_libraries_are_loaded_is_caught():
    assert max(threads(TOO_EARLY, "numpy")) > 1
