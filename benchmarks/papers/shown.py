"""What the report of each study compares and shows, and ``run_study``, which makes it."""

from collections.abc import Iterator
from fractions import Fraction
from math import sqrt
from pathlib import Path

from benchmarks.papers import anonymity, claimed, clustering, tables
from benchmarks.papers.claims import SURE
from benchmarks.papers.report import Cost, Curve, Report, Table, write_report
from benchmarks.papers.results import Factors, Mean, Place, Summary
from benchmarks.papers.study import Study
from dp_pipeline.ledger import Ledger
from dp_pipeline.metrics.classification import SCORERS
from dp_pipeline.metrics.clustering import rcp
from dp_pipeline.reporting.figures.lines import HorizontalAxis, VerticalAxis

_PRIVATE_INTRO = "Benchmark data only: every number here is exact and none of it is private."
_MEANING = (
    "A claim holds at a place (data set, ε) where the difference of the means is beyond "
    f"{SURE:g} standard errors of the difference; the contrary holds where it is so the other "
    "way round. In between, nothing is said"
)
_MEAN_AND_ERROR = "a number is a mean ± its standard error"


def _seconds(over: str) -> Cost:
    words = f"Mean over {over}; one thread, wall clock, without reading the rows."
    return Cost("seconds", "seconds", "seconds of one fit", "seconds (log scale)", words)


# Private clustering.

RCP_REFERENCE = "eug_kmeans"


def _rcp(summary: Summary, place: Place) -> Mean | None:
    """Return RCP of the mean NICVs, in percent; its error by the delta method, because the two
    means are independent: |X/E|·√((s_X/X)² + (s_E/E)²).
    """
    reference = summary.mean(place._replace(system=RCP_REFERENCE), "nicv")
    own = summary.mean(place, "nicv")
    if own is None or reference is None or place.system == RCP_REFERENCE or not own.value:
        return None
    value = rcp(reference=reference.value, candidate=own.value)
    relative = sqrt((own.error / own.value) ** 2 + (reference.error / reference.value) ** 2)
    error = 100 * own.value / reference.value * relative
    return Mean(value, error, min(own.repeats, reference.repeats))


_HIGHER = VerticalAxis("F-measure (higher is better)", "linear")
_CLUSTERING_MEASURES = {
    "nicv_ratio": (
        "NICV ratio",
        VerticalAxis("NICV ratio (log scale)", "log", None, [(1.0, "without privacy")]),
    ),
    "rcp": (
        "RCP against EUGkM",
        VerticalAxis("RCP in percent", "signed log", None, [(0.0, "as EUGkM")]),
    ),
    "f_label": (
        "F-measure, classes: labels",
        _HIGHER,
    ),
    "f_kmeans": (
        "F-measure, classes: k-means without privacy",
        _HIGHER,
    ),
}
"""Measure → title of its picture, and its axis."""

_PLANNINGS = {
    "declared": ("N declared", "N in formulas is the declared number of rows."),
    "paid": ("N paid for", "N in formulas is a noisy count, paid for."),
}


def _clustering_curves(summary: Summary) -> Iterator[Curve]:
    for variant in summary.variants:
        for measure, (words, scale) in _CLUSTERING_MEASURES.items():
            title = f", N {variant}: {words}"
            yield Curve(
                measure, f"{measure}_{variant}", title, scale, _PLANNINGS[variant][1], variant
            )


_WITHOUT_N = ", ".join(system.title for system in clustering.SOUND if system.plannings == ("none",))

