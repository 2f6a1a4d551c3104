"""Code versions of assets: what Dagster compares to say that code has changed since a run.

A released asset's changes exactly when a fresh draw might give other answers: with the code
that measures, the declarations that are measured, and the model's parameters. A release that
is replayed keeps the version that it was drawn with, so the mark stays until a fresh draw.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import dagster as dg

from dp_pipeline.models.base import Model
from dp_pipeline.publish.k_anonymous_release import (
    declared_anonymity,
    declared_method,
    syntactic_code,
)
from dp_pipeline.publish.release import code_version
from dp_pipeline.release.bundle import Bundle
from dp_pipeline.spec.dataset import DatasetSpec
from dp_pipeline.spec.parameters import texts_of

CODE_TAG = "dagster/code_version"
"""The tag of a materialization that Dagster compares with the asset's own version."""


def raw_code(spec: DatasetSpec) -> str:
    """Of a stage that prepares rows: the code that reads and prepares, and what is declared."""
    return _version(code_version(("raw", "spec")), spec.digest)


def checking_code(spec: DatasetSpec) -> str:
    """Of the stage that validates rows: also what is declared of its checks alone."""
    return _version(raw_code(spec), spec.checks) if spec.checks else raw_code(spec)


def ingesting_code(spec: DatasetSpec) -> str:
    """Of the stage that reads the source: also what is read, wherever the project's folder lies."""
    source = spec.source
    names = [Path(location).name for location in source.locations]
    read = replace(source, location=names[0], more=tuple(names[1:]))
    return _version(raw_code(spec), read)


def internal_code() -> str:
    """Of evaluations, comparisons and the budget: the code that measures and draws pictures."""
    return _version(
        code_version(("raw", "metrics", "reporting", "ledger", "publish", "orchestration"))
    )


def released_code(spec: DatasetSpec, model: Model, code: str | None = None) -> str:
    """Of a declared model's asset.

    code   version of the measuring code that a release was drawn with; None: as it is now
    """
    whole = [attribute.name for attribute in spec.domain if attribute.whole]
    parameters = [texts_of(model, measuring=True), texts_of(model, measuring=False), whole]
    return _version(code or code_version(), spec.digest, spec.evaluation, *parameters)


def anonymous_code(spec: DatasetSpec, name: str, code: str | None = None) -> str:
    """Of a k-anonymous method's asset; ``code`` as in ``released_code``."""
    declared = declared_anonymity(spec)
    asked = (
        texts_of(declared_method(spec, name), measuring=True),
        declared.attributes,
        declared.sensitive_label,
        declared.diversity,
        declared.suppress,
        declared.seed,
        spec.label,
    )
    return _version(code or syntactic_code(), spec.digest, *asked)


def data_version(bundle: Bundle) -> dg.DataVersion:
    """Of a stored release: the same after every replay, so nothing downstream is called stale."""
    return dg.DataVersion(_version(bundle.to_json()))


def _version(*parts: object) -> str:
    """Short, as the page shows it in a line."""
    return hashlib.sha256(" ".join(map(str, parts)).encode()).hexdigest()[:12]
