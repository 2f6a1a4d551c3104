"""Reports that compare the releases of one data set over ε, over time windows, or over K."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from dp_pipeline.answers.verdict import share_errors
from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.releases.account import open_population
from dp_pipeline.releases.evaluate import parse_compared_tables
from dp_pipeline.releases.home import Home
from dp_pipeline.releases.k_anonymous_release import (
    declared_k_anonymity,
    reported_k_anonymous_release,
)
from dp_pipeline.releases.release import other_non_dp_releases
from dp_pipeline.releases.replay import pointed_bundle
from dp_pipeline.reporting.figures import curves
from dp_pipeline.reporting.figures.cluster_map import cluster_maps
from dp_pipeline.reporting.figures.cluster_view import ClusterView, dates_of
from dp_pipeline.reporting.figures.lines import VerticalAxis, line_chart
from dp_pipeline.reporting.figures.marginals import (
    MOST_PANELS,
    Marginals,
    attributes_of,
    marginal_bars,
)
from dp_pipeline.reporting.figures.model_graph import model_graph
from dp_pipeline.reporting.figures.picture import Picture
from dp_pipeline.reporting.metrics import (
    QualityRow,
    find_metric,
    from_documents,
    metrics_of,
    relative_rows,
)
from dp_pipeline.reporting.pages import Timeline, summary_over_epsilon, summary_over_k, write_report
from dp_pipeline.reporting.prices import BudgetForecast, prices_of
from dp_pipeline.reporting.releases import (
    ReportedKAnonymousRelease,
    ReportedPrivateRelease,
)
from dp_pipeline.reporting.text import model_labels, noisy_text
from dp_pipeline.results.bundle import Bundle

_TITLES = {
    "nicv": "Mean squared distance to the nearest released centre",
    "nicv_ratio": "NICV relative to k-means without privacy",
}
_PANELS = {
    "avd": ("AVD over ε", "Total variation distance, mean over tables of a kind"),
    "misclassified": ("mistakes over ε", "Share of true rows that classifiers get wrong"),
    "auc_class_rate": ("AUC over ε", "AUC of the rates of released classes"),
}
"""Kind of a table's metrics → caption and title of their picture."""


@dataclass(frozen=True)
class Comparison:
    """A report that compares releases.

    rows       the quality numbers that it shows
    summary    a line and a table in markdown, the best model first; None without numbers
    pictures   in the order of the report
    path       the HTML file
    """

    rows: tuple[QualityRow, ...]
    summary: str | None
    pictures: tuple[Picture, ...]
    path: Path


def compare(spec: DatasetSpec, home: Home, evaluations: Mapping[str, Any]) -> Comparison:
    """Write the HTML report on all evaluated ε; return its path, quality numbers and pictures.

    The data set's account in the ledger is opened first, if it is not open yet.

    evaluations   ε, as a partition key → its stored evaluation
    """
    ledger = open_population(spec, home)
    ascending = {key: evaluations[key] for key in spec.partition_keys if key in evaluations}
    documents = [evaluation["rows"] for evaluation in ascending.values()]
    evaluated = [row for document in documents for row in from_documents(document)]
    releases = [
        release
        for key, evaluation in ascending.items()
        for release in _evaluated(spec, home, evaluation, epsilon=key)
    ]
    newest = {release.bundle.facts["model"]: release.bundle for release in releases}
    labels = model_labels(newest.values())
    labelled_rows = [replace(row, model=labels.get(row.model, row.model)) for row in evaluated]
    rows = (*labelled_rows, *relative_rows(labelled_rows))
    pictures = (*_utility_pictures(rows), *_pictures(spec, list(newest.values())))
    path = write_report(
        home.reports / f"{spec.name}.html",
        level="epsilon",
        spec=spec,
        rows=rows,
        pictures=pictures,
        releases=releases,
        non_dp_releases=other_non_dp_releases(spec, ledger),
        forecast=BudgetForecast.of(spec, ledger.balance(spec.population), releases),
    )
    return Comparison(rows, summary_over_epsilon(rows, prices_of(releases)), pictures, path)


def _utility_pictures(rows: Sequence[QualityRow]) -> list[Picture]:
    """Return a picture of the clusterings' main metric, and one for each kind of table metric."""
    metrics = metrics_of(rows)
    first = next((metric for metric in _TITLES if metric in metrics), None)
    chosen = [] if first is None else [("utility over ε", _TITLES[first], [first])]
    for kind, (caption, title) in _PANELS.items():
        names = [metric for metric in metrics if metric.startswith(kind)]
        # Metrics of one attribute stand side by side.
        chosen.append((caption, title, sorted(names, key=lambda name: name.partition("/")[2])))
    return [
        line_chart(
            curves.utility_panels(rows, names),
            title=title,
            footnote=curves.utility_footnote([row for row in rows if row.metric in names]),
            caption=caption,
        )
        for caption, title, names in chosen
        if names
    ]


