"""Checks of the charged releases: whether this program and today's files replay or finish them."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from dp_pipeline.cli.check.findings import Finding, collect_error
from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.config.catalogue import load_all
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import NoAnswer, NotPrepared, OtherQuestion, PipelineError
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
from dp_pipeline.releases.publish import require_reserved_parameters
from dp_pipeline.releases.release import Release
from dp_pipeline.releases.replay import require_intact, require_reproducible, snapshot_by_name
from dp_pipeline.results.bundle import K_ANONYMITY, REFINED_FROM, REFINES, Key, ReleaseKey
from dp_pipeline.results.transcript import AnswersLost, Transcript

OTHER_CODE = "its key is made otherwise by this code"


@dataclass(frozen=True)
class ChargedRelease:
    """A release that the ledger has charged, with the current declaration of its rows.

    entry   the row of the ledger that charged it
    state   ``settled``, ``dead`` or ``unfinished``
    spec    today's declaration of its rows; None where no file declares them
    """

    entry: Entry
    state: str
    home: Home
    spec: DatasetSpec | None = None

    @property
    def facts(self) -> Mapping[str, str]:
        return self.entry.facts

    @property
    def windows(self) -> tuple[str, ...]:
        """The time windows that were charged; empty for rows without windows."""
        return blocks_of(self.facts)

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
        dataset, name = self.facts.get("dataset", ""), self.facts["model"]
        if self.release_class is KAnonymousRelease:
            return f"dp-pipeline anonymize {dataset} --method {name} --k {self.facts['k']}"
        noise, windows = self.facts["noise"], self.windows
        # Of other noise it would be another release, and be charged anew.
        setting = "" if noise == noise_name() else f"{NOISE_VARIABLE}={noise} "
        if self.release_class is DomainRelease:
            return f"{setting}dp-pipeline run {dataset}"
        span = f" --window {windows[-1]} --span {len(windows)}" if windows else ""
        return f"{setting}dp-pipeline run {dataset}{span} --model {name} --epsilon {epsilon}"

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

    def release(self, spec: DatasetSpec) -> Release:
        """Return the release as ``spec`` declares it, with the domain of its snapshot.

        NotPrepared if that domain is still to be discovered.
        """
        name, home = self.facts["model"], self.home
        if self.release_class is DomainRelease:
            return DomainRelease(spec, home, self.facts["noise"])
        snapshot = snapshot_by_name(spec, home, self.facts["snapshot"])
        spec = with_discovered(spec, home, snapshot=snapshot)
        if self.release_class is KAnonymousRelease:
            return KAnonymousRelease(spec, name, int(self.facts["k"]), home)
        epsilon, span = Fraction(self.facts["epsilon"]), max(1, len(self.windows))
        return EpsilonRelease(spec, name, epsilon, home, self.facts["noise"], span=span)

    def key(self, spec: DatasetSpec) -> Key:
        """Return the key that this program gives to the release as ``spec`` declares it today.

        NotPrepared if its domain is still to be discovered.
        """
        release = self.release(spec)
        if isinstance(release, NoisyRelease):
            key = release.draw_key(self.facts["snapshot"], int(self.facts["replicate"]))
            return key.refining(self.facts.get(REFINES, ""))
        return release.key(snapshot_by_name(spec, self.home, self.facts["snapshot"]))

    def is_declared(self, spec: DatasetSpec) -> bool:
        """Return whether ``spec`` still declares the model and ε of the release, its k-anonymous
        method, or something to discover for a discovery; the K is not compared."""
        model = self.facts["model"]
        if self.release_class is DomainRelease:
            return bool(spec.to_discover)
        if self.release_class is KAnonymousRelease:
            return spec.k_anonymity is not None and model in spec.k_anonymity.methods
        is_model = model in EpsilonRelease.names(spec)
        return is_model and Fraction(self.facts["epsilon"]) in spec.partitions

    def is_current(self, spec: DatasetSpec) -> bool:
        """Return whether the snapshots of the release are the current ones."""
        windows = self.windows or ("",)
        current = [current_snapshot(self.home.raw, spec.name, b"", window) for window in windows]
        ids = ["" if snapshot is None else snapshot.id for snapshot in current]
        return "+".join(ids) == self.facts["snapshot"]

    def is_locked(self) -> bool:
        """Return whether a process on this computer holds the lock of the release."""
        path = self.home.ledger_folder / "locks" / f"{self.entry.key}.lock"
        return path.is_file() and is_locked(path)

    def key_changes(self, spec: DatasetSpec) -> str:
        """Return as text what changed since the charge, so that ``spec`` gives the release another
        key."""
        changes = []
        release = self.release(spec)
        if self.facts["declaration"] != release.spec.digest:
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


def charged_releases(home: Home) -> Iterator[ChargedRelease]:
    """Yield every charged release, in the order of the ledger."""
    # `check_dataset_files` names the files that cannot be read.
    (specs, _), entries = load_all(), home.ledger.entries()
    ends = {entry.key: entry.event for entry in entries if entry.event in ("settled", "dead")}
    for entry in entries:
        if entry.event == "reserve":
            state = ends.get(entry.key, "unfinished")
            spec = _spec_of(specs.get(entry.facts.get("dataset", "")), blocks_of(entry.facts))
            yield ChargedRelease(entry, state, home, spec)


def _spec_of(spec: DatasetSpec | None, windows: tuple[str, ...]) -> DatasetSpec | None:
    """Return the declaration at the last of ``windows``, or unchanged without windows; None without
    a declaration, or if it does not fit the windows."""
    if spec is None or (spec.windows is None) != (not windows):
        return None
    try:
        return spec.at_window(windows[-1]) if windows else spec
    except PipelineError:
        return None


def check_releases(home: Home, *, replay: bool = False) -> Iterator[Finding]:
    """Yield the numbers of releases by outcome and by code, and a finding for each with a problem.

    replay   also rebuild every settled noisy release that a file still declares, and compare

    Other releases are not rebuilt, nor are those with another key today or without a stored bundle.
    A release whose check raises an error is a fault, and may be in no number by outcome.
    """
    findings: list[Finding] = []
    outcomes: Counter[str] = Counter()
    makers: Counter[str] = Counter()
    for release in charged_releases(home):
        maker, today = release.facts.get("code", "unknown code"), release.release_class.version()
        makers[maker if maker == today else f"{maker}; this is {today}"] += 1
        with collect_error(findings, release.entry.what):
            outcomes[_outcome(release, findings)] += 1
            if replay:
                findings += _replay(release)
    text = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
    yield Finding("ok", text or "nothing was released yet")
    for maker, count in sorted(makers.items()):
        yield Finding("ok", f"{count} made by {maker}")
    yield from findings


def _outcome(release: ChargedRelease, findings: list[Finding]) -> str:
    """Return in words how the next run treats a release; append a finding if the release is
    unfinished or would be charged anew."""
    spec = release.spec
    if release.state == "unfinished":
        findings.append(_unfinished(release))
        return "charged and not finished"
    if spec is None or not release.is_declared(spec):
        return "stored, and not declared by any file of today"
    try:
        key = release.key(spec).digest
    except NotPrepared:
        return "stored, of a domain that is not discovered as the file declares it"
    if key == release.entry.key:
        return "replayed at no cost" if release.state == "settled" else "dead"
    if not release.is_current(spec):
        return "stored, of an earlier snapshot"
    text = f"{release.entry.what}: a run would charge it anew: {release.key_changes(spec)}"
    findings.append(Finding("note", text))
    return "charged anew by the next run"


def _replay(release: ChargedRelease) -> Iterator[Finding]:
    """Yield one finding: whether this code rebuilds a settled release's bundle from its answers.

    Yield none for a release that is k-anonymous, not settled or not declared, and where there is
    another key or no stored bundle.
    """
    spec, is_settled = release.spec, release.state == "settled"
    if spec is None or not is_settled or release.release_class is KAnonymousRelease:
        return
    if not release.is_declared(spec):
        return
    today, key = release.release(spec), release.key(spec)
    path = today.store.bundle_path(key, today.postprocessing)
    if key.digest != release.entry.key or not path.exists():
        return
    try:
        require_reproducible(today, require_intact(today, path))
    except PipelineError as error:
        yield Finding("fault", f"{release.entry.what}: {error}")
    else:
        text = f"{release.entry.what}: its stored answers give the same bundle, byte by byte"
        yield Finding("ok", text)


def _unfinished(release: ChargedRelease) -> Finding:
    name = f"{release.entry.what}, key {str(release.entry.key)[:12]}"
    if release.is_locked():
        return Finding("note", f"{name}: a process draws it now")
    if "dataset" not in release.facts:
        return Finding("note", f"{name}: the fit did not finish, and its ε is spent")
    text, obstacle = f"{name}: the release is charged and", _obstacle(release)
    if obstacle is None:
        return Finding("fault", f"{text} not finished", release.command)
    return Finding("fault", f"{text} cannot be finished now: {obstacle}")


def _obstacle(release: ChargedRelease) -> str | None:
    """Return the reason why this program cannot finish a release; None if it can."""
    spec, facts = release.spec, release.facts
    if spec is None or not release.is_declared(spec):
        return f"no file of today declares it: declare it in {facts['dataset']}.yaml as it was"
    try:
        today, key = release.release(spec), release.key(spec)
    except PipelineError as error:
        return str(error)
    if key.digest != release.entry.key:
        return f"{release.key_changes(spec)}: declare it as it was, or use {facts['code']}"
    if not release.is_current(spec):
        return f"another snapshot is read now: {release.advice_on_snapshot}"
    if isinstance(today, NoisyRelease) and isinstance(key, ReleaseKey):
        return _obstacle_to_replay(today, key, release)
    return None


def _obstacle_to_replay(
    release: NoisyRelease, key: ReleaseKey, charged: ChargedRelease
) -> str | None:
    """Return why a release's stored answers cannot be replayed, as text; None if they can."""
    after = f", once this one is given up by {charged.give_up_command}"
    try:
        require_reserved_parameters(release, key)
        path = release.store.transcript_path(key)
        if not path.is_file():
            return f"its answers are lost: pay for a new draw with --new-draw{after}"
        release.draw_bundle(release.resolve(key), None, Transcript.read(path), release.noise)
    except NoAnswer:
        # Without rows the first answer that was never drawn ends it: that far it is the same.
        return None
    except AnswersLost as error:
        return f"{error}{after}"
    except OtherQuestion as error:
        finish = f"finish it with {charged.facts['code']}"
        return f"{error}: {finish}, or give it up by {charged.give_up_command}"
    except PipelineError as error:
        return str(error)
    return None
