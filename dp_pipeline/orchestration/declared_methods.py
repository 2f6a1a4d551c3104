"""The k-anonymous methods that a data set file declares, checked, and what each promises."""

from __future__ import annotations

from dp_pipeline.anonymity import METHODS, build_method
from dp_pipeline.anonymity.method import Method, sensitive_diversity
from dp_pipeline.anonymity.promise import Promise
from dp_pipeline.orchestration.anonymity_rows import declared_anonymity
from dp_pipeline.schema.errors import DeclarationError
from dp_pipeline.schema.k_anonymity import KAnonymity
from dp_pipeline.schema.name import one_of
from dp_pipeline.schema.spec import DatasetSpec


def declared_method(spec: DatasetSpec, name: str) -> Method:
    """A declared method with its parameters; DeclarationError where it is not declared, does not
    exist, or has no such parameters.
    """
    methods = declared_anonymity(spec).methods
    if name not in methods:
        raise DeclarationError(f"{spec.name}: method: expected {one_of(methods, name)}")
    return build_method(name, methods[name], of=f"{spec.name}: k_anonymity")


def require_methods(spec: DatasetSpec) -> None:
    """DeclarationError for a declared method that does not exist or has no such parameters."""
    for name in spec.k_anonymity.methods if spec.k_anonymity else ():
        declared_method(spec, name)


def promise_for(declared: KAnonymity, method: str, *, k: int) -> Promise:
    """The declared promise of one method at K.

    Where no diversity is declared, kjig keeps two labels in every class of a sensitive label, and
    the others, whose papers know no such rule, keep none. A K that promises nothing promises no
    diversity either, declared or not.
    """
    if k <= 1:
        return Promise(k, 1, declared.suppress)
    usual = sensitive_diversity(METHODS[method], k=k) if declared.sensitive_label else 1
    return Promise(k, declared.diversity or usual, declared.suppress)