def _pictures(spec: DatasetSpec, bundles: Sequence[Bundle]) -> list[Picture]:
    maps = [bundle for bundle in bundles if "centres" in bundle.tables]
    tables = [bundle for bundle in bundles if "marginals" in bundle.tables]
    pictures = []
    if maps:
        views = [_view(spec, name, bundle) for name, bundle in zip(_names(maps), maps, strict=True)]
        pictures.append(cluster_maps(views, title=_title_of(maps, "Centres")))
    pictures += _marginals(spec, tables)
    for bundle in tables:
        cliques = bundle.tables["cliques"]
        if any(", " in text for text in cliques["attributes"].tolist()):
            pictures.append(model_graph(cliques, title=f"Cliques of {_title(bundle)}"))
    return pictures


def _marginals(spec: DatasetSpec, bundles: Sequence[Bundle]) -> Iterator[Picture]:
    """Yield as many pictures of marginals as are needed to show all attributes."""
    marginals, parts = {}, spec.domain.parts
    for name, bundle in zip(_names(bundles), bundles, strict=True):
        errors = share_errors(bundle.tables)
        own = {} if errors is None else {"error": errors}
        marginals[name] = {**bundle.tables["marginals"], **own}
    if not bundles:
        return
    if parts is None:
        yield from _bars(marginals, _title_of(bundles, "Marginals"), "rows")
        return
    for items, is_of_parts in (("units", False), (parts.name, True)):
        chosen = {}
        for name, table in marginals.items():
            is_chosen = np.isin(table["attribute"], parts.attributes) == is_of_parts
            chosen[name] = {column: values[is_chosen] for column, values in table.items()}
        yield from _bars(chosen, _title_of(bundles, f"Marginals of {items}"), items)


def _bars(marginals: Mapping[str, Marginals], title: str, items: str) -> Iterator[Picture]:
    for first in range(0, max(1, len(attributes_of(marginals))), MOST_PANELS):
        # The first picture has the same name however many there are.
        caption = title if first == 0 else f"{title}, from attribute {first + 1}"
        yield marginal_bars(marginals, first=first, title=caption, items=items)


def _view(spec: DatasetSpec, name: str, bundle: Bundle) -> ClusterView:
    box, dates = spec.domain.box(tuple(bundle.tables["centres"])), dates_of(spec.domain)
    return ClusterView.of(name, bundle.tables, box, spec.point, dates)


def _names(bundles: Sequence[Bundle]) -> list[str]:
    """Return the names of the models, with their ε if several ε are shown."""
    is_same = len({bundle.facts["epsilon"] for bundle in bundles}) == 1
    return [bundle.model if is_same else _title(bundle) for bundle in bundles]


def _title_of(bundles: Sequence[Bundle], subject: str) -> str:
    if len(bundles) == 1:
        return f"{subject} of {_title(bundles[0])}"
    epsilons = {bundle.facts["epsilon"] for bundle in bundles}
    where = f"ε={epsilons.pop()}" if len(epsilons) == 1 else "the largest ε of each"
    return f"{subject} of {len(bundles)} models at {where}"


def _title(bundle: Bundle) -> str:
    return f"{bundle.model} at ε={bundle.facts['epsilon']}"


NEWEST = 6
"""Time windows whose releases are on the page; the maps are of the last four."""
_MAPS = 4


def compare_windows(spec: DatasetSpec, home: Home, evaluations: Mapping[str, Any]) -> Comparison:
    """Write the HTML report over time windows; return it with the newest window's numbers.

    The data set's account in the ledger is opened first, if it is not open yet.

    evaluations   time window → its stored evaluation
    """
    ledger, windows = open_population(spec, home), spec.time_windows
    names = sorted(evaluations, key=windows.start)
    quality = {name: from_documents(evaluations[name]["rows"]) for name in names}
    newest = [
        release
        for name in reversed(names[-NEWEST:])
        for release in _evaluated(spec.at_window(name), home, evaluations[name])
    ]
    rows = tuple(quality[names[-1]]) if names else ()
    spent = ledger.blocks(spec.population)
    totals: dict[str, list[tuple[str, float, float]]] = {}
    for name in names:
        for model, total in evaluations[name].get("totals", {}).items():
            totals.setdefault(model, []).append((name, *total))
    pictures = (*_over_time(spec, quality, totals), *_last_maps(spec, newest))
    path = write_report(
        home.reports / f"{spec.name}.html",
        level=_timeline(names, spent, totals),
        spec=spec,
        rows=rows,
        releases=newest,
        pictures=pictures,
        non_dp_releases=other_non_dp_releases(spec, ledger),
        forecast=BudgetForecast.of(spec, ledger.balance(spec.population), newest, spent),
    )
    return Comparison(rows, summary_over_epsilon(rows, prices_of(newest)), pictures, path)


