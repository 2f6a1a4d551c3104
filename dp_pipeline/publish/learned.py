"""What a release learns from elsewhere, at no cost: the release of the window before, and the
public rows of another data set.

Its row of the ledger says which those were: gone on with or made again, it has to find the very
same ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dp_pipeline.inference.public_table import PublicTable
from dp_pipeline.models.tables.base import TableModel
from dp_pipeline.publish.replay import pointed_bundle, pointer_path, read_json
from dp_pipeline.raw.snapshot import current_snapshot
from dp_pipeline.release.bundle import LEARNED, PRIOR
from dp_pipeline.spec.discovery import find_spec
from dp_pipeline.spec.errors import DeclarationError, NotPrepared
from dp_pipeline.spec.parameters import fact_text

Codes = dict[str, np.ndarray]
"""Attribute → codes of all rows."""

if TYPE_CHECKING:
    from dp_pipeline.publish.epsilon_release import EpsilonRelease
    from dp_pipeline.publish.home import Home
    from dp_pipeline.release.bundle import Bundle, ReleaseKey
    from dp_pipeline.release.clusters import Tables
    from dp_pipeline.spec.dataset import DatasetSpec


@dataclass(frozen=True)
class PublicRows:
    """The prepared rows of the data set that a model names.

    fact   its name and a digest of all codes
    """

    table: PublicTable
    fact: str

    @classmethod
    def of(cls, release: EpsilonRelease) -> PublicRows | None:
        """None where the model names none.

        DeclarationError for rows that are not public, by their file or by what the ledger knows of
        them, and for other levels of an attribute that is modelled; NotPrepared where there are
        none.
        """
        name = release.model.prior_name
        if not name:
            return None
        other, where = find_spec(name), f"{'/'.join(release.path)}: prior"
        _require_public(release, other, where)
        assert isinstance(release.model, TableModel)
        names = release.model.chosen(release.spec.domain)
        _require_alike(release.spec, other, names, where)
        sizes = {one: release.spec.domain[one].size for one in names}
        table = PublicTable(_codes(release.home, other, names, where), sizes)
        return cls(table, f"{name} {table.digest}")


def public_table(release: EpsilonRelease, key: ReleaseKey) -> PublicTable | None:
    """The public rows that a release uses; None where it uses none. DeclarationError where it was
    begun with others.
    """
    public = release.public_rows
    if public is None:
        return None
    begun = release.home.ledger.history(key.digest)
    if begun and begun[0].facts.get(PRIOR, public.fact) != public.fact:
        raise DeclarationError(
            f"{'/'.join(release.path)}: prior: expected the public rows that it was begun with, "
            "got others: only --new-draw goes on with these"
        )
    return public.table


def learned_facts(release: EpsilonRelease, key: ReleaseKey) -> dict[str, str]:
    """Which release of a window and which public rows a release uses; empty where it uses none."""
    folder, public = _learned_from(release, key), release.public_rows
    facts = {LEARNED: folder} if folder else {}
    return facts if public is None else {**facts, PRIOR: public.fact}


def earlier_tables(release: EpsilonRelease, key: ReleaseKey) -> Tables | None:
    """The tables of the release that this one plans from; Damaged where they are not as they were
    settled, None where it plans from none.
    """
    folder = _learned_from(release, key)
    return _told(release, folder).tables if folder else None


def _learned_from(release: EpsilonRelease, key: ReleaseKey) -> str:
    """Where in the store the release lies that this one plans from: the one that belongs to the
    window before at the same ε, if that was settled when this one was charged. Empty where there
    was none, or nothing is planned from.

    The ledger's row says it, and a key does not: else a window that is published later would make
    another release, with another charge, of every one behind it.
    """
    spec = release.spec
    if not release.model.plans_from_earlier or not spec.window:
        return ""
    begun = release.home.ledger.history(key.digest)
    if begun:
        return begun[0].facts.get(LEARNED, "")
    before = spec.cut.preceding(spec.window)
    if before is None or spec.cut.preceding(release.windows[0]) is None:
        return ""
    named = read_json(pointer_path(replace(release, spec=spec.at_window(before))))
    if named is None:
        return ""
    # Boxes and tables of other declarations or parameters are not those of this one.
    facts = _told(release, str(named["folder"])).facts
    own = {"declaration": key.declaration, "measuring": fact_text(key.measuring)}
    is_alike = all(facts.get(name) == text for name, text in own.items())
    return str(named["folder"]) if is_alike else ""


def _told(release: EpsilonRelease, folder: str) -> Bundle:
    """A settled release of this model, of whichever window."""
    spec, named = release.spec.of_all_windows(), {"folder": folder}
    return pointed_bundle(spec, release.home, named, model=release.name)


def _require_public(release: EpsilonRelease, other: DatasetSpec, where: str) -> None:
    """The file of today may say otherwise than the account that its rows were read for."""
    if other.is_release or other.population == release.spec.population:
        raise DeclarationError(
            f"{where}: expected a data set with `purpose: benchmark` and a population of its own, "
            f"got {other.name}"
        )
    for source in other.source.identities:
        release.home.ledger.require_public(other.population, source)


def _require_alike(
    spec: DatasetSpec, other: DatasetSpec, names: tuple[str, ...], where: str
) -> None:
    """The same code has to mean the same in both."""
    for name in names:
        own = spec.domain[name]
        alike = other.domain[name] if name in other.domain.names else None
        if alike is None or (own.cells, own.nullable) != (alike.cells, alike.nullable):
            raise DeclarationError(
                f"{where}: expected attributes with the same levels or bins in {other.name}, got "
                f"{name} otherwise"
            )


def _codes(home: Home, other: DatasetSpec, names: tuple[str, ...], where: str) -> Codes:
    snapshot = None
    if home.ledger.account(other.population) is not None:
        snapshot = current_snapshot(home.raw, other.name, home.ledger.key(other.population))
    if snapshot is None:
        raise NotPrepared(
            f"{where}: expected prepared rows of {other.name}, got none: `dp-pipeline run "
            f"{other.name}` first"
        )
    from dp_pipeline.raw.stages import prepared_codes

    return prepared_codes(other, snapshot, names)
