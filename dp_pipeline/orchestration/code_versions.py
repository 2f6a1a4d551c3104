"""Code versions of assets: what Dagster compares to say that code has changed since a run.

A released asset's changes exactly when a new draw might give other answers: with the code
that measures, the declarations that are measured, and the model's parameters. A release that
is replayed keeps the version that it was drawn with, so the mark stays until a new draw.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import dagster as dg

from dp_pipeline.publish.release import code_version, digest_of
from dp_pipeline.release.bundle import Bundle
from dp_pipeline.spec.dataset import DatasetSpec

CODE_TAG = "dagster/code_version"
"""The tag of a materialization that Dagster compares with the asset's own version."""


def raw_code(spec: DatasetSpec) -> str:
    """Of a stage that prepares rows: the code that reads and prepares, and what is declared."""
    return digest_of(code_version(("raw", "spec")), spec.digest)


def checking_code(spec: DatasetSpec) -> str:
    """Of the stage that validates rows: also what is declared of its checks alone."""
    return digest_of(raw_code(spec), spec.checks) if spec.checks else raw_code(spec)


def ingesting_code(spec: DatasetSpec) -> str:
    """Of the stage that reads the source: also what is read, wherever the project's folder lies."""
    source = spec.source
    names = [Path(location).name for location in source.locations]
    read = replace(source, location=names[0], more=tuple(names[1:]))
    return digest_of(raw_code(spec), read)


def data_version(bundle: Bundle) -> dg.DataVersion:
    """Of a stored release: the same after every replay, so nothing downstream is called stale."""
    return dg.DataVersion(digest_of(bundle.to_json()))
