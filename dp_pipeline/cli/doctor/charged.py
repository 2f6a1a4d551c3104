"""Charged: one release that the ledger knows, beside what the declarations of today would ask."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from dp_pipeline.ledger import Entry
from dp_pipeline.ledger.home import Home
from dp_pipeline.orchestration.release import Release
from dp_pipeline.orchestration.syntactic_release import SyntacticRelease
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.release.bundle import SYNTACTIC
from dp_pipeline.release.key import ReleaseKey
from dp_pipeline.schema.epsilon import epsilon_text
from dp_pipeline.schema.parameter_facts import fact_text, fact_values
from dp_pipeline.schema.parameters import texts_of
from dp_pipeline.schema.spec import DatasetSpec

_ENDS = {"settled", "dead"}


@dataclass(frozen=True)
class Charged:
    """One release.

    begun   the row that charged it
    state   ``settled``, ``dead`` or ``unfinished``
    """

    begun: Entry
    state: str

    @property
    def key(self) -> str:
        """Its release key."""
        return str(self.begun.key)

    @property
    def facts(self) -> Mapping[str, str]:
        """What was written when it was charged."""
        return self.begun.facts

    @property
    def is_syntactic(self) -> bool:
        """Whether it is a k-anonymous table."""
        return SYNTACTIC in self.facts

    @property
    def command(self) -> str:
        """What finishes it, or gives it again."""
        of = self.facts.get("dataset", "")
        if self.is_syntactic:
            name, k = self.facts["model"], self.facts["k"]
            return f"dp-pipeline anonymize {of} --method {name} --k {k}"
        name, epsilon = self.facts["model"], self.facts["epsilon"]
        return f"dp-pipeline run {of} --model {name} --epsilon {epsilon}"

    def release(self, spec: DatasetSpec, home: Home) -> Release:
        """The same release as it is declared today; not of a k-anonymous one."""
        epsilon = Fraction(self.facts["epsilon"])
        return Release(spec, self.facts["model"], epsilon, home, self.facts["noise"])

    def draw_key(self, release: Release) -> ReleaseKey:
        """The key of this draw as it is declared today."""
        return release.draw_key(self.facts["snapshot"], int(self.facts["replicate"]))

    def key_today(self, spec: DatasetSpec, home: Home) -> str:
        """The key that this program gives the same question now."""
        if not self.is_syntactic:
            return self.draw_key(self.release(spec, home)).digest
        table = SyntacticRelease(spec, self.facts["model"], int(self.facts["k"]), home)
        # Of a snapshot only its name enters a key.
        return table.key(Snapshot(home.raw / spec.name / self.facts["snapshot"], b""))

    def is_declared(self, spec: DatasetSpec) -> bool:
        """Whether the file of today still asks for it."""
        model = self.facts["model"]
        if self.is_syntactic:
            declared = spec.k_anonymity
            return declared is not None and model in declared.methods
        return model in spec.models and Fraction(self.facts["epsilon"]) in spec.partitions

    def changes(self, spec: DatasetSpec, home: Home) -> list[str]:
        """Why the key of today is another one, in words."""
        told = []
        if self.facts["declaration"] != spec.digest:
            told.append("what is measured of the rows is declared otherwise")
        if not self.is_syntactic:
            release = self.release(spec, home)
            told += _differences(self.facts["measuring"], texts_of(release.model, measuring=True))
            bought = release.evaluation
            now = "none" if bought is None else epsilon_text(bought)
            if self.facts["evaluation"] != now:
                told.append(f"evaluation: was {self.facts['evaluation']}, is {now}")
        if self.begun.lineage != spec.lineage:
            told.append(f"lineage: was {self.begun.lineage}, is {spec.lineage}")
        return told


def charged_releases(entries: tuple[Entry, ...]) -> Iterator[Charged]:
    """Every release that was charged, in order."""
    ends = {one.key: one.event for one in entries if one.event in _ENDS}
    for one in entries:
        if one.event == "reserve":
            yield Charged(one, ends.get(one.key, "unfinished"))


def _differences(stored: str, today: Mapping[str, str]) -> list[str]:
    """What parameters were when they were charged, and are now."""
    before, now = fact_values(stored) or {}, fact_values(fact_text(today)) or {}
    return [
        f"{name}: was {before.get(name, 'not there')}, is {now.get(name, 'not there')}"
        for name in sorted({*before, *now})
        if before.get(name, "not there") != now.get(name, "not there")
    ]
