"""One thread: sums of floats depend on how many there are, and a replay gives the same bytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_thread() -> Iterator[None]:
    """Numerical libraries use one thread meanwhile, in the first fit of a process as in any."""
    from threadpoolctl import threadpool_limits

    load_threaded_libraries()
    with threadpool_limits(limits=1):
        yield


def load_threaded_libraries() -> None:
    """A limit reaches only libraries that are loaded already."""
    import sklearn.cluster  # noqa: F401