def _evaluated(
    spec: DatasetSpec, home: Home, evaluation: Mapping[str, Any], **expected: str
) -> Iterator[ReportedPrivateRelease]:
    """Yield the releases of an evaluation; Damaged for one without the expected facts.

    Models that had no release are left out.
    """
    for model, pointer in evaluation["pointers"].items():
        if pointer is not None:
            yield ReportedPrivateRelease(
                spec=spec,
                bundle=pointed_bundle(spec, home, pointer, model=model, **expected),
                state=pointer["state"],
                compared=parse_compared_tables(evaluation.get("compared", {}).get(model, [])),
            )


def _over_time(
    spec: DatasetSpec, quality: Mapping[str, Sequence[QualityRow]], totals: curves.OverWindows
) -> list[Picture]:
    series: list[tuple[curves.OverWindows, VerticalAxis, str, str]] = []
    if totals:
        title = "Noisy number of rows"
        series.append((totals, VerticalAxis("rows", floor=0.0), title, title))
    for metric in metrics_of(row for rows in quality.values() for row in rows):
        about, numbers = find_metric(metric), dict[str, list[tuple[str, float, float]]]()
        for name, rows in quality.items():
            for row in rows:
                if row.metric == metric:
                    number = (name, row.value, row.deviation or 0.0)
                    numbers.setdefault(row.model, []).append(number)
        y_axis = VerticalAxis(about.short, floor=0.0, reading=about.better)
        series.append((numbers, y_axis, about.title, about.short))
    return [
        line_chart(
            [curves.window_panel(numbers, spec.time_windows, y_axis)],
            title=title,
            footnote=curves.NOISE_BARS,
            caption=f"{short} over time",
        )
        for numbers, y_axis, title, short in series
    ]


def _last_maps(spec: DatasetSpec, newest: Sequence[ReportedPrivateRelease]) -> list[Picture]:
    """Return maps of the last four windows by the first clustering, as one picture; [] if none."""
    maps = [release for release in newest if "centres" in release.bundle.tables]
    first = [release for release in maps if release.bundle.model == maps[0].bundle.model][:_MAPS]
    if not first:
        return []
    views = [_view(spec, release.spec.window, release.bundle) for release in reversed(first)]
    title = f"Centres of {first[0].bundle.model}, the last windows"
    return [cluster_maps(views, title=title)]


def _timeline(
    names: Sequence[str], spent: Mapping[str, Fraction], totals: curves.OverWindows
) -> Timeline:
    by_window = {
        (model, window): noisy_text(value, deviation)
        for model, numbers in totals.items()
        for window, value, deviation in numbers
    }
    lines = []
    for name in reversed(names):
        rows = (by_window.get((model, name), "–") for model in totals)
        lines.append([name, epsilon_text(spent.get(name, Fraction(0))), *rows])
    return Timeline(["window", "spent", *(f"rows by {model}" for model in totals)], lines)


_PICTURES = {"auc": "AUC over K", "seconds": "run time over K"}
"""Metric → caption of its picture."""


def compare_k_anonymous(
    spec: DatasetSpec, home: Home, evaluations: Mapping[str, Any]
) -> Comparison:
    """Write the HTML report on all evaluated K; return its path, quality numbers and pictures.

    The data set's account in the ledger is opened first, if it is not open yet.

    evaluations   K, as a partition key → its stored evaluation
    """
    ledger = open_population(spec, home)
    releases = list(_releases(spec, home, evaluations))
    rows = tuple(row for release in releases for row in release.exact)
    pictures = tuple(
        line_chart(
            panels,
            title=f"{spec.title}: {caption}",
            footnote=curves.EXACT_OVER_K,
            caption=caption,
        )
        for metric, caption in _PICTURES.items()
        if (panels := curves.utility_panels(rows, [metric], "K"))
    )
    path = write_report(
        home.reports / f"{spec.name}.k_anonymous.html",
        level="k",
        spec=spec,
        releases=releases,
        pictures=pictures,
        non_dp_releases=other_non_dp_releases(spec, ledger),
    )
    return Comparison(rows, summary_over_k(releases), pictures, path)


def _releases(
    spec: DatasetSpec, home: Home, evaluations: Mapping[str, Any]
) -> Iterator[ReportedKAnonymousRelease]:
    """Yield every evaluated k-anonymous release, in the declared order of methods, K ascending."""
    declared = declared_k_anonymity(spec)
    for name in declared.methods:
        for key in declared.partition_keys:
            evaluation = evaluations.get(key, {"pointers": {}, "rows": []})
            pointer = evaluation["pointers"].get(name)
            if pointer is not None:
                rows = [row for row in from_documents(evaluation["rows"]) if row.model == name]
                bundle = pointed_bundle(spec, home, pointer, model=name, k=key)
                yield reported_k_anonymous_release(spec, bundle, rows)
