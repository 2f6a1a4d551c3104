"""The releases that the ledger has charged, with today's declarations of their rows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import PipelineError
from dp_pipeline.config.parameters import fact_text, fact_values, texts_of
from dp_pipeline.files import is_locked
from dp_pipeline.ledger import Entry
from dp_pipeline.ledger.entries import blocks_of
from dp_pipeline.raw.snapshot import current_snapshot
from dp_pipeline.releases.domain_release import NAME as DOMAIN
from dp_pipeline.releases.domain_release import DomainRelease, with_discovered
from dp_pipeline.releases.epsilon_release import EpsilonRelease
from dp_pipeline.releases.home import NOISE_VARIABLE, Home, noise_name
from dp_pipeline.releases.k_anonymous_release import KAnonymousRelease
from dp_pipeline.releases.noisy_release import NoisyRelease
from dp_pipeline.releases.release import Release
from dp_pipeline.releases.replay import command_of, snapshot_by_name
from dp_pipeline.results.bundle import K_ANONYMITY, REFINED_FROM, REFINES, Key

OTHER_CODE = "its key is made otherwise by this code"


@dataclass(frozen=True)
class ChargedRelease:
    """A release that the ledger has charged, with the current declaration of its rows.

    entry      the row of the ledger that charged it
    end        the row that settled it or ended it for ever; None if it is unfinished
    declared   today's declaration of its data set; None where no file declares it
    """

    entry: Entry
    end: Entry | None
    home: Home
    declared: DatasetSpec | None = None

    @cached_property
    def spec(self) -> DatasetSpec | None:
        """Today's declaration at the last of its time windows; None without a declaration, or if
        that does not fit the windows."""
        spec, windows = self.declared, self.windows
        if spec is None or (spec.windows is None) != (not windows):
            return None
        try:
            return spec.at_window(windows[-1]) if windows else spec
        except PipelineError:
            return None

    @property
    def state(self) -> str:
        """``settled``, ``dead`` or ``unfinished``."""
        return "unfinished" if self.end is None else self.end.event

    @property
    def facts(self) -> Mapping[str, str]:
        return self.entry.facts

    @property
    def windows(self) -> tuple[str, ...]:
        """The time windows that were charged; empty for rows without windows."""
        return blocks_of(self.facts)

    @property
    def level(self) -> str | None:
        """Its ε or K as text; None for other charges than of a release."""
        return self.facts.get(self.release_class.LEVEL_FACT)

    @property
    def release_class(self) -> type[Release]:
        """The class whose objects are releases of this kind."""
        if self.facts.get("model") == DOMAIN:
            return DomainRelease
        return KAnonymousRelease if K_ANONYMITY in self.facts else EpsilonRelease

    @property
    def command(self) -> str:
        """The command that finishes the release or shows it again."""
        refined = self.facts.get(REFINED_FROM)
        refine = f" --refine {refined}" if refined else ""
        return self._command_at(self.facts.get("epsilon", "")) + refine

    def _command_at(self, epsilon: str) -> str:
        facts, windows = {**self.facts, "epsilon": epsilon}, self.windows
        noise = facts.get("noise", noise_name())
        # Of other noise it would be another release, and be charged anew.
        setting = "" if noise == noise_name() else f"{NOISE_VARIABLE}={noise} "
        facts = {} if self.release_class is DomainRelease else facts
        window, span, dataset = (windows or ("",))[-1], len(windows), self.facts.get("dataset", "")
        return f"{setting}dp-pipeline {command_of(dataset, facts, window=window, span=span)}"

    @property
    def give_up_command(self) -> str:
        """The command that ends the release for ever, in quotes."""
        return f"`dp-pipeline budget give-up {str(self.entry.key)[:12]} --reason …`"

    @property
    def advice_on_snapshot(self) -> str:
        """The command that reads the release's snapshot again where it is no longer the current
        one, or that gives the release up, as a text."""
        window, (*earlier, last) = (self.windows or ("",))[-1], self.facts["snapshot"].split("+")
        name = last.removeprefix(f"{window}.") if window else last
        if earlier or name == window:
            words = f"no command goes back to {self.facts['snapshot']}, so give it up by"
            return f"{words} {self.give_up_command}"
        # `--refine` takes no snapshot: the release that is refined is replayed with it first.
        epsilon = self.facts.get(REFINED_FROM) or self.facts.get("epsilon", "")
        return f"`{self._command_at(epsilon)} --snapshot {name}` goes back to it"

    @property
    def is_declared(self) -> bool:
        """Whether a file still declares the model or method of the release and its ε or K, or
        something to discover for a discovery."""
        spec, kind = self.spec, self.release_class
        if spec is None or kind is DomainRelease:
            return spec is not None and bool(spec.to_discover)
        return self.facts["model"] in kind.names(spec) and self.level in kind.levels(spec)

    def release(self) -> Release:
        """Return the release as it is declared today, with the domain of its snapshot.

        NotPrepared if that domain is still to be discovered.
        """
        spec, name, home = self.spec, self.facts["model"], self.home
        assert spec is not None, f"{self.entry.what}: no file declares the release"
        if self.release_class is DomainRelease:
            return DomainRelease(spec, home, self.facts["noise"])
        snapshot = snapshot_by_name(spec, home, self.facts["snapshot"])
        spec = with_discovered(spec, home, snapshot=snapshot)
        if self.release_class is KAnonymousRelease:
            return KAnonymousRelease(spec, name, int(self.facts["k"]), home)
        epsilon, span = Fraction(self.facts["epsilon"]), max(1, len(self.windows))
        return EpsilonRelease(spec, name, epsilon, home, self.facts["noise"], span=span)

    def key(self, release: Release) -> Key:
        """Return the key that this program gives to the release as it is declared today."""
        if isinstance(release, NoisyRelease):
            key = release.draw_key(self.facts["snapshot"], int(self.facts["replicate"]))
            return key.refining(self.facts.get(REFINES, ""))
        return release.key(snapshot_by_name(release.spec, self.home, self.facts["snapshot"]))

    @property
    def is_current(self) -> bool:
        """Whether the snapshots of the release are the current ones."""
        raw, dataset, windows = self.home.raw, self.facts["dataset"], self.windows or ("",)
        current = [current_snapshot(raw, dataset, b"", window) for window in windows]
        ids = ["" if snapshot is None else snapshot.id for snapshot in current]
        return "+".join(ids) == self.facts["snapshot"]

    def is_locked(self) -> bool:
        """Return whether a process on this computer holds the lock of the release."""
        path = self.home.ledger_folder / "locks" / f"{self.entry.key}.lock"
        return path.is_file() and is_locked(path)

    def key_changes(self, release: Release) -> str:
        """Return as text what changed since the charge, so that the release as it is declared today
        has another key."""
        changes, spec = [], release.spec
        if self.facts["declaration"] != spec.digest:
            changes.append("what is measured of the rows is declared otherwise")
        if isinstance(release, EpsilonRelease):
            before = fact_values(self.facts["measuring"]) or {}
            now = fact_values(fact_text(texts_of(release.model, measuring=True))) or {}
            evaluation = release.evaluation
            before["evaluation"] = self.facts["evaluation"]
            now["evaluation"] = "none" if evaluation is None else epsilon_text(evaluation)
            for name in sorted({*before, *now}):
                values = [values.get(name, "not there") for values in (before, now)]
                if values[0] != values[1]:
                    changes.append(f"{name}: was {values[0]}, is {values[1]}")
        if self.entry.population != spec.population:
            changes.append(f"population: was {self.entry.population}, is {spec.population}")
        return "; ".join(changes) or OTHER_CODE


def charged_releases(
    home: Home, specs: Mapping[str, DatasetSpec], population: str | None = None
) -> Iterator[ChargedRelease]:
    """Yield every charged release of one population, or of all, in the order of the ledger.

    specs   name of a data set → its declaration of today
    """
    entries = home.ledger.entries(population)
    ends = {entry.key: entry for entry in entries if entry.event in ("settled", "dead")}
    for entry in entries:
        if entry.event == "reserve":
            declared = specs.get(entry.facts.get("dataset", ""))
            yield ChargedRelease(entry, ends.get(entry.key), home, declared)
