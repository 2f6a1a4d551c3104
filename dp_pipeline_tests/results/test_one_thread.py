"""A limit on threads that holds in the first fit of a process, too."""

import json
import os
import subprocess
import sys

import pytest

THREADS = """
from dp_pipeline.threads import one_thread
with one_thread({how}):
    import json, {libraries}, threadpoolctl
    print(json.dumps([pool["num_threads"] for pool in threadpoolctl.threadpool_info()]))
"""


@pytest.mark.chain
@pytest.mark.parametrize(
    ("how", "libraries"),
    [("", "numpy, scipy.linalg, scipy.optimize"), ("with_sklearn=True", "numpy, sklearn.cluster")],
)
def test_every_pool_has_one_thread_in_a_new_process(how: str, libraries: str):
    surroundings = {name: v for name, v in os.environ.items() if not name.endswith("_THREADS")}
    code = THREADS.format(how=how, libraries=libraries)
    output = subprocess.check_output([sys.executable, "-c", code], env=surroundings)
    assert set(json.loads(output)) == {1}


FITTED = """
import sys
import numpy as np
from dp_pipeline.inference.consistency import TableEstimate
from dp_pipeline.inference.graphical_model import GraphicalModel
from dp_pipeline.inference.tree_fit import TreeFit
from dp_pipeline.inference.junction_tree import JunctionTree
model = GraphicalModel(JunctionTree((("a", "b"),), ()), {"a": 2, "b": 2})
shares = np.array([0.5, 0.5])
ways = [TableEstimate((name,), 10 * shares, 1.0) for name in "ab"]
TreeFit.of(model, ways, {"a": shares, "b": shares}).run()
print([one for one in ("sklearn", "pandas") if one in sys.modules])
"""


def test_a_tree_is_fitted_without_scikit_learn():
    assert subprocess.check_output([sys.executable, "-c", FITTED]) == b"[]\n"
