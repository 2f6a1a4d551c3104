"""Checks of the charged releases: whether this program and today's files replay or finish them."""

from collections import Counter
from collections.abc import Iterator

from dp_pipeline.cli.check.findings import Finding, collect_error
from dp_pipeline.config.catalogue import load_all
from dp_pipeline.config.errors import NoAnswer, NotPrepared, OtherQuestion, PipelineError
from dp_pipeline.releases.charged import ChargedRelease, charged_releases
from dp_pipeline.releases.home import Home
from dp_pipeline.releases.k_anonymous_release import KAnonymousRelease
from dp_pipeline.releases.noisy_release import NoisyRelease
from dp_pipeline.releases.publish import require_reserved_parameters
from dp_pipeline.releases.replay import require_intact, require_reproducible
from dp_pipeline.results.bundle import ReleaseKey
from dp_pipeline.results.transcript import AnswersLost, Transcript


def check_releases(home: Home, *, replay: bool = False) -> Iterator[Finding]:
    """Yield the numbers of releases by outcome and by code, and a finding for each with a problem.

    replay   also rebuild every settled noisy release that a file still declares, and compare

    Other releases are not rebuilt, nor are those with another key today or without a stored bundle.
    A release whose check raises an error is a fault, and may be in no number by outcome.
    """
    findings: list[Finding] = []
    outcomes: Counter[str] = Counter()
    makers: Counter[str] = Counter()
    # `check_dataset_files` names the files that cannot be read.
    for release in charged_releases(home, load_all()[0]):
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
    if release.state == "unfinished":
        findings.append(_unfinished(release))
        return "charged and not finished"
    if not release.is_declared:
        return "stored, and not declared by any file of today"
    try:
        today = release.release()
    except NotPrepared:
        return "stored, of a domain that is not discovered as the file declares it"
    if release.key(today).digest == release.entry.key:
        return "replayed at no cost" if release.state == "settled" else "dead"
    if not release.is_current:
        return "stored, of an earlier snapshot"
    text = f"{release.entry.what}: a run would charge it anew: {release.key_changes(today)}"
    findings.append(Finding("note", text))
    return "charged anew by the next run"


def _replay(release: ChargedRelease) -> Iterator[Finding]:
    """Yield one finding: whether this code rebuilds a settled release's bundle from its answers.

    Yield none for a release that is k-anonymous, not settled or not declared, and where there is
    another key or no stored bundle.
    """
    is_rebuilt = release.state == "settled" and release.release_class is not KAnonymousRelease
    if not is_rebuilt or not release.is_declared:
        return
    today = release.release()
    key = release.key(today)
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
    facts = release.facts
    if not release.is_declared:
        return f"no file of today declares it: declare it in {facts['dataset']}.yaml as it was"
    try:
        today = release.release()
        key = release.key(today)
    except PipelineError as error:
        return str(error)
    if key.digest != release.entry.key:
        return f"{release.key_changes(today)}: declare it as it was, or use {facts['code']}"
    if not release.is_current:
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
