"""Refinement: a release at a larger ε made of one at a smaller ε, for what is between them.

The answers of the smaller one get less noise; what it has paid is not paid again, so the two of
them together cost the larger ε (``gate.mechanisms.refine``). What is asked does not change: it is
what was asked then, of the very same rows.

A release is refined once, and its refinement may be refined again. The ledger holds that: all
refinements of one release would have one key (``release.bundle.ReleaseKey``).

What a release learns from elsewhere, at no cost: the release of the window before, and the
public rows of another data set.

Its row of the ledger says which those were: gone on with or made again, it has to find the very
same ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dp_pipeline.gate.curator import Answered
from dp_pipeline.inference.earlier import PublicTable
from dp_pipeline.models.base import Coarse
from dp_pipeline.models.tables.base import TableModel
from dp_pipeline.publish.release import ROWS
from dp_pipeline.publish.replay import pointed_bundle, pointer_path, read_json
from dp_pipeline.raw.snapshot import Snapshot, current_snapshot
from dp_pipeline.release.bundle import LEARNED, PRIOR, REFINED_FROM, REFINES, ReleaseKey
from dp_pipeline.spec.amounts import epsilon_text
from dp_pipeline.spec.discovery import find_spec
from dp_pipeline.spec.errors import DeclarationError, NotPrepared
from dp_pipeline.spec.parameters import fact_text

if TYPE_CHECKING:
    from dp_pipeline.ledger import Entry
    from dp_pipeline.publish.epsilon_release import EpsilonRelease


def _refinable(release: EpsilonRelease) -> Fraction:
    """The ε that is to be refined; DeclarationError for a release that cannot refine another one,
    whatever was released.
    """
    model, asked = release.model, release.refine or Fraction(0)
    where = f"{'/'.join(release.path)}: refine"
    if not model.refines:
        raise DeclarationError(
            f"{where}: expected a model that asks the same questions at every ε, got {release.name}"
        )
    if model.plans_from_earlier:
        raise DeclarationError(
            f"{where}: expected a model that plans from nothing, got one with "
            "`plan_from: previous`: its numbers may be those of two windows"
        )
    if model.prior_name:
        raise DeclarationError(f"{where}: expected a model without `prior`, got one")
    if release.guarantee.currency != release.spec.currency:
        raise DeclarationError(
            f"{where}: expected a model that accounts in ρ, as its population has a declared δ, "
            f"got {release.name}: what is between two ε is no difference there"
        )
    if not 0 < asked < release.epsilon:
        raise DeclarationError(
            f"{where}: expected a declared ε below {release.level}, got {epsilon_text(asked)}"
        )
    return asked


def asked_key(release: EpsilonRelease, snapshot: Snapshot) -> ReleaseKey:
    """The key of the refinement that is asked for by name.

    DeclarationError where that release was refined otherwise: at another ε, or evaluated for
    another one.
    """
    base = replace(release, epsilon=_refinable(release), refine=None)
    key = release.draw_key(snapshot.names).refining(base.key(snapshot).digest)
    past = release.home.ledger.history(key.digest)
    if past and (found := past[0].facts["epsilon"]) != release.level:
        raise DeclarationError(
            f"{'/'.join(release.path)}: refine: expected a release that was not refined yet, got "
            f"one at ε={base.level} that was refined to ε={found}: refine that one"
        )
    if past and past[0].facts["evaluation"] != _evaluation(release):
        raise DeclarationError(
            f"{'/'.join(release.path)}: expected the evaluation of ε="
            f"{past[0].facts['evaluation']} that its refinement was begun with, got "
            f"{_evaluation(release)}"
        )
    return key


def newest_key(release: EpsilonRelease, snapshot: Snapshot, cold: ReleaseKey) -> ReleaseKey:
    """Of a release drawn by itself and of the refinements at its ε, the one that was charged last;
    the first where none was.
    """
    past = release.home.ledger.history(cold.digest)
    found = [(past[0].sequence, cold)] if past else []
    found += [
        (entries[0].sequence, release.draw_key(snapshot.names).refining(entries[0].facts[REFINES]))
        for entries in _refinements(release, snapshot)
        if entries[0].facts["epsilon"] == release.level and entries[-1].event != "dead"
    ]
    return max(found, key=lambda one: one[0])[1] if found else cold


def _refinements(release: EpsilonRelease, snapshot: Snapshot) -> Iterator[tuple[Entry, ...]]:
    """What the ledger says of every refinement that goes back to a release of this model at a
    smaller ε.
    """
    ledger = release.home.ledger
    for epsilon in release.spec.partitions:
        draw = replace(release, epsilon=epsilon).draw_key(snapshot.names)
        while epsilon < release.epsilon and ledger.state(draw.digest) is not None:
            finer = draw.refining(draw.digest)
            while entries := ledger.history(finer.digest):
                yield entries
                finer = finer.refining(finer.digest)
            draw = draw.with_replicate(draw.replicate + 1)


def _evaluation(release: EpsilonRelease) -> str:
    return "none" if release.evaluation is None else epsilon_text(release.evaluation)


@dataclass(frozen=True)
class Refined:
    """The release that a refinement refines.

    release   as it is declared today
    key       of its draw
    begun     the row of the ledger that charged it
    """

    release: EpsilonRelease
    key: ReleaseKey
    begun: Entry

    @classmethod
    def by(cls, release: EpsilonRelease, key: ReleaseKey) -> Refined | None:
        """What the release with this key refines; None where it is drawn by itself.

        DeclarationError where nothing has that key, and where what is declared has changed since.
        """
        if not key.refines:
            return None
        past = release.home.ledger.history(key.refines)
        if not past:
            epsilon = epsilon_text(release.refine or Fraction(0))
            raise DeclarationError(
                f"{'/'.join(release.path)}: refine: expected a release at ε={epsilon}, got none"
            )
        facts = past[0].facts
        base = replace(
            release, epsilon=Fraction(facts["epsilon"]), noise_name=facts["noise"], refine=None
        )
        drawn = base.draw_key(facts["snapshot"], int(facts["replicate"]))
        found = drawn.refining(facts.get(REFINES, ""))
        if found.digest != key.refines:
            raise DeclarationError(
                f"{'/'.join(release.path)}: refine: expected the declarations and parameters that "
                f"the release at ε={base.level} was drawn with, got others"
            )
        return cls(base, found, past[0])

    @property
    def facts(self) -> dict[str, str]:
        """What the refinement says of it."""
        return {REFINES: self.key.digest, REFINED_FROM: self.release.level}

    def require_settled(self) -> None:
        """DeclarationError for a release that was not finished: its answers may be more."""
        state = self.release.home.ledger.state(self.key.digest)
        if state != "settled":
            raise DeclarationError(
                f"{self.release.what}: expected a finished release to refine, got one that is "
                f"{state}"
            )

    def require_same_rows(self, rows: str) -> None:
        """DeclarationError where these are not the rows that it was drawn of: noise that belongs to
        others would be refined.

        rows   keyed fingerprint of the rows that are counted now
        """
        if self.begun.facts.get(ROWS) != rows:
            raise DeclarationError(
                f"{self.release.what}: refine: expected the rows of snapshot {self.key.snapshot} "
                "that it was drawn of, got rows that were read or prepared again otherwise"
            )

    def told(self) -> tuple[Coarse, Answered]:
        """What it released, made again from its stored answers, and these answers; Damaged where
        they are not those that were settled.
        """
        fitted, answered = self.release.told(self.key)
        return Coarse(fitted.released, self.release.guarantee.amount), answered


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
    release.home.ledger.require_claimable(other.population, *other.source.identities)


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
