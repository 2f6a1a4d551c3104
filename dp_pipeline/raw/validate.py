"""Verdicts on a snapshot: whether it is as expected, and whether it may go on. No value leaves."""

from __future__ import annotations

from dataclasses import dataclass

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.raw.clusters import workers_of
from dp_pipeline.raw.expectations import Expectation, expectations_of
from dp_pipeline.raw.ingest import ingested_batches
from dp_pipeline.raw.snapshot import Snapshot, mark_validated, new_snapshot_hint
from dp_pipeline.raw.workers import one_by_one


@dataclass(frozen=True)
class Verdict:
    """Whether an expectation was fulfilled.

    ran     False for a row-dependent one after a structural failure: nothing was looked at,
            and it counts as not passed
    """

    expectation: Expectation
    passed: bool
    ran: bool = True


def validate(spec: DatasetSpec, snapshot: Snapshot, engine: str = "") -> tuple[Verdict, ...]:
    """Test every expectation with Great Expectations and note in the manifest what may go on.

    engine   whose workers look at batches, as ``engine_of`` reads it

    Verdicts come in the order of ``expectations_of``. After a structural
    failure no row is looked at, and the row-dependent ones are reported not
    passed, with ``ran`` False. The manifest then says
    ``validated: {structural, refused, digest, checks}``; a refused snapshot also loses
    its mark ``prepared``. On release data the manifest holds nothing that
    depends on a row.
    """
    # Late: pandas and Great Expectations are loaded by who validates.
    from dp_pipeline.raw.great_expectations_session import passed, passed_together, schema_frame

    declared = expectations_of(spec)
    structural = tuple(expectation for expectation in declared if expectation.structural)
    result = passed(spec, structural, schema_frame(spec, snapshot))
    sound = all(result.values())
    if sound:
        others = tuple(e for e in declared if not e.structural)
        # The library's frames are large: in this process there is one at a time.
        each = workers_of(engine, here=one_by_one)
        with ingested_batches(spec, snapshot) as batches:
            result |= passed_together(spec, others, batches, each)
    verdicts = tuple(
        Verdict(e, passed=result.get(e.name, False), ran=e.name in result) for e in declared
    )
    refused = refusal(spec, verdicts) is not None
    # Another run may be at its stages, which are marked in the same manifest.
    with snapshot.locked():
        mark_validated(spec, snapshot, structural=sound, refused=refused)
    return verdicts


def refusal(spec: DatasetSpec, verdicts: tuple[Verdict, ...]) -> str | None:
    """One line that names the blocking expectations that failed, or None when none did.

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
        f"{spec.name}: expected the snapshot to be as declared, got failed expectations: "
        f"{', '.join(failed)}; mend the source or the file, then name a new snapshot: "
        f"{new_snapshot_hint(spec.name)}"
    )
