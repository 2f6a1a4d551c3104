"""Code versions of assets, by which Dagster shows that code has changed since a run.

The version of a release changes when a new draw might give other answers: with the measuring code,
the measured declarations, and the parameters of its model. A replayed release keeps the version
that it was drawn with, so Dagster marks it as outdated until a new draw.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import dagster as dg

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.parameters import texts_of
from dp_pipeline.config.source import Source
from dp_pipeline.models import build_model
from dp_pipeline.releases.domain_release import DomainRelease
from dp_pipeline.releases.k_anonymous_release import declared_k_anonymity, declared_method
from dp_pipeline.releases.release import Release, code_version, digest_of
from dp_pipeline.results.bundle import Bundle

_CODE_TAG = "dagster/code_version"
"""The tag of a materialization that Dagster compares with the asset's own version."""


def preparation_version(spec: DatasetSpec) -> str:
    return digest_of(code_version(("config", "raw")), spec.digest)


def validation_version(spec: DatasetSpec) -> str:
    version = preparation_version(spec)
    return digest_of(version, spec.checks_digest) if spec.checks_digest else version


def ingestion_version(spec: DatasetSpec) -> str:
    """Return the version of the ingestion stage, made from its code, declaration and source.

    Of the paths of files only their names count.
    """
    return digest_of(preparation_version(spec), _without_folders(spec.source))


def _without_folders(source: Source) -> Source:
    names = [Path(location).name for location in source.locations]
    parts = None if source.parts is None else _without_folders(source.parts)
    return replace(source, location=names[0], more=tuple(names[1:]), parts=parts)


def release_version(
    spec: DatasetSpec, kind: type[Release], name: str, *, drawn_by: str | None = None
) -> str:
    """Return the version of a release, made from measuring code, declaration and parameters.

    drawn_by   version of the code that a stored release was drawn with; None: the code of today
    """
    return digest_of(drawn_by or kind.version(), spec.digest, *_measured(spec, kind, name))


def release_tags(
    spec: DatasetSpec, kind: type[Release], name: str, bundle: Bundle
) -> dict[str, str]:
    """Return a materialization's tag: the release's version, with the code that drew it."""
    return {_CODE_TAG: release_version(spec, kind, name, drawn_by=bundle.facts["code"])}


def _measured(spec: DatasetSpec, kind: type[Release], name: str) -> Iterator[object]:
    if kind is DomainRelease:
        yield name
    elif kind.FOLDER:
        yield texts_of(declared_method(spec, name), measuring=True)
        # Other methods, and other K, change nothing.
        declared = declared_k_anonymity(spec)
        yield repr(declared.model_copy(update={"methods": {}, "partitions": ()}))
        yield spec.label
    else:
        yield spec.evaluation
        model = build_model(spec, name)
        yield from (texts_of(model, measuring=is_measuring) for is_measuring in (True, False))
        yield [attribute.name for attribute in spec.domain if attribute.is_integer]


def data_version(bundle: Bundle) -> dg.DataVersion:
    """Return a digest of a stored release as its version, which a replay keeps."""
    return dg.DataVersion(digest_of(bundle.to_json()))
