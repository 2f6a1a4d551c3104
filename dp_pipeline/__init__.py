"""Differentially private releases of sensitive tables and locations, orchestrated with Dagster.

``import dp_pipeline as dp``: ``dp.load_dataset``, ``dp.plan`` and ``dp.run`` do the same as
commands; ``dp.PrivateKMeans``, ``dp.PrivateSynthesizer`` and ``dp.KAnonymousSelector`` need no
file, and ``dp.plot_marginals``, ``dp.plot_pairs`` and ``dp.plot_map`` draw their results;
``dp.open_release`` and ``dp.combine`` need only an exported folder. Each is imported when it is
first used, because the libraries that it needs take seconds.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dp_pipeline.answers.estimate import combine
    from dp_pipeline.commands import plan, run
    from dp_pipeline.config.catalogue import load_dataset
    from dp_pipeline.estimators import (
        KAnonymousSelector,
        PrivateKMeans,
        PrivateSynthesizer,
        plot_map,
        plot_marginals,
        plot_pairs,
    )
    from dp_pipeline.export.opening import open_release

__version__ = "0.1.0"

__all__ = [
    "KAnonymousSelector",
    "PrivateKMeans",
    "PrivateSynthesizer",
    "combine",
    "load_dataset",
    "open_release",
    "plan",
    "plot_map",
    "plot_marginals",
    "plot_pairs",
    "run",
]

_PLACES = {
    "combine": "answers.estimate",
    "load_dataset": "config.catalogue",
    "open_release": "export.opening",
    "plan": "commands",
    "run": "commands",
}
"""Name → its module; all others are in ``estimators``."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{_PLACES.get(name, 'estimators')}")
    value: object = getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
