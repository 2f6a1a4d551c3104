"""Fits of an estimator and its clones that no ledger adds up: how many, and their ε in all.

A cross-validation fits clones, each of which spends its own ε on the same rows. With ``n_jobs``
other processes do, which know of each other by a temporary file alone: a line a fit, its ε, and
nothing of the rows. It is made when a clone is pickled, and deleted with the process that made it.
"""

from __future__ import annotations

import os
import tempfile
import threading
import warnings
import weakref
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import uuid4

from sklearn.base import BaseEstimator

from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.estimators.fit import PrivateFit

_WARNED: set[str] = set()
"""Keys of the series that this process has warned of."""


class FitSeries:
    """The fits of an estimator and its clones, in whatever process.

    key    the same in all processes
    path   the file that they share; empty while one process has all of them
    """

    def __init__(self, key: str = "", path: str = "") -> None:
        self._key, self._path = key or uuid4().hex, path
        self._lines: list[str] = []
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[FitSeries], tuple[str, str]]:
        with self._lock, suppress(OSError):
            if not self._path:
                file, self._path = tempfile.mkstemp(prefix="dp_pipeline_fits_")
                os.write(file, "".join(self._lines).encode())
                os.close(file)
                weakref.finalize(self, _delete, self._path, os.getpid())
        return FitSeries, (self._key, self._path)

    def add(self, epsilon: Fraction) -> tuple[int, Fraction]:
        """Count one more fit: how many there are now, and their ε in all."""
        with self._lock:
            self._lines.append(f"{epsilon_text(epsilon)}\n")
            lines = self._lines
            # Where the file is gone, as in a copy that outlived its process, its own fits are all.
            with suppress(OSError):
                if self._path:
                    file = os.open(self._path, os.O_RDWR | os.O_APPEND)
                    with os.fdopen(file, "r+", encoding="utf-8") as shared:
                        shared.write(lines[-1])
                        shared.seek(0)
                        lines = shared.readlines()
            return len(lines), sum(map(Fraction, lines), Fraction(0))

    def is_first_warning(self) -> bool:
        """Whether this process has not warned of it yet; from now on it has."""
        is_first = self._key not in _WARNED
        _WARNED.add(self._key)
        return is_first


def _delete(path: str, process: int) -> None:
    """A forked process has the same objects, and no file of its own."""
    if os.getpid() == process:
        Path(path).unlink(missing_ok=True)


class CountedFits(BaseEstimator):  # type: ignore[misc]
    """An estimator whose fits are counted together with those of its clones, and that says what a
    fit promises.
    """

    population: Any
    _series: FitSeries
    _promised = ""

    def __sklearn_clone__(self) -> Any:
        clone = super().__sklearn_clone__()
        clone._series = self._fits()  # noqa: SLF001 - of the same class
        return clone

    def __getstate__(self) -> dict[str, Any]:
        """Hand the count to other processes with what they are to fit, and not with a release."""
        state: dict[str, Any] = super().__getstate__()
        return {name: one for name, one in state.items() if name != "_series" or not self._promised}

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """What is promised, once there is a fit; its parameters before."""
        return self._promised or str(super().__repr__(N_CHAR_MAX))

    def _fits(self) -> FitSeries:
        if not hasattr(self, "_series"):
            self._series = FitSeries()
        return self._series

    def _counted(self, promise: str, fit: PrivateFit) -> str:
        """What a fit that is about to look promises, with what all that no population pays for
        cost. Warns, once, before the second of them spends anything.
        """
        if self.population is not None:
            return promise
        many, epsilon = self._fits().add(fit.paid)
        if many < 2:
            return promise
        total = epsilon_text(epsilon)
        if self._fits().is_first_warning():
            warnings.warn(
                f"{type(self).__name__}: {many} fits of it and its clones cost ε={total} in all, "
                "where they are of the same rows, and each further one adds its own: a grid search "
                "makes candidates times folds, and one more; with `population` a ledger adds them "
                "up, and refuses what is too much",
                # From here to whoever called ``fit``.
                stacklevel=6,
            )
        return f"{promise}; fit {many} of it and its clones: ε={total} in all"
