"""What a sensor knows of a source, and when a run is due: for data alone whose changes are
public.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from datetime import date, datetime
from itertools import count
from pathlib import Path

from dp_pipeline.ledger.home import Home
from dp_pipeline.raw.snapshot import current_snapshot
from dp_pipeline.raw.source_stamp import SourceStamp, source_digest, source_stamp
from dp_pipeline.schema.spec import DatasetSpec


@dataclass(frozen=True)
class Watched:
    """The sensor's memory, kept by Dagster between two looks.

    stamp, digest   of the bytes that were looked at last
    taken           digest of those that a snapshot was made of; empty before the first
    runs            how many runs were asked for: a look that is forgotten in a crash asks for
                    the same run once more, not for another
    """

    stamp: str = ""
    digest: str = ""
    taken: str = ""
    runs: int = 0

    @classmethod
    def from_cursor(cls, cursor: str | None) -> Watched:
        """What was remembered; nothing at first, and after somebody wrote anything else there."""
        try:
            return cls(**json.loads(cursor or "{}"))
        except (TypeError, ValueError):
            return cls()

    def to_cursor(self) -> str:
        """As text, for Dagster."""
        return json.dumps(asdict(self))

    @property
    def is_new(self) -> bool:
        """Whether the bytes are others than those of the last snapshot."""
        return self.digest != self.taken

    @property
    def run_key(self) -> str:
        """Of the run that is due."""
        return f"{self.runs + 1}-{self.digest[:16]}"

    def after_run(self) -> Watched:
        """Once the run was asked for."""
        return replace(self, taken=self.digest, runs=self.runs + 1)


def look(spec: DatasetSpec, home: Home, known: Watched) -> Watched | None:
    """What is known after one more look; None while the source is not there or being written.

    Bytes are read where a stamp changed, and only hashed.
    """
    stamp = source_stamp(spec.source)
    if stamp is None or stamp.text == known.stamp:
        return None if stamp is None else known
    digest = source_digest(spec.source)
    if digest is None:
        return None
    seen = replace(known, stamp=stamp.text, digest=digest)
    if not known.taken and _is_older(spec, home, stamp):
        return replace(seen, taken=digest)
    return seen


def free_snapshot_name(spec: DatasetSpec, home: Home, today: date) -> str:
    """The calendar day, with a number where a snapshot of that day is there."""
    for number in count(1):
        name = today.isoformat() if number == 1 else f"{today.isoformat()}-{number}"
        if not Path(home.raw, spec.name, name).exists():
            return name
    raise AssertionError("count never ends")


def _is_older(spec: DatasetSpec, home: Home, stamp: SourceStamp) -> bool:
    """Whether the source was written before the current snapshot was read from it."""
    snapshot = current_snapshot(home.raw, spec.name, b"")
    if snapshot is None or not snapshot.exists():
        return False
    read = snapshot.manifest.get("read_at")
    if read is None:
        return False
    return stamp.changed_at is None or stamp.changed_at < datetime.fromisoformat(read)
