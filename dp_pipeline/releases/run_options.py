"""RunOptions: what one command asks of one data set, made of its words or of arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.config.catalogue import find_spec, require_available
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import DeclarationError, NotPrepared, one_of
from dp_pipeline.config.windows import MAX_SPAN, now
from dp_pipeline.models import build_model
from dp_pipeline.raw.snapshot import check_snapshot_id
from dp_pipeline.releases.domain_release import DomainRelease, with_discovered
from dp_pipeline.releases.epsilon_release import EpsilonRelease
from dp_pipeline.releases.home import Home, find_home, noise_name
from dp_pipeline.releases.k_anonymous_release import require_methods
from dp_pipeline.releases.release import Release


@dataclass(frozen=True)
class RunOptions:
    """Which releases to make, where.

    spec       the data set; of one window, or of all, of which ``windows`` names some

    kind       of release: at an ε, or at a K
    names      models or methods
    levels     ε or K, ascending, as keys of partitions
    snapshot   a name for a new snapshot, or empty for the current one
    refine     an ε: every release is asked to refine the one at it. ``previous``: where the model
               can, the one at the next smaller declared ε. Empty: none is asked to
    published  whether each model is released at the one ε at which it is published, of windows
    span       how many windows each release is of; 0: as many as are published together
    windows    where rows are cut, those that are run, oldest first; none: the one of ``spec``
    """

    spec: DatasetSpec
    kind: type[Release]
    names: Sequence[str]
    levels: Sequence[str]
    home: Home
    noise_name: str = ""
    new_draw: bool = False
    snapshot: str = ""
    published: bool = False
    refine: str = ""
    span: int = 0
    windows: tuple[str, ...] = ()

    @property
    def per_window(self) -> tuple[RunOptions, ...]:
        """The same of each window, oldest first; itself where it names none."""
        return tuple(map(self.of_window, self.windows)) or (self,)

    def resolve_spec(self) -> DatasetSpec:
        """The data set as it is released: with the domain that was discovered of the snapshot that
        is read; before that with the widest that may be found, for prices alone. Asked anew each
        time: a run of this request may have discovered it.
        """
        if self.snapshot:
            return self.spec.widest
        try:
            return with_discovered(self.spec, self.home)
        except NotPrepared:
            return self.spec.widest

    @property
    def discovery(self) -> DomainRelease | None:
        """The release of the domain, where something is left to be discovered."""
        noise = self.noise_name or noise_name()
        return DomainRelease(self.spec, self.home, noise) if self.spec.to_discover else None

    @property
    def releases(self) -> tuple[Release, ...]:
        """Every model or method at every level, of each window."""
        return tuple(
            one for own in self.per_window for level in own.levels for one in own.at(level)
        )

    def at(self, level: str) -> tuple[Release, ...]:
        """Every model or method at one level; of windows, where so asked, those published at it."""
        made, names = self.resolve_spec(), self.names
        if self.published:
            levels = {one.model: epsilon_text(one.epsilon) for one in made.publications}
            names = [name for name in names if levels.get(name) == level]
        return tuple(self.release_of(made, name, level) for name in names)

    def release_of(
        self, made: DatasetSpec, name: str, level: str, run: Mapping[str, str] | None = None
    ) -> Release:
        """One model or method at one level, of as many windows as are asked for.

        made   the data set as it is released
        run    what the ledger notes of the run
        """
        release = self.kind.at(made, name, level, self.home, noise=self.noise_name, run=run)
        if not isinstance(release, EpsilonRelease):
            return release
        release = replace(release, span=self.span) if self.span else release
        return _refining(release, self.refine)

    def level_of(self, name: str) -> str:
        """The level of one of its models or methods, where that has one alone."""
        (level,) = [one.level for one in self.releases if one.name == name]
        return level

    def of_window(self, name: str) -> RunOptions:
        """The same of the rows of one window."""
        return replace(self, spec=self.spec.at_window(name), windows=())


PREVIOUS = "previous"
"""The next smaller ε that is declared."""


def _refining(release: EpsilonRelease, refine: str) -> EpsilonRelease:
    """A release that is asked to refine the one at an ε, or at the ``PREVIOUS`` one where its model
    can and there is one; itself where nothing is said.
    """
    if not refine:
        return release
    if refine != PREVIOUS:
        return replace(release, refine=release.spec.partition(refine))
    smaller = [one for one in release.spec.partitions if one < release.epsilon]
    is_able = release.model.refines and not release.model.plans_from_earlier
    return replace(release, refine=smaller[-1]) if smaller and is_able else release


def require_span(many: int) -> int:
    """How many windows a release is asked to be of, 0 for as many as are published together;
    DeclarationError for what is neither.
    """
    if not 0 <= many <= MAX_SPAN:
        raise DeclarationError(f"span: expected 1 to {MAX_SPAN} windows, got {many}")
    return many


def requested(
    dataset: str | DatasetSpec,
    *,
    models: tuple[str, ...] = (),
    epsilons: tuple[str, ...] = (),
    new_draw: bool = False,
    refine: str = "",
    snapshot: str = "",
    windows: str = "",
    span: int = 0,
) -> RunOptions:
    """What the words of `run` and `plan` ask for; DeclarationError for what is not declared.

    dataset   a declaration, or the name of one
    """

    spec = find_spec(dataset) if isinstance(dataset, str) else dataset
    require_available(spec)
    options = options_for(spec, models=models, epsilons=epsilons)
    if snapshot:
        check_snapshot_id(snapshot)
    if refine and (new_draw or snapshot):
        raise DeclarationError(
            f"{spec.name}: --refine: expected no --{'new-draw' if new_draw else 'snapshot'} beside "
            "it: what is refined was drawn before, of rows that were read before"
        )
    options = replace(
        options, new_draw=new_draw, refine=refine, snapshot=snapshot, span=require_span(span)
    )
    if spec.windows is None:
        if windows or span:
            option = "--window" if windows else "--span"
            raise DeclarationError(
                f"{spec.name}: {option}: expected none where rows are not cut by `windows`, got one"
            )
        return options
    return replace(options, windows=_windows(spec, windows))


def _windows(spec: DatasetSpec, text: str) -> tuple[str, ...]:
    """The windows that are asked for; the newest that is over where nothing is said."""

    if text:
        return spec.cut.parse_range(text)
    newest = spec.cut.closed(now())[-1:]
    if not newest:
        raise DeclarationError(
            f"{spec.name}: expected a window that is over, got none: the first is {spec.cut.first}"
        )
    return newest


def options_for(
    spec: DatasetSpec, *, models: tuple[str, ...] = (), epsilons: tuple[str, ...] = ()
) -> RunOptions:
    """What a run of a data set is asked: all that its file declares, or these models and ε of it.
    DeclarationError for what is not declared or cannot be built, and outside of a project.
    """

    if spec.k_anonymity is not None:
        require_methods(spec)
    known = EpsilonRelease.names(spec)
    chosen = tuple(dict.fromkeys(models)) or known
    for name in chosen:
        build_model(spec, name)
        if name not in known:
            raise DeclarationError(
                f"{spec.name}: expected {one_of(known, name)}: a model that is published of windows"
            )
    of_windows = sorted({one.epsilon for one in spec.publications if one.model in chosen})
    listed = sorted({spec.partition(text) for text in epsilons}) or of_windows or spec.partitions
    levels = [epsilon_text(one) for one in listed]
    options = RunOptions(spec, EpsilonRelease, chosen, levels, find_home(), noise_name())
    return replace(options, published=bool(of_windows) and not epsilons)
