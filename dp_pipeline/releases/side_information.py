"""Side information of a release, at no cost: the release of the time window before, and the public
rows of another data set. Its ledger row names both, so that a resumed release uses the same.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.config.catalogue import find_spec
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.encoding import Codes
from dp_pipeline.config.errors import DeclarationError, NotPrepared
from dp_pipeline.config.parameters import fact_text
from dp_pipeline.inference.earlier import PublicTable
from dp_pipeline.models.base import Model
from dp_pipeline.models.tables.base import TableModel
from dp_pipeline.raw.snapshot import current_snapshot
from dp_pipeline.releases.home import Home
from dp_pipeline.releases.replay import pointed_bundle, read_document
from dp_pipeline.results.bundle import Bundle, ReleaseKey


@dataclass(frozen=True)
class PublicRows:
    """The prepared rows of the data set that a model uses as prior knowledge.

    fact   name of the data set and a digest of all codes, as text for the ledger
    """

    table: PublicTable
    fact: str

    @classmethod
    def of(cls, spec: DatasetSpec, model: Model, home: Home, *, what: str) -> Self | None:
        """Return the public rows that a model names; None if it names none.

        what   words for messages

        DeclarationError for rows that are not public, by their file or by the ledger, for rows of
        the same population, and for other levels of a modelled attribute; NotPrepared where there
        are none.
        """
        name = model.prior_name
        if not name:
            return None
        other, where = find_spec(name), f"{what}: prior"
        if other.is_release or other.population == spec.population:
            fault = "sensitive rows" if other.is_release else "the same population"
            raise DeclarationError(
                f"{where}: the prior must be a data set with `purpose: benchmark` and a population "
                f"of its own, but {other.name} has {fault}: name another"
            )
        home.ledger.require_claimable(other.population, *other.source.identities)
        assert isinstance(model, TableModel)
        names = model.chosen_attributes(spec.domain)
        _require_alike(spec, other, names, where)
        sizes = {attribute: spec.domain[attribute].size for attribute in names}
        table = PublicTable(dict(_codes(home, other, names, where)), sizes)
        return cls(table, f"{name} {table.digest}")


def earlier_release_folder(key: ReleaseKey, spec: DatasetSpec, home: Home, pointer: Path) -> str:
    """Return the store folder of the previous window's release; empty if none suits the key.

    It suits if its declarations and parameters are those of the key. Damaged if it was changed.

    spec      the declaration, at the previous window
    pointer   the file that names it
    """
    stored = read_document(pointer)
    if stored is None:
        return ""
    folder = str(stored["folder"])
    facts = earlier_bundle(key, spec, home, folder).facts
    expected = {"declaration": key.declaration, "measuring": fact_text(key.measuring)}
    return folder if expected.items() <= facts.items() else ""


def earlier_bundle(key: ReleaseKey, spec: DatasetSpec, home: Home, folder: str) -> Bundle:
    """Return the settled release of a model in a store folder; Damaged if it was changed.

    key   of a release of the same model and ε, of any time window
    """
    level = epsilon_text(key.epsilon)
    return pointed_bundle(spec, home, {"folder": folder}, model=key.model, epsilon=level)


def _require_alike(
    spec: DatasetSpec, other: DatasetSpec, names: tuple[str, ...], where: str
) -> None:
    """Raise DeclarationError unless some attributes have the same cells in both data sets."""
    for name in names:
        attribute, fault = spec.domain[name], "no such attribute is declared there"
        if name in other.domain.names:
            same = other.domain[name]
            fault = "" if attribute.cells == same.cells else "it has others there"
            if attribute.nullable != same.nullable:
                fault = "missing values are declared in only one of them"
        if fault:
            raise DeclarationError(
                f"{where}: the attribute {name} must have the same levels or bins in "
                f"{other.name}, but {fault}: declare it alike in both"
            )


def _codes(home: Home, other: DatasetSpec, names: tuple[str, ...], where: str) -> Codes:
    snapshot = None
    if home.ledger.account(other.population) is not None:
        snapshot = current_snapshot(home.raw, other.name, home.ledger.key(other.population))
    if snapshot is None:
        raise NotPrepared(
            f"{where}: the rows of {other.name} are not prepared: `dp-pipeline run {other.name}` "
            "first"
        )
    # A file that was read through a link may be protected by another population by now.
    home.ledger.require_claimable(other.population, *snapshot.claimed)
    from dp_pipeline.raw.stages import prepared_codes

    return prepared_codes(other, snapshot, names)
