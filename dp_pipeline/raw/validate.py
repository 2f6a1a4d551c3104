"""Validation of a snapshot: verdicts on its expectations, and whether it may be prepared."""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import Damaged
from dp_pipeline.files import write_private
from dp_pipeline.raw.clusters import workers_of
from dp_pipeline.raw.expectations import Expectation, expectations_of
from dp_pipeline.raw.ingest import ingested_batch_readers
from dp_pipeline.raw.snapshot import (
    Snapshot,
    mark_validated,
    new_snapshot_hint,
    stored_object,
)


@dataclass(frozen=True)
class Verdict:
    """The outcome of checking one expectation.

    share   exact share of the evaluated rows that are as expected; None where there are none
    ran     False for a row-dependent one after a structural failure, when no row was read; it then
            counts as not passed
    """

    expectation: Expectation
    passed: bool
    ran: bool = True
    share: float | None = None


def validate(spec: DatasetSpec, snapshot: Snapshot, engine: str = "") -> tuple[Verdict, ...]:
    """Check a snapshot against its expectations; store the outcome, and return the verdicts.

    engine   engine whose workers read batches, see ``split_engine``

    Verdicts are in the order of ``expectations_of``. After a structural failure no row is read. The
    manifest records whether rows are refused; a refused snapshot loses its mark ``prepared``. For
    release data nothing in the manifest depends on a row: exact shares of what failed are written
    to a file of their own, for the custodian alone. NotPrepared without ingested rows, Damaged if
    they are not as they were stored.
    """
    # Imported late: pandas and Great Expectations are slow, and only validation needs them.
    from dp_pipeline.raw.great_expectations_session import evaluate, evaluate_batches
    from dp_pipeline.raw.validation_frames import schema_frame

    expectations = expectations_of(spec)
    structural = tuple(e for e in expectations if e.structural)
    passed, shares = evaluate(spec, structural, schema_frame(spec, snapshot)), dict[str, float]()
    is_sound = all(passed.values())
    if is_sound:
        row_dependent = tuple(e for e in expectations if not e.structural)
        # The library's frames are large, so this process has one at a time.
        parallel_map = workers_of(engine, local=map)
        with ingested_batch_readers(spec, snapshot) as batches:
            tallies = evaluate_batches(spec, row_dependent, batches, parallel_map)
        passed |= {e.name: tallies[e.name].is_fulfilled(e) for e in row_dependent}
        shares = {name: tally.share for name, tally in tallies.items() if tally.row_count}
    verdicts = tuple(
        Verdict(e, passed.get(e.name, False), e.name in passed, shares.get(e.name))
        for e in expectations
    )
    failed_shares = {name: share for name, share in shares.items() if not passed[name]}
    write_private(snapshot.folder / _SHARES, json.dumps(failed_shares).encode())
    is_refused = refusal(spec, verdicts) is not None
    # Another run may write marks of stages to the same manifest.
    with snapshot.locked():
        mark_validated(spec, snapshot, structural=is_sound, refused=is_refused)
    return verdicts


_SHARES = "failed_shares.json"


def add_passing_shares(snapshot: Snapshot, names: Iterable[str]) -> tuple[str, ...]:
    """Return each check's name, with its exact share of passing rows in % if that is stored.

    Shares are stored of failed checks alone, and are for the custodian alone. Damaged if the stored
    shares cannot be read."""
    path = snapshot.folder / _SHARES
    shares = stored_object(path) if path.is_file() else {}
    if shares is None or not all(isinstance(share, int | float) for share in shares.values()):
        raise Damaged(
            f"{path} must hold a JSON object with the share of each failed check, but it does not: "
            f"check the rows in a new snapshot: {snapshot.new_snapshot_hint}"
        )
    return tuple(
        f"{name} ({100 * shares[name]:.4f} % are so)" if name in shares else name for name in names
    )


def refusal(spec: DatasetSpec, verdicts: tuple[Verdict, ...]) -> str | None:
    """Return a message about the failed expectations that block preparation; None without any.

    Those that did not run are left out, as a structural one has failed then.

    >>> from dp_pipeline.config.catalogue import find_spec
    >>> refusal(find_spec("trips"), ())
    """
    failed = [
        verdict.expectation.name
        for verdict in verdicts
        if verdict.ran and verdict.expectation.blocking and not verdict.passed
    ]
    if not failed:
        return None
    return (
        f"{spec.name}: the snapshot is not as declared, as these expectations failed: "
        f"{', '.join(failed)}; mend the source or the file, then name a new snapshot: "
        f"{new_snapshot_hint(spec.name, spec.window)}"
    )
