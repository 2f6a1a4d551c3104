"""What discovery and constraints do to a table of Adult:
``python benchmarks/real_columns.py [REPETITIONS]`` prints the tables of the
decisions about them, with ``DP_PIPELINE_DATA`` set, in about a quarter of an hour.

Four fifths of the rows are fitted, a fifth is asked about. Every comparison is at one total ε:
what discovery costs is taken from it.
"""

import copy
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import yaml
from scipy.stats import wasserstein_distance

from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.parser import load_spec
from dp_pipeline.gate.discovery import discover
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.metrics.classification import misclassification, train
from dp_pipeline.models import MODELS
from dp_pipeline.models.base import ModelFit, guarantee_of
from dp_pipeline.models.tables.base import TableModel
from dp_pipeline.raw.comparison import distances
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.raw.counters.undeclared import UndeclaredRows
from dp_pipeline.raw.prepare import discretize, normalize
from dp_pipeline.raw.sources import read_source
from dp_pipeline.results.accountant import Accountant
from dp_pipeline.results.synthetic_table import SyntheticTable
from dp_pipeline.results.transcript import Transcript

EPSILONS = (Fraction(1, 5), Fraction(4, 5))
PART = Fraction(1, 10)
"""Of the total ε, that discovery takes."""
DELTA = "0.000000001"
BINS = 16
NUMBERS = ("age", "fnlwgt", "capital_gain", "capital_loss", "hours_per_week")
TARGET = "income"

Texts = dict[str, Any]


def adult() -> Texts:
    """The data set file of Adult as published."""
    path = resources.files("dp_pipeline") / "datasets" / "adult_raw.yaml"
    found = yaml.load(path.read_text(), Loader=yaml.BaseLoader)  # noqa: S506
    assert isinstance(found, dict)
    return found


def equal_width(texts: Texts) -> Texts:
    """Bins of one width in every number."""
    for name in NUMBERS:
        bounds = texts["attributes"][name]["bounds"]
        texts["attributes"][name] = {"bounds": bounds, "bins": BINS, "integer": "true"}
    return texts


def quantiles(texts: Texts, many: int = BINS) -> Texts:
    """Bins of about as many rows, discovered."""
    for name in NUMBERS:
        bounds = texts["attributes"][name]["bounds"]
        bins = {"quantiles": str(many)}
        texts["attributes"][name] = {"bounds": bounds, "bins": bins, "integer": "true"}
    return texts


def countries(texts: Texts) -> Texts:
    """Countries that are discovered; the other columns as declared."""
    named = {"levels": "discover", "nullable": "true", "missing": ["?"]}
    texts["attributes"]["native_country"] = named
    return texts


WAYS: Mapping[str, Any] = {
    "edges by hand": lambda texts: texts,
    "16 of equal width": equal_width,
    "16 quantiles": quantiles,
    "8 quantiles": lambda texts: quantiles(texts, 8),
}


@dataclass(frozen=True)
class Made:
    """One release and what it is compared with.

    spec        with what was discovered
    table       synthetic rows
    real        codes of the rows that were fitted
    asked       codes of the rows that were not
    fitted      the rows that were fitted, as they are
    """

    spec: DatasetSpec
    table: SyntheticTable
    real: dict[str, np.ndarray]
    asked: dict[str, np.ndarray]
    fitted: pa.Table

    @property
    def codes(self) -> dict[str, np.ndarray]:
        """Of the synthetic rows."""
        return dict(zip(self.table.attributes, self.table.codes.T, strict=True))

    def wasserstein(self) -> float:
        """Mean over the numbers of the distance of their distributions, in standard deviations."""
        found = []
        columns = self.table.tables()["synthetic"]
        for name in NUMBERS:
            box = self.spec.domain[name].coordinate
            assert box is not None
            values = np.array([float(x) for x in self.fitted.column(name).to_pylist()])
            real = np.clip(values, box.lower, box.upper)
            found.append(wasserstein_distance(real, columns[name]) / real.std())
        return float(np.mean(found))

    def misclassified(self) -> float:
        """Share of the rows asked about whose income a logistic regression gets wrong."""
        (target,) = (one for one in self.spec.targets if one.attribute == TARGET)
        domain = self.spec.domain
        seen, answers = target.classification_task(self.codes, domain)
        learned = train("logistic", seen, answers, {one: domain[one].size for one in seen})
        return misclassification(learned, *target.classification_task(self.asked, domain))


