"""Comparing the k-anonymous releases of one data set over K: a table, pictures, and a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dp_pipeline.ledger.home import Home
from dp_pipeline.orchestration.anonymity_rows import declared_anonymity
from dp_pipeline.orchestration.beside import not_dp_beside
from dp_pipeline.orchestration.io import pointed_bundle
from dp_pipeline.orchestration.lineage import open_lineage
from dp_pipeline.orchestration.release_cards import anonymous_release
from dp_pipeline.reporting.anonymity_chart import anonymity_plot, figure_over_k
from dp_pipeline.reporting.anonymity_page import write_anonymity_page
from dp_pipeline.reporting.anonymous_release import AnonymousRelease
from dp_pipeline.reporting.number_text import number_text
from dp_pipeline.reporting.rows import markdown_lines
from dp_pipeline.schema.spec import DatasetSpec

_PICTURES = {"auc": "AUC over K", "seconds": "run time over K"}
"""Figure → caption of its picture."""


@dataclass(frozen=True)
class AnonymousComparison:
    """What the comparison asset shows.

    figures    K → method → figures; of public rows only
    summary    tables in markdown
    pictures   (title, PNG)
    path       the HTML page
    """

    figures: Mapping[str, Any]
    summary: str
    pictures: tuple[tuple[str, bytes], ...]
    path: Path


def page_path(spec: DatasetSpec, home: Home) -> Path:
    """The HTML page of a data set's k-anonymous releases."""
    return home.reports / f"{spec.name}.k_anonymous.html"


def compare_anonymous(
    spec: DatasetSpec, home: Home, evaluations: Mapping[str, Any]
) -> AnonymousComparison:
    """Tables, pictures and page from what was released and evaluated, over all K.

    Under the account that the file declares: a page says for whom it does not protect.
    """
    ledger = open_lineage(spec, home)
    releases = list(_releases(spec, home, evaluations))
    pictures = tuple(
        (caption, anonymity_plot(values, figure=name, title=f"{spec.title}: {caption}"))
        for name, caption in _PICTURES.items()
        if (values := figure_over_k(releases, name))
    )
    path = write_anonymity_page(
        page_path(spec, home),
        spec=spec,
        releases=releases,
        pictures=pictures,
        beside=not_dp_beside(spec, ledger),
    )
    figures = {key: one["figures"] for key, one in evaluations.items()}
    return AnonymousComparison(figures, _summary(releases), pictures, path)


def _releases(
    spec: DatasetSpec, home: Home, evaluations: Mapping[str, Any]
) -> Sequence[AnonymousRelease]:
    """Every release that was evaluated: methods as declared, K ascending."""
    declared, found = declared_anonymity(spec), []
    for name in declared.methods:
        for key in declared.partition_keys:
            evaluated = evaluations.get(key, {"pointers": {}, "figures": {}})
            pointer = evaluated["pointers"].get(name)
            if pointer is not None:
                figures = evaluated["figures"].get(name, {})
                bundle = pointed_bundle(spec, home, pointer, model=name, k=key)
                found.append(anonymous_release(spec, bundle, figures))
    return found


def _summary(releases: Sequence[AnonymousRelease]) -> str:
    """Methods × K: how well classifiers learn, where that is known, and who is still told."""
    if not releases:
        return "Nothing was released k-anonymously yet."
    parts = ["Not differentially private: a promise about the released rows alone."]
    if any("auc" in one.figures for one in releases):
        parts += ["AUC of logistic regression", _table(releases, _auc)]
    parts += ["Share of rows in classes with one label", _table(releases, _homogeneous)]
    return "\n\n".join(parts)


def _auc(release: AnonymousRelease) -> str:
    return number_text(release.figures["auc"]) if "auc" in release.figures else "–"


def _homogeneous(release: AnonymousRelease) -> str:
    return f"{release.measures['homogeneous_rows'] / max(1, release.rows):.1%}"


def _table(releases: Sequence[AnonymousRelease], text: Callable[[AnonymousRelease], str]) -> str:
    found = {(one.method, one.k): text(one) for one in releases}
    ks = sorted({one.k for one in releases})
    methods = dict.fromkeys(one.method for one in releases)
    body = [[method, *(found.get((method, k), "–") for k in ks)] for method in methods]
    return markdown_lines([["method", *(f"K={k}" for k in ks)], *body])
