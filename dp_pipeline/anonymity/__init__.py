"""k-anonymous tables: the methods by name. Nothing here is differentially private: a method reads
the rows exactly, so its recoding depends on single rows.
"""

from collections.abc import Mapping

from dp_pipeline.anonymity.method import Method
from dp_pipeline.config.errors import DeclarationError, one_of
from dp_pipeline.config.parameters import Registry, from_text

METHODS: Registry[type[Method]] = Registry(
    "dp_pipeline.anonymity",
    {
        "cluster_k_anonymity": "clustering:ClusterKAnonymity",
        "hamdist_backward": "ranking:HamdistBackward",
        "hamdist_forward": "ranking:HamdistForward",
        "hamdist_ratio": "ranking:HamdistRatio",
        "impurity": "ranking:Impurity",
        "kjig": "kjig:Kjig",
        "mondrian": "growth:Mondrian",
        "mutual_information": "ranking:InformationRanking",
        "rfka": "ranking:Rfka",
        "tree": "growth:Tree",
    },
)
"""Name → class, imported at its first use."""


def build_method(name: str, texts: Mapping[str, str], *, of: str) -> Method:
    """Return a method with parameters parsed from texts; DeclarationError for an unknown name or a
    wrong parameter.

    of   name of the data set whose declaration it is, for the message
    """
    if name not in METHODS:
        raise DeclarationError(f"{of}: the method {one_of(METHODS, name)}")
    return from_text(METHODS[name], texts, of=f"{of}: {name}")
