"""k-anonymous tables: one file a method, one line each here. SYNTACTIC: nothing of it has an ε.

Coded rows in, a recoding out. A recoding is chosen by looking at the rows exactly, so which bits
are kept depends on single rows.
"""

from __future__ import annotations

from collections.abc import Mapping

from dp_pipeline.anonymity.clustering import ClusterKAnonymity
from dp_pipeline.anonymity.hamdist import HamdistBackward, HamdistForward, HamdistRatio
from dp_pipeline.anonymity.kjig import Kjig
from dp_pipeline.anonymity.method import Method
from dp_pipeline.anonymity.mondrian import Mondrian, Tree
from dp_pipeline.anonymity.ranking import Impurity, MutualInformation, Rfka
from dp_pipeline.spec.errors import DeclarationError, one_of
from dp_pipeline.spec.parameters import from_text

METHODS: Mapping[str, type[Method]] = {
    "cluster_k_anonymity": ClusterKAnonymity,
    "hamdist_backward": HamdistBackward,
    "hamdist_forward": HamdistForward,
    "hamdist_ratio": HamdistRatio,
    "impurity": Impurity,
    "kjig": Kjig,
    "mondrian": Mondrian,
    "mutual_information": MutualInformation,
    "rfka": Rfka,
    "tree": Tree,
}


def build_method(name: str, texts: Mapping[str, str], *, of: str) -> Method:
    """A method with its parameters read from text; DeclarationError names what is wrong.

    of   whose declaration it is, for the message
    """
    if name not in METHODS:
        raise DeclarationError(f"{of}: method: expected {one_of(METHODS, name)}")
    return from_text(METHODS[name], texts, of=f"{of}: {name}")
