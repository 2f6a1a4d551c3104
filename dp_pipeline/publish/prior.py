"""The public rows that a model is declared to use: the current ones of another data set.

A release says which they were: gone on with or made again, it has to find the very same ones.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from dp_pipeline.inference.public_table import PublicTable
from dp_pipeline.models.tables.base import TableModel
from dp_pipeline.raw.snapshot import current_snapshot, require_prepared
from dp_pipeline.raw.stages import read_stage
from dp_pipeline.release.bundle import PRIOR
from dp_pipeline.spec.discovery import find_spec
from dp_pipeline.spec.errors import DeclarationError, NotPrepared

if TYPE_CHECKING:
    from dp_pipeline.publish.epsilon_release import EpsilonRelease
    from dp_pipeline.release.bundle import ReleaseKey
    from dp_pipeline.spec.dataset import DatasetSpec


def public_rows(release: EpsilonRelease, key: ReleaseKey) -> PublicTable | None:
    """The prepared rows of the data set that the model names; None where it names none.

    DeclarationError for a data set that is not public, or has other levels of an attribute that is
    modelled, and for other rows than the release was begun with; NotPrepared where there are none.
    """
    public = _rows(release)
    if public is not None:
        _require_as_begun(release, key, _fact(release, public))
    return public


def prior_fact(release: EpsilonRelease, key: ReleaseKey) -> dict[str, str]:
    """Which public rows a release uses; empty where it uses none."""
    public = public_rows(release, key)
    return {} if public is None else {PRIOR: _fact(release, public)}


def _rows(release: EpsilonRelease) -> PublicTable | None:
    name = release.model.prior_name
    if not name:
        return None
    other, where = find_spec(name), f"{'/'.join(release.path)}: prior"
    if other.is_release or other.population == release.spec.population:
        raise DeclarationError(
            f"{where}: expected a data set with `purpose: benchmark` and a population of its own, "
            f"got {name}"
        )
    assert isinstance(release.model, TableModel)
    names = release.model.chosen(release.spec.domain)
    _require_alike(release.spec, other, names, where)
    home, snapshot = release.home, None
    if home.ledger.account(other.population) is not None:
        snapshot = current_snapshot(home.raw, other.name, home.ledger.key(other.population))
    if snapshot is None:
        raise NotPrepared(
            f"{where}: expected prepared rows of {name}, got none: `dp-pipeline run {name}` first"
        )
    require_prepared(other, snapshot)
    stored = read_stage(snapshot, "discretized")
    codes = {one: stored.column(one).to_numpy() for one in names}
    return PublicTable(codes, {one: release.spec.domain[one].size for one in names})


def _require_alike(
    spec: DatasetSpec, other: DatasetSpec, names: tuple[str, ...], where: str
) -> None:
    for name in names:
        if name not in other.domain.names or other.domain[name].cells != spec.domain[name].cells:
            raise DeclarationError(
                f"{where}: expected attributes with the same levels or bins in {other.name}, got "
                f"{name} otherwise"
            )


def _fact(release: EpsilonRelease, public: PublicTable) -> str:
    digest = hashlib.sha256()
    for name, codes in public.codes.items():
        digest.update(f"{name} {len(codes)} ".encode() + codes.astype("<i8").tobytes())
    return f"{release.model.prior_name} {digest.hexdigest()[:32]}"


def _require_as_begun(release: EpsilonRelease, key: ReleaseKey, fact: str) -> None:
    begun = release.home.ledger.history(key.digest)
    if begun and begun[0].facts.get(PRIOR, fact) != fact:
        raise DeclarationError(
            f"{'/'.join(release.path)}: prior: expected the public rows that it was begun with, "
            "got others: only --new-draw goes on with these"
        )
