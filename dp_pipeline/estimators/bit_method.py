"""The name of a method, or a method → one that keeps some bits; nothing here sees a row."""

from __future__ import annotations

from dp_pipeline.anonymity import METHODS
from dp_pipeline.anonymity.method import Selecting
from dp_pipeline.schema.errors import DeclarationError


def bit_method(method: object) -> Selecting:
    """The method that a selector is told to use.

    DeclarationError for what is none, and for methods whose releases are boxes.
    """
    by_name = {name: made for name, made in METHODS.items() if hasattr(made, "bits")}
    if isinstance(method, tuple(by_name.values())):
        return method  # type: ignore[return-value]
    if isinstance(method, str) and method in by_name:
        return by_name[method]()  # type: ignore[return-value]
    expected = f"method: expected one of {', '.join(by_name)}, or such a method with parameters"
    if _makes_boxes(method):
        raise DeclarationError(
            f"{expected}, got one that makes boxes and selects no columns: "
            "`dp-pipeline anonymize` releases it"
        )
    raise DeclarationError(f"{expected}, got {method!r:.60}")


def _makes_boxes(method: object) -> bool:
    if isinstance(method, str):
        return method in METHODS
    return hasattr(method, "recode") and not isinstance(method, type)
