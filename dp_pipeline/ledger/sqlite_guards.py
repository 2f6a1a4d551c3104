"""What keeps the tables of a SQLite file append-only.

A row of ``state`` may change while the row that changes it is written and not sealed yet: between
the insert of an entry and the moment at which the row ``ledger`` of ``state`` takes its number.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection

from dp_pipeline.ledger.tables import CHARGES, GENESIS

_TIP = "(SELECT coalesce(max(sequence), 0) FROM entries)"
_SEAL = (
    "coalesce((SELECT entry FROM state WHERE kind = 'ledger' AND lineage = '' AND name = ''), -1)"
)
_NEW_IS_SEAL, _OLD_IS_SEAL = (
    f"{row}.kind IS 'ledger' AND {row}.lineage IS '' AND {row}.name IS ''" for row in ("NEW", "OLD")
)
_IS_CLOSED = f"{_SEAL} = {_TIP}"


def _abort(name: str, moment: str, when: str = "") -> str:
    return (
        f"CREATE TRIGGER {name} BEFORE {moment} {when}"
        "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"
    )


# INSERT OR REPLACE deletes without firing a DELETE trigger: hence the checks before an insert.
TRIGGERS: Final = (
    _abort("entries_not_updated", "UPDATE ON entries"),
    _abort("entries_not_deleted", "DELETE ON entries"),
    _abort("spends_not_updated", "UPDATE ON spends"),
    _abort("spends_not_deleted", "DELETE ON spends"),
    _abort(
        "entries_follow_the_tip",
        "INSERT ON entries",
        f"WHEN NEW.sequence IS NOT {_TIP} + 1 "
        "OR NEW.previous IS NOT coalesce("
        f"(SELECT hash FROM entries ORDER BY sequence DESC LIMIT 1), '{GENESIS}') ",
    ),
    _abort(
        "entries_follow_a_sealed_row",
        "INSERT ON entries",
        f"WHEN {_SEAL} <> {_TIP} AND NEW.event NOT IN ('quarantined', 'restated') ",
    ),
    _abort(
        "reserves_not_replaced",
        "INSERT ON entries",
        "WHEN NEW.event = 'reserve' AND EXISTS "
        "(SELECT 1 FROM entries WHERE key = NEW.key AND event = 'reserve') ",
    ),
    _abort(
        "ends_not_replaced",
        "INSERT ON entries",
        "WHEN NEW.event IN ('settled', 'dead') AND EXISTS "
        "(SELECT 1 FROM entries WHERE key = NEW.key AND event IN ('settled', 'dead')) ",
    ),
    _abort(
        "spends_belong_to_the_tip",
        "INSERT ON spends",
        f"WHEN NEW.entry IS NOT {_TIP} OR {_IS_CLOSED} OR EXISTS "
        "(SELECT 1 FROM spends WHERE entry = NEW.entry AND ordinal = NEW.ordinal) ",
    ),
    _abort(
        "state_not_inserted",
        "INSERT ON state",
        f"WHEN {_IS_CLOSED} OR (NEW.kind IS 'ledger' "
        f"AND NOT ({_NEW_IS_SEAL} AND {_SEAL} = -1 AND NEW.entry IS {_TIP})) ",
    ),
    _abort("state_not_updated", "UPDATE ON state", f"WHEN {_IS_CLOSED} "),
    _abort("state_not_deleted", "DELETE ON state", f"WHEN ({_OLD_IS_SEAL}) OR {_IS_CLOSED} "),
    _abort(
        "state_sealed_once",
        "UPDATE ON state",
        f"WHEN (({_OLD_IS_SEAL}) OR NEW.kind IS 'ledger') "
        f"AND NOT ({_NEW_IS_SEAL} AND ({_OLD_IS_SEAL}) AND NEW.entry IS {_TIP}) ",
    ),
)


def create_guards(connection: Connection) -> None:
    """Make all triggers."""
    for statement in TRIGGERS:
        connection.exec_driver_sql(statement)


def missing_guards(connection: Connection) -> list[str]:
    """What should be there, word for word, and is not: triggers, and the limit of a charge."""
    rows = connection.exec_driver_sql("SELECT type, sql FROM sqlite_master WHERE sql IS NOT NULL")
    present = {(row[0], row[1]) for row in rows}
    missing = [
        f"trigger {text.split()[2]}" for text in TRIGGERS if ("trigger", text) not in present
    ]
    # A table of the second format has other words behind it.
    if not any(kind == "table" and CHARGES in text for kind, text in present):
        missing.append(f"limit {CHARGES}")
    return missing
