"""One thread of numerical libraries: sums of floats depend on the number of threads, and a replay
has to give the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any


@contextmanager
def one_thread(*, with_sklearn: bool = False) -> Iterator[None]:
    """Let numerical libraries use one thread, in the first fit of a process as in any.

    with_sklearn   scikit-learn too: its import takes longer than most fits
    """
    with _threaded_libraries(with_sklearn).limit(limits=1):
        yield


@cache
def _threaded_libraries(with_sklearn: bool) -> Any:
    """Return the controller of all pools, made once: a search takes longer than a small fit."""
    from threadpoolctl import ThreadpoolController

    load_threaded_libraries(with_sklearn=with_sklearn)
    return ThreadpoolController()


def load_threaded_libraries(*, with_sklearn: bool) -> None:
    """Load the libraries, as a limit reaches only those that are loaded already."""
    import scipy.linalg  # noqa: F401

    if with_sklearn:
        import sklearn.cluster  # noqa: F401
