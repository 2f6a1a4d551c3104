"""What a person asks, by words of a command or arguments of a function → requests.

Heavy packages are imported by the function that needs them: the command line imports this file
before it knows what is asked.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dp_pipeline.spec.errors import DeclarationError, one_of

if TYPE_CHECKING:
    from dp_pipeline.publish.request import RunRequest
    from dp_pipeline.spec.dataset import DatasetSpec


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
) -> list[RunRequest]:
    """The requests that the options of `run` and `plan` make, one, or one a window;
    DeclarationError for what is not declared.

    dataset   a declaration, or the name of one
    """
    from dp_pipeline.publish.request import require_span
    from dp_pipeline.raw.snapshot import check_snapshot_id
    from dp_pipeline.spec.discovery import find_spec, require_available

    spec = find_spec(dataset) if isinstance(dataset, str) else dataset
    require_available(spec)
    request = request_for(spec, models=models, epsilons=epsilons)
    if snapshot:
        check_snapshot_id(snapshot)
    if refine and (new_draw or snapshot):
        raise DeclarationError(
            f"{spec.name}: --refine: expected no --{'new-draw' if new_draw else 'snapshot'} beside "
            "it: what is refined was drawn before, of rows that were read before"
        )
    request = replace(
        request, new_draw=new_draw, refine=refine, snapshot=snapshot, span=require_span(span)
    )
    if spec.windows is None:
        if windows or span:
            option = "--window" if windows else "--span"
            raise DeclarationError(
                f"{spec.name}: {option}: expected none where rows are not cut by `windows`, got one"
            )
        return [request]
    return [request.of_window(name) for name in _windows(spec, windows)]


def _windows(spec: DatasetSpec, text: str) -> tuple[str, ...]:
    """The windows that are asked for; the newest that is over where nothing is said."""
    from dp_pipeline.spec.windows import now

    if text:
        return spec.cut.ranged(text)
    newest = spec.cut.closed(now())[-1:]
    if not newest:
        raise DeclarationError(
            f"{spec.name}: expected a window that is over, got none: the first is {spec.cut.first}"
        )
    return newest


def request_for(
    spec: DatasetSpec, *, models: tuple[str, ...] = (), epsilons: tuple[str, ...] = ()
) -> RunRequest:
    """What a run of a data set is asked: all that its file declares, or these models and ε of it.
    DeclarationError for what is not declared or cannot be built, and outside of a project.
    """
    from dp_pipeline.models import build_model
    from dp_pipeline.publish.epsilon_release import EpsilonRelease
    from dp_pipeline.publish.home import find_home, noise_name
    from dp_pipeline.publish.request import RunRequest
    from dp_pipeline.spec.amounts import epsilon_text

    if spec.k_anonymity is not None:
        from dp_pipeline.publish.k_anonymous_release import require_methods

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
    request = RunRequest(spec, EpsilonRelease, chosen, levels, find_home(), noise_name())
    return replace(request, published=bool(of_windows) and not epsilons)