def made(texts: Texts, rows: pa.Table, epsilon: Fraction, seed: int) -> Made:
    """A release by the default model, discovery included in ε."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "adult_raw.yaml")
        path.write_text(yaml.safe_dump(texts))
        spec = load_spec(path)
    order = np.random.default_rng(seed).permutation(rows.num_rows)
    cut = rows.num_rows * 4 // 5
    ours, theirs = rows.take(pa.array(order[:cut])), rows.take(pa.array(order[cut:]))
    if spec.discover is not None:
        paid = Accountant(spec.discover.epsilon, delta=spec.discover.delta or Fraction(0))
        counter = UndeclaredRows.of_table(spec, ours, b"key")
        spec = spec.with_domain(
            discover(spec, counter, paid, Transcript(), SeededNoise(1000 + seed))
        )
        epsilon -= paid.epsilon
    stages = [normalize(spec, rows, b"key") for rows in (ours, theirs)]
    real, asked = (
        {name: column.to_numpy() for name, column in zip(t.column_names, t.columns, strict=True)}
        for t in (discretize(spec, stage) for stage in stages)
    )
    numbers = {name: stages[0].column(name).to_numpy() for name in spec.domain.numeric}
    counter_ = MemoryCounter(spec.domain, coordinates=numbers, codes=real, rows=stages[0].num_rows)
    model = MODELS["one_shot"]()
    assert isinstance(model, TableModel)
    fit, rng = ModelFit(spec, model, guarantee_of(model, epsilon)), np.random.default_rng(seed)
    released = fit.fit_model(
        counter_, Transcript(), SeededNoise(seed), epsilon=epsilon, rng=rng
    ).released
    assert isinstance(released, SyntheticTable)
    return Made(spec, released, real, asked, ours)


def with_discovery(texts: Texts, epsilon: Fraction, *, delta: bool) -> Texts:
    """The file with a tenth of ε for what it leaves open."""
    cost = {"epsilon": epsilon_text(epsilon * PART)} | ({"delta": DELTA} if delta else {})
    return {**texts, "discover": cost}


def bins_of_numbers(rows: pa.Table, repetitions: int) -> Iterator[str]:
    """Lines of the comparison of bins."""
    for epsilon in EPSILONS:
        for name, way in WAYS.items():
            texts = way(copy.deepcopy(adult()))
            if name.endswith("quantiles"):
                texts = with_discovery(texts, epsilon, delta=False)
            found = [made(texts, rows, epsilon, seed) for seed in range(repetitions)]
            distances = [one.wasserstein() for one in found]
            wrong = [one.misclassified() for one in found]
            yield (f"| {float(epsilon)} | {name} | {said(distances)} | {said(wrong)} |")


def levels_of_countries(rows: pa.Table, repetitions: int) -> Iterator[str]:
    """Lines of the comparison of countries: AVD of all pairs with them, by their names."""
    for epsilon in EPSILONS:
        for name in ("declared", "discovered"):
            texts = copy.deepcopy(adult())
            if name == "discovered":
                texts = with_discovery(countries(texts), epsilon, delta=True)
            found = [made(texts, rows, epsilon, seed) for seed in range(repetitions)]
            sizes = [float(one.spec.domain["native_country"].size) for one in found]
            yield f"| {float(epsilon)} | {name} | {said(sizes)} | {said(map(distance, found))} |"


def distance(one: Made) -> float:
    """AVD of all pairs with the country; a country that was not found is another one than it is."""
    declared = load_adult()
    labels = [*declared.domain["native_country"].labels(), "other"]
    own = one.spec.domain["native_country"].labels()
    to = np.array([labels.index(label) for label in own])
    truth = {**one.real, "native_country": truth_of(one, declared)}
    codes = {**one.codes, "native_country": to[one.codes["native_country"]]}
    names = one.spec.domain.discrete
    sizes = dict(zip(names, one.spec.domain.shape(names), strict=True))
    sizes["native_country"] = len(labels)
    ways = [("native_country", name) for name in names if name != "native_country"]
    return float(np.mean(list(distances(truth, codes, sizes, ways).values())))


def truth_of(one: Made, declared: DatasetSpec) -> np.ndarray:
    """Codes of the countries that the fitted rows say, as they are declared."""
    stage = discretize(declared, normalize(declared, one.fitted, b"key"))
    return np.asarray(stage.column("native_country").to_numpy())


def load_adult() -> DatasetSpec:
    """As it is shipped."""
    return load_spec(Path(str(resources.files("dp_pipeline") / "datasets" / "adult_raw.yaml")))


def said(values: Any) -> str:
    """Mean ± deviation of the mean."""
    many = np.array(list(values), dtype=np.float64)
    return f"{many.mean():.4g} ± {many.std() / len(many) ** 0.5:.2g}"


def main(repetitions: int) -> None:
    """Print both tables."""
    rows = read_source(load_adult())
    heads = (
        "| ε | bins | 1-way Wasserstein | misclassified income |",
        "| ε | countries | levels | AVD of pairs with the country |",
    )
    tables = bins_of_numbers(rows, repetitions), levels_of_countries(rows, repetitions)
    for head, lines in zip(heads, tables, strict=True):
        sys.stdout.write(f"{head}\n")
        for line in lines:
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
