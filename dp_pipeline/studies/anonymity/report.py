"""report.md of the study of k-anonymous tables: verdicts, pictures, tables, settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from dp_pipeline.reporting.number_text import number_text
from dp_pipeline.studies.anonymity.claims import CLAIMS, Claim
from dp_pipeline.studies.anonymity.pictures import AUCS, HOMOGENEOUS, SECONDS, Shown
from dp_pipeline.studies.anonymity.summary import Summary
from dp_pipeline.studies.anonymity.systems import known_systems
from dp_pipeline.studies.markdown import markdown_table
from dp_pipeline.studies.means import SURE, Mean
from dp_pipeline.studies.picture import Picture
from dp_pipeline.studies.sections import Judged, bullets, refused, verdicts

_KEPT = Shown("release", "kept", "columns that are released", "")
_SMALLEST = Shown("release", "smallest_class", "rows of the smallest class", "")
_SHARE = Shown("release", "largest_share", "largest share of one label in a class", "")

_LOST = (
    Shown("release", "non_uniform_entropy", "bits of a row that its release leaves open", ""),
    Shown("release", "average_class_size", "rows a class, in units of K", ""),
    Shown("release", "discernibility", "pairs of rows that look alike", ""),
)

_TABLES: Sequence[tuple[Shown, Callable[[Mean], str]]] = (
    *((shown, lambda mean: mean.text) for shown in AUCS),
    *((shown, lambda mean: number_text(mean.value)) for shown in (SECONDS, HOMOGENEOUS, _SHARE)),
    *((shown, lambda mean: f"{mean.value:,.4g}") for shown in (_KEPT, _SMALLEST, *_LOST)),
)


def report(
    summary: Summary, cells: int, shown: Sequence[Picture], header: Mapping[str, str]
) -> str:
    """The whole report as markdown.

    cells    how many were measured
    shown    pictures that lie beside the report
    header   what made the cells
    """
    parts = [
        "# k-anonymous tables: the paper's figures, measured again",
        "Benchmark data only: every number here is exact. k-anonymity is a syntactic promise: none "
        "of these tables is private.",
        *_settings(summary, cells, header),
        *_claims(summary),
    ]
    for dataset in summary.datasets:
        parts += _dataset(summary, dataset, [one for one in shown if one.dataset == dataset])
    parts += refused(summary.failures)
    return "\n\n".join(parts) + "\n"


def _settings(summary: Summary, cells: int, header: Mapping[str, str]) -> Iterator[str]:
    fewest, most = summary.repeats()
    yield bullets(
        [
            *(f"{name}: {text}" for name, text in header.items()),
            f"data sets: {', '.join(summary.datasets)}",
            f"cells: {cells}; repetitions of each number: "
            + " to ".join(str(one) for one in dict.fromkeys((fewest, most))),
            "a repetition: other folds and another forest; where the data set is a sample, another "
            "sample, drawn by the declared seed + the number of the repetition; all systems see "
            "the same rows in the same folds",
            "every method with its defaults (forests: 1000 trees); no row is left out; quasi-"
            "identifiers and label as the data set file declares them, its other wishes aside",
            "nested: selected in the training rows of each of 5 folds, tested on the rows of the "
            "fold, recoded by the public rule",
            "paper: selected once on all rows, then 5 folds of what is released: what is selected "
            "knows the rows that are tested on",
            "the paper's figures are AUC by SVM in its own protocol, and seconds, over K",
            "release: selected once on all rows; seconds are of one selection with its ranking "
            "(of one shorter than a second, the middle of three), wall clock, one thread; classes "
            "are of what is released",
            "distances of the SVM are rounded to hundredths: many of the few different rows that "
            "are released lie on its margin, where a solver's last digits would order them",
            "Greedy_Hamdist: only the abstract of its paper could be read; three readings, with "
            "the distances in closed form",
            "a number is a mean ± its standard error; where the data set is no sample it tells "
            "what folds and forests do, not what other people's rows would",
        ]
    )


def _claims(summary: Summary) -> Iterator[str]:
    yield "## What was claimed, and whether it held"
    yield (
        "A claim holds at a place (data set, K) where the mean difference of the pairs of one "
        f"repetition is beyond {SURE:g} of its standard errors; the contrary holds where it is so "
        "the other way round. In between, nothing is said; what is claimed to be no lower holds "
        "there too. What is claimed of every release, holds where no repetition is against it. "
        "With 5 repetitions 4 % of pairs that are in truth equal get a verdict by chance; with "
        "10, 1.5 %; with 30, 0.6 %."
    )
    yield from verdicts([_judged(claim, summary) for claim in CLAIMS], over="K")


def _judged(claim: Claim, summary: Summary) -> Judged:
    found = {one.title: claim.verdict(summary, one) for one in claim.measured}
    return Judged(claim.sentence, claim.source, found)


def _dataset(summary: Summary, dataset: str, shown: Sequence[Picture]) -> Iterator[str]:
    yield f"## {dataset}"
    yield "\n".join(f"![{picture.title}]({picture.file})" for picture in shown)
    for of, text in _TABLES:
        rows = list(_means(summary, dataset, of, text))
        if rows:
            yield f"{of.words[0].upper()}{of.words[1:]}:"
            heads = [f"K={k}" for k in summary.partitions(dataset)]
            yield markdown_table(["system", *heads], rows)


def _means(
    summary: Summary, dataset: str, of: Shown, text: Callable[[Mean], str]
) -> Iterator[list[str]]:
    """One row a system with a number."""
    for system in summary.systems(dataset):
        found = [
            summary.mean(dataset, of.use, system, k, of.measure)
            for k in summary.partitions(dataset)
        ]
        if any(found):
            title = known_systems()[system].title
            yield [title, *("–" if mean is None else text(mean) for mean in found)]
