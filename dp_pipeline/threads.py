"""A limit of one thread for numerical libraries: a replay has to give the same sums of floats."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any


@contextmanager
def one_thread(*, with_sklearn: bool = False) -> Iterator[None]:
    """Limit numerical libraries to one thread inside the block.

    with_sklearn   whether to limit scikit-learn too, whose import takes longer than most fits
    """
    with _threaded_libraries(with_sklearn).limit(limits=1):
        yield


@cache
def _threaded_libraries(with_sklearn: bool) -> Any:
    from threadpoolctl import ThreadpoolController

    load_threaded_libraries(with_sklearn=with_sklearn)
    return ThreadpoolController()


def load_threaded_libraries(*, with_sklearn: bool) -> None:
    """Import the numerical libraries, because a thread limit applies only to imported ones."""
    import scipy.linalg  # noqa: F401

    if with_sklearn:
        import sklearn.cluster  # noqa: F401