CLUSTERING = Report(
    factors=Factors(
        systems=clustering.SYSTEMS,
        level="epsilon",
        letter="ε",
        variant="planning",
        variants=clustering.PLANNINGS,
        order={
            "dataset": str,
            "system": list(clustering.SYSTEMS).index,
            "planning": str,
            "epsilon": Fraction,
            "repetition": int,
        },
        facts=("declared", "claim", "epsilon_charged", "reason"),
        derived={"rcp": _rcp},
    ),
    claims=claimed.CLUSTERING,
    title="Private clustering: the papers' figures, measured again",
    intro=_PRIVATE_INTRO,
    claims_head="What the papers claim, and whether it held",
    claims_words=(
        f"{_MEANING}. With 30 repetitions about 0.3 % of pairs that are in truth equal get a "
        "verdict by chance; with fewer than 10, far more."
    ),
    settings=(
        "noise: the exact discrete Laplace sampler, seeded by the cell; every cell its own",
        "N in a formula: declared (the data set file's number of rows, as the papers have it) or "
        f"paid for (a noisy count out of the same ε); {_WITHOUT_N} read none, and stand "
        "in both tables with the same numbers",
        _MEAN_AND_ERROR,
    ),
    variant_titles={variant: title for variant, (title, _) in _PLANNINGS.items()},
    curves=_clustering_curves,
    table=Table(
        "nicv_ratio",
        "NICV over the NICV of k-means without privacy (1 is as good; lower is better); N declared",
        "declared",
    ),
    costs=(_seconds("ε and plannings"),),
    costs_head=(
        "Run times",
        "Seconds of one fit (wall clock, one thread, rows in memory), mean over ε and plannings:",
    ),
)

# Private tables.

_METHODS = {"svm": "SVM", "logistic": "logistic regression"}
_DISTANCE = VerticalAxis("AVD (log scale)", "log")
_ERROR = VerticalAxis("share of wrong answers", "linear")
_CLASSIFIER_BASELINES = {tables.NO_PRIVACY: "no privacy", tables.MAJORITY: "majority"}


def measure_title(measure: str) -> str | None:
    """Return what a measure that is shown over ε is called; None for the others.

    >>> measure_title("avd_3"), measure_title("misclassified_svm/sex"), measure_title("seconds")
    ('average 3-way variation distance', 'misclassification of sex by SVM', None)
    """
    kind, _, target = measure.partition("/")
    if kind.startswith("avd_"):
        return f"average {kind.removeprefix('avd_')}-way variation distance"
    method = _METHODS.get(kind.removeprefix("misclassified_"))
    if method is None:
        return None
    if not target:
        return f"misclassification by {method}, mean over targets"
    return f"misclassification of {target} by {method}"


def _release_curves(summary: Summary) -> Iterator[Curve]:
    for measure in summary.measures:
        words, file = measure_title(measure), measure.replace("/", "_")
        if measure.startswith("avd_"):
            yield Curve(measure, file, f": {words}", _DISTANCE, "Lower is better.")
        elif words is not None:
            lines = _CLASSIFIER_BASELINES
            yield Curve(measure, file, f": {words}", _ERROR, "Lower is better.", references=lines)


RELEASE = Report(
    factors=Factors(
        systems=tables.SYSTEMS,
        level="epsilon",
        letter="ε",
        order={
            "dataset": str,
            "system": [*tables.SYSTEMS, *tables.BASELINES].index,
            "epsilon": lambda text: Fraction(text or 0),
            "use": tables.USES.index,
            "repetition": int,
        },
        facts=("declared", "claim", "epsilon_charged", "reason"),
        baselines=dict.fromkeys(tables.BASELINES, ""),
        is_counted_by_measure=True,
    ),
    claims=claimed.RELEASE,
    title="Private tables: the papers' figures, measured again",
    intro=_PRIVATE_INTRO,
    claims_words=(
        f"{_MEANING}; what is claimed to be no worse holds there too. "
        "With 30 repetitions about 0.3 % of pairs that are in truth equal get a verdict by chance; "
        "with 10, 1 %; with fewer, far more."
    ),
    settings=(
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
        _MEAN_AND_ERROR,
    ),
    once=("peak_mb",),
    curves=_release_curves,
    table=Table("avd_2", "Average 2-way variation distance (lower is better)"),
    costs=(
        _seconds("ε"),
        Cost(
            "peak_mb",
            "peak MB",
            "peak memory of one fit",
            "MB (log scale)",
            "Largest over ε; what Python and NumPy allocate for the fit, without the rows.",
            is_peak=True,
        ),
    ),
    costs_head=(
        "Run time and memory",
        "Of one fit: seconds, mean over ε; most megabytes, largest over ε.",
    ),
    baseline_titles={tables.NO_PRIVACY: "without privacy", tables.MAJORITY: "majority"},
)

