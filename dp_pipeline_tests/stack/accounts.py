"""What must hold of the ledger and of the store at any moment, and when a backfill is finished."""

import json
import os
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from dp_pipeline.config.amounts import NANO, epsilon_text
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import Damaged
from dp_pipeline.ledger import Ledger
from dp_pipeline.releases.home import Home
from dp_pipeline.releases.replay import read_document
from dp_pipeline.releases.store import POPULATION, BundleStore
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


PAUSE_SECONDS = 0.02


@dataclass
class StoreReader:
    """What a reader of the store at ``root`` has seen.

    texts    bundle → its JSON when it was first seen
    broken   what was there and could not be read whole, in words
    looks    how often it went through the store
    """

    root: Path
    texts: dict[Path, str] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    looks: int = 0

    def look(self) -> None:
        """Open every bundle that was not there before, and every pointer to one."""
        self.looks += 1
        for path in self._appeared():
            self.texts[path] = self._read(path)

    def look_again(self) -> None:
        """Every bundle and pointer once more: whole, and a bundle as it was at first."""
        self.look()
        for path, text in self.texts.items():
            if self._read(path) != text:
                self._note(path, "not what it was")
        for path in self.root.rglob("partition-*.json"):
            folder = self.root / read_document(path)["folder"]
            if folder not in self.texts:
                self._note(path, "points at no bundle")

    def _read(self, path: Path) -> str:
        try:
            return BundleStore(self.root).read_sealed(path, key=self._key(path)).to_json()
        except Damaged as damage:
            self._note(path, str(damage))
            return ""

    def _key(self, path: Path) -> bytes:
        population = (path.parent / POPULATION).read_text(encoding="utf-8").strip()
        return Home(self.root.parent).ledger.key(population)

    def _note(self, path: Path, words: str) -> None:
        self.broken.append(f"{path.relative_to(self.root)}: {words}")

    def _appeared(self) -> Iterator[Path]:
        """A release has one bundle here, so its folder is left alone once that was seen."""
        seen = {path.parent for path in self.texts}
        for dataset in _folders(self.root):
            for model in _folders(dataset):
                for release in _folders(model):
                    if release not in seen:
                        yield from (p for p in _folders(release) if p.name.startswith("bundle-"))


@contextmanager
def reading(root: Path) -> Iterator[StoreReader]:
    """A reader at work until the end of the block; then it has looked once more at everything."""
    reader, over = StoreReader(root), threading.Event()

    def work() -> None:
        while not over.wait(PAUSE_SECONDS):
            reader.look()

    thread = threading.Thread(target=work, name="store-reader")
    thread.start()
    try:
        yield reader
    finally:
        over.set()
        thread.join()
    reader.look_again()


def _folders(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as found:
            return [Path(one.path) for one in found if one.is_dir()]
    except FileNotFoundError:
        return []
