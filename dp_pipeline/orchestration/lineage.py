"""The account of a data set's population, and the snapshot that is read under it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from dp_pipeline.ledger import Account, Ledger
from dp_pipeline.ledger.home import Home
from dp_pipeline.orchestration.history import require_no_history
from dp_pipeline.raw.snapshot import Snapshot, current_snapshot, preparing
from dp_pipeline.schema.errors import NotPrepared
from dp_pipeline.schema.spec import DatasetSpec


def open_lineage(spec: DatasetSpec, home: Home) -> Ledger:
    """Open the account of a data set's population, claim its source for it, give the ledger.

    Both are one transaction of the ledger: a refused claim opens no account. The account rules: a
    file that declares lower limits goes on, and ``limits_word`` says so.

    Raises DeclarationError when the account has another unit, relation, purpose or delta, or lower
    limits than the file, or the source belongs to another lineage; Damaged when this home
    holds rows or releases of the data set or of its population, or of nobody knows whom, and its
    ledger has never heard of the lineage: a ledger that is gone must not come back with a full
    budget.
    """
    ledger = home.ledger
    if ledger.account(spec.lineage) is None:
        require_no_history(spec, home)
    ledger.open_account(
        declared_account(spec),
        sources=spec.source.identities,
        distinct_population=spec.distinct_population,
    )
    return ledger


def claiming(spec: DatasetSpec, ledger: Ledger) -> Callable[[str], None]:
    """Claims one more name of a data set's source for its lineage, as the declared ones are: the
    hash of a download that nobody declared.
    """
    reason = spec.distinct_population
    return partial(ledger.claim_source, spec.lineage, distinct_population=reason)


def limits_word(spec: DatasetSpec, home: Home) -> str:
    """One line where the data set file declares other limits than the account has; else empty."""
    opened = home.ledger.account(spec.lineage)
    return "" if opened is None else declared_account(spec).difference_from(opened)


def declared_account(spec: DatasetSpec) -> Account:
    """The account as the data set file declares it."""
    return Account(
        lineage=spec.lineage,
        unit=str(spec.protection),
        relation=spec.relation,
        purpose=spec.purpose,
        ceiling=spec.ceiling,
        delta=spec.delta,
        per_month=spec.per_month,
    )


def require_snapshot(spec: DatasetSpec, home: Home) -> Snapshot:
    """The snapshot that is read now, under the account that the file declares.

    Raises what ``open_lineage`` does, so that no stage reads rows, and no evaluation
    shows exact numbers, under a declaration that the ledger does not know; NotPrepared
    before the first snapshot.
    """
    ledger = open_lineage(spec, home)
    snapshot = current_snapshot(home.raw, spec.name, ledger.key(spec.lineage))
    if snapshot is None:
        raise NotPrepared(
            f"{spec.name}: expected a prepared snapshot, got none: {preparing(spec.name)}"
        )
    # Since it was read, another lineage may have come to hold what was downloaded for it.
    for name in snapshot.downloaded:
        claiming(spec, ledger)(name)
    return snapshot