# k-anonymous tables.

_SCORERS = {"logistic": "logistic regression", "svm": "SVM", "class_rate": "rates of classes"}
_AUCS = tuple(
    (use, f"auc_{scorer}", f"AUC by {_SCORERS[scorer]} ({use})")
    for use in ("paper", "nested")
    for scorer in SCORERS
)
_AUC, _SHARE = VerticalAxis("AUC", "linear"), VerticalAxis("share of rows", "linear")
_NO_SELECTION = {anonymity.NO_SELECTION: anonymity.SYSTEMS[anonymity.NO_SELECTION].title}


def _anonymity_curves(_: Summary) -> Iterator[Curve]:
    for use, measure, words in _AUCS:
        yield Curve(measure, f"{measure}_{use}", f": {words}", _AUC, "", use, _NO_SELECTION)
    title, scale = ": seconds of one selection", VerticalAxis("seconds (log scale)", "log")
    words = "Ranking included, one thread."
    yield Curve("seconds", "seconds", title, scale, words, "release")
    title = ": rows in classes with one label"
    yield Curve("homogeneous", "homogeneous", title, _SHARE, "", "release", _NO_SELECTION)


ANONYMITY = Report(
    factors=Factors(
        systems=anonymity.SYSTEMS,
        level="k",
        letter="K",
        variant="use",
        variants=anonymity.USES,
        order={
            "dataset": str,
            "use": anonymity.USES.index,
            "system": list(anonymity.SYSTEMS).index,
            "k": int,
            "repetition": int,
        },
        facts=("declared",),
        baselines={anonymity.NO_SELECTION: "0"},
        is_paired=True,
        min_level=2,
    ),
    claims=claimed.ANONYMITY,
    title="k-anonymous tables: the paper's figures, measured again",
    intro=(
        "Benchmark data only: every number here is exact. k-anonymity is a syntactic promise: none "
        "of these tables is private."
    ),
    claims_words=(
        "A claim holds at a place (data set, K) where the mean difference of the pairs of one "
        f"repetition is beyond {SURE:g} of its standard errors; the contrary holds where it is so "
        "the other way round. In between, nothing is said; what is claimed to be no lower holds "
        "there too. What is claimed of every release, holds where no repetition is against it. "
        "With 5 repetitions 4 % of pairs that are in truth equal get a verdict by chance; with "
        "10, 1.5 %; with 30, 0.6 %."
    ),
    repetitions="repetitions of each number",
    settings=(
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
        f"{_MEAN_AND_ERROR}; where the data set is no sample it tells "
        "what folds and forests do, not what other people's rows would",
    ),
    x_axis=HorizontalAxis("K: rows of every class, at least (0: nothing is promised)", "apart"),
    curves=_anonymity_curves,
    table=Table("auc_logistic", "AUC by logistic regression (nested)", "nested"),
)

REPORTS = {"clustering": CLUSTERING, "release": RELEASE, "anonymity": ANONYMITY}
"""Name of a study → its report."""


def run_study(study: Study, ledger: Ledger, *, jobs: int = 1) -> Path:
    """Measure what is not in the study's folder yet, then write what all of its cells say; return
    the path of ``report.md``.

    Errors are those of ``Study.run``, and PipelineError when every system refused.
    """
    rows = study.run(ledger, jobs=jobs)
    summary = Summary.of(REPORTS[study.name].factors, study.rows(rows))
    return write_report(study.folder, REPORTS[study.name], summary, len(rows), study.header())
