"""A reader that looks at the store all the time, and opens every bundle as soon as it appears."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dp_pipeline.config.errors import Damaged
from dp_pipeline.releases.home import Home
from dp_pipeline.releases.replay import read_document
from dp_pipeline.releases.store import POPULATION, BundleStore

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
