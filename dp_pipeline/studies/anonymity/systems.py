"""Systems: the methods that the study compares, each with what it promises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from dp_pipeline.anonymity import METHODS, build_method
from dp_pipeline.anonymity.method import Method
from dp_pipeline.anonymity.promise import Promise
from dp_pipeline.studies.named import named

NO_SELECTION = "no_selection"
"""What the others are compared with: every bit is released, and nothing promised."""


@dataclass(frozen=True)
class System:
    """One line of the comparison.

    name        in tables and on the command line
    title       as people call it
    method      a name of ``METHODS``; its parameters are the defaults
    diversity   different labels that each class must have, where K promises something
    """

    name: str
    title: str
    method: str
    diversity: int = 1

    def build(self) -> Method:
        """The method."""
        return build_method(self.method, {}, of=self.name)

    def promise(self, k: int) -> Promise:
        """What every release at K has to keep; no row may be left out for it."""
        return Promise(k, self.diversity if k > 1 else 1)


_TITLES = {
    "rfka": "RFKA",
    "hamdist_backward": "HamDist, backward",
    "hamdist_ratio": "HamDist, ratio",
    "hamdist_forward": "HamDist, forward",
    "mutual_information": "mutual information",
    "impurity": "impurity",
    "kjig": "kjig",
    "mondrian": "Mondrian",
    "tree": "tree",
    "cluster_k_anonymity": "clusters",
}
"""In the order of tables and pictures: the paper's two, its search in other orders, then what is
to beat them. A method that is not named here comes last.
"""


@cache
def known_systems() -> Mapping[str, System]:
    """Every method, kjig with two labels a class too, and what is no method."""
    order = [*(one for one in _TITLES if one in METHODS), *(m for m in METHODS if m not in _TITLES)]
    found = {}
    for method in order:
        found[method] = System(method, _TITLES.get(method, method), method)
        if method == "kjig":
            found["kjig_2diverse"] = System("kjig_2diverse", "kjig, 2-diverse", method, 2)
    found[NO_SELECTION] = System(NO_SELECTION, "no selection", "hamdist_forward")
    return found


def find_systems(names: Sequence[str]) -> tuple[System, ...]:
    """The systems that are named, all for no name; DeclarationError for an unknown one."""
    return named(names, known_systems(), what="method")
