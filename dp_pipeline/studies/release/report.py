"""report.md of the study of tables: what each claim came to, tables, pictures, settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dp_pipeline.reporting.number_text import number_text
from dp_pipeline.studies.journal import Row
from dp_pipeline.studies.markdown import markdown_table
from dp_pipeline.studies.means import SURE
from dp_pipeline.studies.picture import Picture
from dp_pipeline.studies.release.cell import BASELINES
from dp_pipeline.studies.release.claims import CLAIMS, MEASURE_TITLES, Claim
from dp_pipeline.studies.release.pictures import cost, measure_title
from dp_pipeline.studies.release.summary import Summary
from dp_pipeline.studies.release.systems import known_systems
from dp_pipeline.studies.sections import Judged, bullets, refused, verdicts

_BASELINE_TITLES = {"no_privacy": "without privacy", "majority": "majority"}
_COSTS = {"seconds": "seconds", "peak_mb": "peak MB"}


def report(
    summary: Summary, rows: Sequence[Row], shown: Sequence[Picture], header: Mapping[str, str]
) -> str:
    """The whole report as markdown.

    rows     finished cells: settings and published variants are read from them
    shown    pictures that lie beside the report
    header   what made the cells
    """
    parts = [
        "# Private tables: the papers' figures, measured again",
        "Benchmark data only: every number here is exact and none of it is private.",
        *_settings(summary, rows, header),
        *_claims(summary),
    ]
    for dataset in summary.datasets:
        parts += _dataset(summary, dataset, [one for one in shown if one.dataset == dataset])
    parts += [*_costs(summary), *_as_published(summary, rows), *refused(summary.failures)]
    return "\n\n".join(parts) + "\n"


def _settings(summary: Summary, rows: Sequence[Row], header: Mapping[str, str]) -> Iterator[str]:
    fewest, most = summary.repeats()
    facts = [
        *(f"{name}: {text}" for name, text in header.items()),
        f"data sets: {', '.join(summary.datasets)}",
        f"cells: {len(rows)}; repetitions of each system at each ε: "
        + " to ".join(str(one) for one in dict.fromkeys((fewest, most))),
        "noise: the exact samplers, seeded by the cell; every cell its own",
        "the number of rows is private, except where a row is replaced and a method needs it",
        "a system with δ in its name promises (ε, δ), and accounts in ρ; the others promise ε",
        "AVD: average k-way variation distance between synthetic and true rows, over all pairs, "
        "and over the same 500 triples and 100 larger sets where there are more; the model "
        "was fitted on all rows",
        "misclassification: of classifiers taught by synthetic rows, when asked about a fifth of "
        "the true rows, which the model did not see either: a new fifth every repetition, the "
        "same for every system",
        "seconds: wall clock, one thread, rows in memory; peak memory: what Python and NumPy "
        "allocate for one more fit, added up as it goes",
        "a number is a mean ± its standard error",
    ]
    yield bullets(facts)


def _claims(summary: Summary) -> Iterator[str]:
    yield "## What was claimed, and whether it held"
    yield (
        f"A claim holds at a place (data set, ε) where the difference of the means is beyond "
        f"{SURE:g} standard errors of the difference; the contrary holds where it is so the other "
        "way round. In between, nothing is said; what is claimed to be no worse holds there too. "
        "With 30 repetitions about 0.3 % of pairs that are in truth equal get a verdict by chance; "
        "with 10, 1 %; with fewer, far more."
    )
    yield from verdicts([_judged(claim, summary) for claim in CLAIMS])


def _judged(claim: Claim, summary: Summary) -> Judged:
    found = {MEASURE_TITLES[measure]: claim.verdict(summary, measure) for measure in claim.measures}
    return Judged(claim.sentence, claim.source, found)


def _dataset(summary: Summary, dataset: str, shown: Sequence[Picture]) -> Iterator[str]:
    yield f"## {dataset}"
    yield "\n".join(f"![{picture.title}]({picture.file})" for picture in shown)
    for measure in summary.measures:
        words = "distance to the closest record" if measure == "dcr" else measure_title(measure)
        rows = list(_means(summary, dataset, measure))
        if words and rows:
            of = "a sanity figure, no promise" if measure == "dcr" else "lower is better"
            yield f"{words[0].upper()}{words[1:]} ({of}):"
            yield markdown_table(["system", *(f"ε={e}" for e in summary.epsilons(dataset))], rows)


def _means(summary: Summary, dataset: str, measure: str) -> Iterator[list[str]]:
    """One row a system with a number; not of variants as published. Baselines come first."""
    known = known_systems()
    titles = {
        **_BASELINE_TITLES,
        **{name: known[name].title for name in summary.systems(dataset)},
    }
    for system, title in titles.items():
        found = [
            summary.mean(dataset, system, epsilon, measure) for epsilon in summary.epsilons(dataset)
        ]
        if any(found) and (system in BASELINES or not known[system].is_published):
            yield [title, *("–" if mean is None else mean.text for mean in found)]


def _costs(summary: Summary) -> Iterator[str]:
    yield "## Run time and memory"
    yield "Of one fit: seconds, mean over ε; most megabytes, largest over ε."
    known = known_systems()
    yield markdown_table(
        ["system", *(f"{name}, {what}" for name in summary.datasets for what in _COSTS.values())],
        (
            [
                system.title,
                *(
                    "–" if value is None else number_text(value)
                    for dataset in summary.datasets
                    for measure in _COSTS
                    for value in (cost(summary, dataset, name, measure),)
                ),
            ]
            for name, system in known.items()
            if any(name in summary.systems(dataset) for dataset in summary.datasets)
        ),
    )


def _as_published(summary: Summary, rows: Sequence[Row]) -> Iterator[str]:
    """Variants as published cost another ε than was asked: they are in no comparison."""
    published = {name for name, one in known_systems().items() if one.is_published}
    charged = {
        (row["dataset"], row["system"], row["epsilon"]): row
        for row in rows
        if row["use"] == "table"
    }
    found = [place for place in summary.means if place[1] in published and place in charged]
    if not found:
        return
    yield "## As published: not comparable"
    yield "These do not promise the ε that was asked for, and are in no table and claim above."
    yield markdown_table(
        ["data set", "system", "ε asked", "ε it costs", "AVD k=2", "AVD k=3", "why"],
        (
            [
                place[0],
                known_systems()[place[1]].title,
                place[2],
                charged[place]["epsilon_charged"],
                *(
                    mean.text if (mean := summary.mean(*place, measure)) else "–"
                    for measure in ("avd_2", "avd_3")
                ),
                charged[place]["reason"],
            ]
            for place in found
        ),
    )
