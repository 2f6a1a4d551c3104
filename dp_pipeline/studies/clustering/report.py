"""report.md of the clustering study: what each claim came to, tables, pictures, settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dp_pipeline.reporting.number_text import number_text
from dp_pipeline.studies.clustering.claims import CLAIMS
from dp_pipeline.studies.clustering.pictures import run_time
from dp_pipeline.studies.clustering.summary import Summary
from dp_pipeline.studies.clustering.systems import SYSTEMS, Planning, known_systems
from dp_pipeline.studies.journal import Row
from dp_pipeline.studies.markdown import markdown_table
from dp_pipeline.studies.means import SURE
from dp_pipeline.studies.picture import Picture
from dp_pipeline.studies.sections import bullets, refused

_PLANNED = {"declared": "N declared", "paid": "N paid for", "none": "no N"}
_TABLES = {
    "nicv_ratio": "NICV over the NICV of k-means without privacy (1 is as good; lower is better)",
    "rcp": "RCP: percent of EUGkM's NICV that is saved (positive is better than EUGkM)",
    "f_label": "F-measure against the labels of the data (higher is better)",
    "f_kmeans": "F-measure against the clusters of k-means without privacy (higher is better)",
}


def report(
    summary: Summary, rows: Sequence[Row], shown: Sequence[Picture], header: Mapping[str, str]
) -> str:
    """The whole report as markdown.

    rows     finished cells: settings and published variants are read from them
    shown    pictures that lie beside the report
    header   what made the cells
    """
    parts = [
        "# Private clustering: the papers' figures, measured again",
        "Benchmark data only: every number here is exact and none of it is private.",
        *_settings(summary, rows, header),
        *_claims(summary),
    ]
    for dataset in summary.datasets:
        parts += _dataset(summary, dataset, [one for one in shown if one.dataset == dataset])
    parts += [*_run_times(summary), *_as_published(summary, rows), *refused(summary.failures)]
    return "\n\n".join(parts) + "\n"


def _settings(summary: Summary, rows: Sequence[Row], header: Mapping[str, str]) -> Iterator[str]:
    repeats = sorted({m["seconds"].repeats for m in summary.means.values() if "seconds" in m})
    times = " to ".join(str(one) for one in dict.fromkeys((repeats[0], repeats[-1])))
    without_n = [one.title for one in SYSTEMS if one.plannings == ("none",)]
    facts = [
        *(f"{name}: {text}" for name, text in header.items()),
        f"data sets: {', '.join(summary.datasets)}",
        f"cells: {len(rows)}; repetitions of each system at each ε: {times}",
        "noise: the exact discrete Laplace sampler, seeded by the cell; every cell its own",
        "N in a formula: declared (the data set file's number of rows, as the papers have it) or "
        f"paid for (a noisy count out of the same ε); {', '.join(without_n)} read none, and stand "
        "in both tables with the same numbers",
        "a number is a mean ± its standard error",
    ]
    yield bullets(facts)


def _claims(summary: Summary) -> Iterator[str]:
    yield "## What the papers claim, and whether it held"
    yield (
        f"A claim holds at a place (data set, ε) where the difference of the means is beyond "
        f"{SURE:g} standard errors of the difference; the contrary holds where it is so the other "
        "way round. In between, nothing is said. With 30 repetitions about 0.3 % of pairs that "
        "are in truth equal get a verdict by chance; with fewer than 10, far more."
    )
    head = ["claim", "source", *(_PLANNED[planning] for planning in summary.plannings)]
    verdicts = [
        (claim, [claim.verdict(summary, planning) for planning in summary.plannings])
        for claim in CLAIMS
    ]
    yield markdown_table(
        head,
        (
            [f"{number}. {claim.sentence}", claim.source, *(f"**{one.short}**" for one in found)]
            for number, (claim, found) in enumerate(verdicts, start=1)
        ),
    )
    yield "Where, claim by claim (data set: ε):"
    yield "\n".join(
        f"{number}. {_where(summary.plannings, [one.text for one in found])}"
        for number, (_, found) in enumerate(verdicts, start=1)
    )


def _where(plannings: Sequence[Planning], texts: Sequence[str]) -> str:
    """What is the same in every planning is said once."""
    if len(set(texts)) == 1:
        return f"{texts[0]}."
    pairs = zip(plannings, texts, strict=True)
    return " ".join(f"{_PLANNED[planning]}: {text}." for planning, text in pairs)


def _dataset(summary: Summary, dataset: str, shown: Sequence[Picture]) -> Iterator[str]:
    yield f"## {dataset}"
    yield "\n".join(f"![{picture.title}]({picture.file})" for picture in shown)
    for measure, words in _TABLES.items():
        for planning in summary.plannings:
            rows = list(_means(summary, dataset, planning, measure))
            if rows:
                yield f"{words}; {_PLANNED[planning]}:"
                yield markdown_table(
                    ["system", *(f"ε={e}" for e in summary.epsilons(dataset))], rows
                )


def _means(summary: Summary, dataset: str, planning: Planning, measure: str) -> Iterator[list[str]]:
    """One row a system with a number; not of variants as published."""
    for system in summary.systems(dataset):
        known = known_systems()[system]
        found = [
            summary.mean(dataset, system, planning, epsilon, measure)
            for epsilon in summary.epsilons(dataset)
        ]
        if any(found) and not known.is_published:
            yield [known.title, *("–" if mean is None else mean.text for mean in found)]


def _run_times(summary: Summary) -> Iterator[str]:
    yield "## Run times"
    yield "Seconds of one fit (wall clock, one thread, rows in memory), mean over ε and plannings:"
    known = known_systems()
    systems = [one for one in known if any(one in summary.systems(d) for d in summary.datasets)]
    yield markdown_table(
        ["system", *summary.datasets],
        (
            [
                known[system].title,
                *(
                    number_text(run_time(summary, dataset, system))
                    if system in summary.systems(dataset)
                    else "–"
                    for dataset in summary.datasets
                ),
            ]
            for system in systems
        ),
    )


def _as_published(summary: Summary, rows: Sequence[Row]) -> Iterator[str]:
    """Variants as published cost another ε than was asked: they are in no comparison."""
    published = {name for name, one in known_systems().items() if one.is_published}
    charged = {
        (row["dataset"], row["system"], row["planning"], row["epsilon"]): row for row in rows
    }
    found = [place for place in summary.means if place[1] in published]
    if not found:
        return
    yield "## As published: not comparable"
    yield "These do not promise the ε that was asked for, and are in no table and claim above."
    yield markdown_table(
        ["data set", "system", "N", "ε asked", "ε it costs", "NICV ratio", "why"],
        (
            [
                place[0],
                known_systems()[place[1]].title,
                place[2],
                place[3],
                charged[place]["epsilon_charged"],
                summary.means[place]["nicv_ratio"].text,
                charged[place]["reason"],
            ]
            for place in found
        ),
    )
