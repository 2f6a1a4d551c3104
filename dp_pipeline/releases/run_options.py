"""The options of a run: which releases of one data set a command makes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

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
from dp_pipeline.releases.k_anonymous_release import (
    KAnonymousRelease,
    declared_k_anonymity,
    declared_method,
)
from dp_pipeline.releases.release import Release


@dataclass(frozen=True)
class RunOptions:
    """The releases of one data set that a command makes.

    spec       the data set, at one time window or at all
    kind       class of the releases: at an ε, or at a K
    names      models or methods
    levels     ε or K, ascending, as partition keys
    snapshot   a name for a new snapshot, or empty for the current one
    published  whether each model is released only at the ε at which it is published
    refine     ε of the release that every release refines; ``previous``: the next smaller declared
               ε, where the model can; empty: none
    span       number of time windows that each release covers; 0: the declared number
    windows    names of the time windows to run, oldest first; empty: that of ``spec``, if any
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
    def per_window(self) -> tuple[Self, ...]:
        """The same options for each time window separately, oldest first; if ``windows`` is empty,
        these options alone."""
        return tuple(map(self.of_window, self.windows)) or (self,)

    def resolve_spec(self) -> DatasetSpec:
        """Return the data set with its discovered domain.

        Without a discovery, or for a new snapshot, it has the widest domain that can be discovered.
        """
        if self.snapshot:
            return self.spec.widest
        try:
            return with_discovered(self.spec, self.home)
        except NotPrepared:
            return self.spec.widest

    @property
    def discovery(self) -> DomainRelease | None:
        """The release that discovers the domain; None if all of it is declared."""
        noise = self.noise_name or noise_name()
        return DomainRelease(self.spec, self.home, noise) if self.spec.to_discover else None

    @property
    def releases(self) -> tuple[Release, ...]:
        """The releases of every model or method at every level, for each time window."""
        return tuple(
            release
            for options in self.per_window
            for level in options.levels
            for release in options.at(level)
        )

    def at(self, level: str) -> tuple[Release, ...]:
        """Return the releases at one ε or K; with ``published`` only those published at it."""
        spec, names = self.resolve_spec(), self.names
        if self.published:
            levels = {item.model: epsilon_text(item.epsilon) for item in spec.publications}
            names = [name for name in names if levels.get(name) == level]
        return tuple(self.release_of(spec, name, level) for name in names)

    def release_of(
        self, spec: DatasetSpec, name: str, level: str, run: Mapping[str, str] | None = None
    ) -> Release:
        """Return the release of a model or method at an ε or K, with ``span`` and ``refine``.

        Neither affects a k-anonymous release. ``previous`` leaves a release unrefined if no smaller
        ε is declared, or if its model cannot be refined.

        spec   the data set with its discovered domain
        run    facts of the run for the ledger: run id, asset
        """
        run, home = run or {}, self.home
        if self.kind is KAnonymousRelease:
            k = declared_k_anonymity(spec).partition(level, of=spec.name)
            return KAnonymousRelease(spec, name, k, home, run)
        epsilon, span = spec.partition(level), self.span or spec.span_of(name)
        release = EpsilonRelease(spec, name, epsilon, home, self.noise_name, run, span=span)
        if self.refine not in ("", PREVIOUS):
            return replace(release, refine=spec.partition(self.refine))
        smaller = [epsilon for epsilon in spec.partitions if epsilon < release.epsilon]
        can_refine = release.can_refine and not release.model.plans_from_earlier
        if self.refine and smaller and can_refine:
            return replace(release, refine=smaller[-1])
        return release

    def of_window(self, name: str) -> Self:
        return replace(self, spec=self.spec.at_window(name), windows=())


PREVIOUS = "previous"
"""The next smaller ε that is declared."""


def require_span(span: int) -> int:
    """Return a number of time windows unchanged if it is valid or 0; DeclarationError otherwise."""
    if not 0 <= span <= MAX_SPAN:
        raise DeclarationError(f"The span of a release must be 1 to {MAX_SPAN} windows, not {span}")
    return span


def parse_request(
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
    """Return the options of a command `run` or `plan`.

    dataset            a declaration, or the name of one
    models, epsilons   as for ``options_for``
    windows            one time window, or ``FIRST..LAST``; empty: the newest that is closed

    The others are fields of ``RunOptions``. DeclarationError for undeclared values, for options
    that exclude each other, and for a time window that is not closed yet.
    """
    spec = find_spec(dataset) if isinstance(dataset, str) else dataset
    require_available(spec)
    options = options_for(spec, models=models, epsilons=epsilons)
    if snapshot:
        check_snapshot_id(snapshot)
    if refine and (new_draw or snapshot):
        raise DeclarationError(
            f"{spec.name}: --refine keeps the draw and the rows of the earlier release, so it "
            f"cannot be used with --{'new-draw' if new_draw else 'snapshot'}: leave one out"
        )
    options = replace(
        options, new_draw=new_draw, refine=refine, snapshot=snapshot, span=require_span(span)
    )
    if spec.windows is None:
        if windows or span:
            option = "--window" if windows else "--span"
            raise DeclarationError(
                f"{spec.name}: {option}: the data set has no `windows`: run it without {option}"
            )
        return options
    declared = spec.time_windows
    moment = now()
    newest = declared.closed(moment)[-1:] or (declared.first,)
    names = declared.parse_range(windows) if windows else newest
    declared.require_closed(names[-1], moment)
    return replace(options, windows=names)


def options_for(
    spec: DatasetSpec, *, models: tuple[str, ...] = (), epsilons: tuple[str, ...] = ()
) -> RunOptions:
    """Return the options to release some models at some ε, with the home and the noise source that
    the environment names.

    models     all declared ones if empty
    epsilons   those at which the models are published if empty; all declared ones if none is

    DeclarationError for undeclared values.
    """
    for name in KAnonymousRelease.names(spec):
        declared_method(spec, name)
    model_names = EpsilonRelease.names(spec)
    chosen = tuple(dict.fromkeys(models)) or model_names
    for name in chosen:
        build_model(spec, name)
        if name not in model_names:
            raise DeclarationError(f"{spec.name}: a model of `publish` {one_of(model_names, name)}")
    published = sorted({item.epsilon for item in spec.publications if item.model in chosen})
    listed = sorted({spec.partition(text) for text in epsilons}) or published or spec.partitions
    levels = [epsilon_text(epsilon) for epsilon in listed]
    options = RunOptions(spec, EpsilonRelease, chosen, levels, find_home(), noise_name())
    return replace(options, published=bool(published) and not epsilons)
