"""What must hold of the ledger at any moment, and what once a backfill is finished."""

import json
import re
from collections import Counter
from fractions import Fraction
from pathlib import Path

from dp_pipeline.config.amounts import NANO, epsilon_text
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.ledger import Ledger
from dp_pipeline_tests.orchestration.projects import Project

_HEADER = re.compile(r"release ([0-9a-f]{16,128})")


def drawn_keys(project: Project, dataset: str) -> set[str]:
    """Keys of the releases of which a noisy answer was stored, and so may have been seen."""
    keys = set()
    for path in Path(project.home.released, dataset).rglob("transcript.jsonl"):
        header, *answers = path.read_bytes().splitlines()
        if answers:
            begun = _HEADER.search(json.loads(header)["record"]["question"])
            assert begun is not None, f"a transcript that names no release: {path}"
            keys.add(begun[1])
    return keys


def charges(ledger: Ledger, population: str) -> dict[str, int]:
    """Key → nano-ε of every reservation; an AssertionError for a key that was reserved twice."""
    entries = ledger.entries(population)
    rows = [(str(entry.key), entry.nano_epsilon) for entry in entries if entry.event == "reserve"]
    twice = [key for key, times in Counter(key for key, _ in rows).items() if times > 1]
    assert not twice, f"reserved more than once: {twice}"
    return dict(rows)


def unfinished(project: Project, spec: DatasetSpec) -> set[str]:
    entries = project.ledger.entries(spec.population)
    ended = {entry.key for entry in entries if entry.event in ("settled", "dead")}
    reserved = {entry.key for entry in entries if entry.event == "reserve"}
    return set(map(str, reserved - ended))


def require_nothing_uncounted(project: Project, spec: DatasetSpec) -> None:
    """At any moment, also while somebody draws: no answer without its charge."""
    # In this order: a charge comes before its first answer, so one that is drawn now is paid now.
    drawn = drawn_keys(project, spec.name)
    paid = charges(project.ledger, spec.population)
    assert drawn <= set(paid), f"drawn and not paid: {sorted(drawn - set(paid))}"
    spent = project.spent(spec)
    assert spent >= Fraction(sum(paid.values()), NANO), "less is spent than was charged"
    project.ledger.verify()


def require_paid_once(project: Project, spec: DatasetSpec, *, snapshots: int) -> None:
    """When all is done: every model at every ε of every snapshot was paid once, and exists."""
    require_nothing_uncounted(project, spec)
    paid = charges(project.ledger, spec.population)
    assert project.spent(spec) == Fraction(sum(paid.values()), NANO)
    assert project.spent(spec) == snapshots * spec.cost_of_everything
    assert len(paid) == snapshots * len(spec.models) * len(spec.partitions)
    settled = [e.key for e in project.ledger.entries(spec.population) if e.event == "settled"]
    assert sorted(map(str, settled)) == sorted(paid), "each is settled, once"


def replay_everything(project: Project, spec: DatasetSpec) -> None:
    """Asking again for the current snapshot's releases: all are there, and none costs anything."""
    spent = project.spent(spec)
    for model in spec.models:
        for epsilon in spec.partitions:
            again = project.publish(spec, model=model, epsilon=epsilon_text(epsilon))
            assert (again.state, again.nano) == ("replayed", 0), f"{model} at ε={epsilon}"
    assert project.spent(spec) == spent
