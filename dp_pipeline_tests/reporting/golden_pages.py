"""Cards and reports of releases written by hand, as golden text: what a page says is reviewed as
text, and no sentence of one goes unseen.

.venv/bin/python -m dp_pipeline_tests.reporting.golden_pages   writes the files of golden/ anew
"""

import html
import re
import tempfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from dp_pipeline.config.domain import Protection
from dp_pipeline.ledger import Balance
from dp_pipeline.reporting.pages import card, write_report
from dp_pipeline.reporting.prices import BudgetForecast
from dp_pipeline.results.accountant import LAPLACE, Spend
from dp_pipeline.results.measurement import NoisyNumber
from dp_pipeline_tests.reporting.samples import (
    FIGURES,
    HALF,
    NOT_DP,
    ONE,
    SEEDED,
    TEN,
    WRITTEN,
    bought,
    cliques,
    exact,
    k_anonymous,
    measures,
    release,
    spec,
    spend,
)

GOLDEN = Path(__file__).parent / "golden"
PEOPLE = spec(
    purpose="release",
    ceiling=TEN,
    protection=Protection("rider", 20),
    relation="replace_one",
    delta=Fraction(1, 10**9),
    nominal_rows=900,
)
OTHERS = ["squares/k_anonymous/rfka at K = 5, snapshot 1"]
FEW = {"centres": {name: np.array([1.0, 3.0]) for name in "xy"}, "sizes": {"size": np.ones(2)}}
"""Centres of so few rows that a warning speaks against them."""
TABLE = {
    "synthetic": {"sex": np.array(["f", "m"])},
    "novel": {"a": np.arange(3)},
    "cliques": cliques(("sex, age", -1, "")),
}
CLASSES = {
    "bits": {"bit": np.array(["rooms at least 2"]), "attribute": np.array(["rooms"])},
    "classes": {"class": np.array([0]), "rows": np.array([7])},
    "claims": {
        "claim": np.array(["It is private.", "No class has fewer than 5 rows."]),
        "promised": np.array(["yes", "no"]),
    },
}
DEARER = {"composed": "0.75", "reason": "a round is free", "releasable": "no"}


def for_person(epsilon: Fraction = HALF) -> Spend:
    """A charge for sizes, of which a person who is replaced changes 40 rows."""
    return Spend("sizes", LAPLACE, epsilon, 40, 40 / epsilon)


def golden_texts() -> Iterator[tuple[str, str]]:
    """Name of a file, and what it holds."""
    account = Balance(ceiling=TEN, spent=Fraction(1, 2), currency=PEOPLE.currency, not_dp=1)
    paid = {"evaluation": "1/6", "delta": "1e-9", "currency": "pure"}
    people = release(
        spec=PEOPLE,
        tables=FEW,
        spends=(for_person(Fraction(1, 3)), for_person(Fraction(1, 6))),
        quality={"nicv": NoisyNumber(1.25, 0.1, "squared data units")},
        balance=account,
        non_dp_releases=OTHERS,
        **paid,
    )
    yield "card_epsilon.md", card(people)
    many = (spend(10, Fraction(1, 10)),) * 5 + tuple(map(spend, range(1, 15)))
    seeded = release(spends=many, tables=CLASSES, own_delta="1/1000000000", **SEEDED)
    yield "card_epsilon_seeded.md", card(seeded)
    yield "card_epsilon_not_dp.md", card(release(tables=TABLE, **NOT_DP))
    figures = dict.fromkeys(FIGURES, 0.5)
    sensitive = spec(purpose="release", ceiling=TEN)
    aucs = {"auc_in_folds": 0.863, "auc_in_folds_with_one_label": 0.986}
    public = {"diversity": 2, "measures": {**measures("ab", "aab"), **aucs}}
    yield "card_k.md", card(k_anonymous(left_out=[("a", 1, 0.125)], suppress="1/8", **public))
    diverse = {"k": 3, "diversity": 2, "measures": measures("abc", "aab", k=3)}
    secret = {"spec": sensitive, "attributes": "x"}
    some = {"allow_not_dp": "yes", "suppressed": 3, "suppress": "3/10", "non_dp_releases": OTHERS}
    yield "card_k_sensitive.md", card(k_anonymous(**secret, **diverse, **some))
    yield "card_k_nothing.md", card(k_anonymous(k=0, measures=measures(k=0), **secret))
    rows = [
        exact("eug_kmeans", item, 1.0, name) for item in (HALF, ONE) for name in ("nicv", "rcp")
    ]
    questions = ("scores of 3 tables", "marginal of a, b", "marginal of a, b")
    charges = tuple(Spend(kind, LAPLACE, Fraction(1, 6), 1, Fraction(6)) for kind in questions)
    releases = [release(), release(model="mst", spends=charges, tables=TABLE), release(**SEEDED)]
    releases += [release(model=name, **NOT_DP) for name in ("a", "b")]
    releases.append(release(model="c", **DEARER))
    yield "report_epsilon.txt", _report(level="epsilon", spec=spec(), releases=releases, rows=rows)
    few = {"spec": PEOPLE, "tables": FEW, "spends": (for_person(),)}
    yield (
        "report_epsilon_people.txt",
        _report(
            level="epsilon",
            spec=PEOPLE,
            releases=[release(model=name, **few) for name in ("a", "b")],
            rows=[bought("eug_kmeans", HALF, 1.0, 0.1)],
            non_dp_releases=OTHERS,
            forecast=BudgetForecast(account, price=Fraction(1, 10)),
        ),
    )
    older, tree = measures("aabab", k=5), measures("aaaaa", k=5)
    del older["entropy_l"]
    needed = ("rows", "classes", "k", "alpha", "distinct_l", "homogeneous_rows", "t_closeness")
    tried = [
        k_anonymous(figures=figures),
        k_anonymous(k=5, measures=older),
        k_anonymous(model="tree", k=5, measures={name: tree[name] for name in needed}),
    ]
    yield "report_k.txt", _report(level="k", spec=spec(), releases=tried)
    remaining = [k_anonymous(spec=sensitive, allow_not_dp="yes", **diverse)]
    yield (
        "report_k_sensitive.txt",
        _report(level="k", spec=sensitive, releases=remaining, non_dp_releases=OTHERS),
    )


def _report(**arguments: Any) -> str:
    """The words of a page, a line each element."""
    with tempfile.TemporaryDirectory() as folder:
        page = write_report(Path(folder) / "report.html", written=WRITTEN, **arguments)
        body = page.read_text(encoding="utf-8").partition("</style>")[2]
    text = re.sub(r"</?(?!sup|b>|/b)[a-z][^>]*>", "\n", body)
    lines = (html.unescape(re.sub(r"<[^>]+>", "", line)).strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line) + "\n"


def main() -> None:
    GOLDEN.mkdir(exist_ok=True)
    for name, text in golden_texts():
        (GOLDEN / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
