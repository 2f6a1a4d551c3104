"""What every counting engine is asked, and what it must answer: what a loop over the rows says."""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import combinations, permutations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_pipeline.config.domain import Domain
from dp_pipeline.gate.counter import Counter, Sealed
from dp_pipeline.gate.rules import NearestCentre, PredictedLabel
from dp_pipeline.raw.counters.batch import Answer, Batch, BatchQuery
from dp_pipeline.raw.counters.fold import FoldCounter, answer_batch, merge_answers
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.raw.counters.stream import StoredRows, fold_of
from dp_pipeline.results.derived_attribute import DerivedAttribute, Grouping
from dp_pipeline.results.trees import MOST_BITS, BitTree, Prefixes
from dp_pipeline_tests.raw.population import DOMAIN, EDGE, Population

Engine = Callable[[Population], Counter]
Ask = Callable[[Counter], Iterable[Sealed]]


def memory(population: Population) -> Counter:
    return MemoryCounter(
        population.domain,
        coordinates=population.coordinates,
        codes=population.codes,
        rows=population.rows,
    )


def in_parts(population: Population, cuts: tuple[int, ...] = (0, 1, 13, 13, 39)) -> Counter:
    """Some batches, of which some are empty, folded."""
    sizes = {name: population.domain[name].size for name in population.domain.discrete}
    divided = (population.at(rows) for rows in np.split(np.arange(population.rows), cuts))
    parts = [
        Batch(coordinates=part.coordinates, codes=part.codes, sizes=sizes, rows=part.rows)
        for part in divided
    ]

    def fold(query: BatchQuery) -> Answer | None:
        return merge_answers(query, (answer_batch(part, query) for part in parts))

    return FoldCounter(population.domain, fold)


def write_stages(population: Population, folder: Path, rows: int) -> tuple[Path, ...]:
    """Write the stages of a population with so many rows in a row group; return their paths."""
    columns = {"normalized": population.coordinates, "discretized": population.codes}
    paths = tuple(folder / f"{rows}.{stage}.parquet" for stage in columns)
    for path, arrays in zip(paths, columns.values(), strict=True):
        # An attribute more: a table of no column would have no rows.
        table = pa.table({**arrays, " ": np.zeros(population.rows, np.int8)})
        pq.write_table(table, path, row_group_size=rows)
    return paths


def stored(population: Population) -> Counter:
    """On disk, in row groups of a few rows, read in threads."""
    folder = tempfile.TemporaryDirectory()
    paths = write_stages(population, Path(folder.name), max(16, population.rows // 5))
    rows = StoredRows.of(population.domain, paths)
    counter = FoldCounter(population.domain, fold_of(rows, "stream"))
    # The files stay as long as the counter.
    counter.folder = folder
    return counter


ENGINES: dict[str, Engine] = {"memory": memory, "in parts": in_parts, "stored": stored}

engines = [
    # What is stored and read takes longest, and is the fold of "in parts" on files.
    pytest.param(each, id=name, marks=[pytest.mark.chain] if name == "stored" else [])
    for name, each in ENGINES.items()
]

NAMES = DOMAIN.discrete[:6]
PAIRS = list(combinations(NAMES, 2))
QUESTIONS = {
    "nothing": [],
    "the number of rows": [()],
    "one attribute": [("c",)],
    "one cell": [("y",)],
    "a pair": [("x", "d")],
    "a pair both ways": [("c", "wide"), ("wide", "c")],
    "the same twice": [("c", "d"), (), ("c", "d"), ()],
    "overlapping": [("c",), ("c", "d"), ("x", "c", "d"), ("d",)],
    "three ways, permuted": list(permutations(("d", "x", "c"))),
    "all but the wide": [("z", "c", "x", "d", "y")],
    "all pairs and all singles": [*PAIRS, *((name,) for name in NAMES), ()],
    "more cells than rows": [("huge", "c", "x"), ("huge",)],
    "all pairs backwards": [pair[::-1] for pair in reversed(PAIRS)],
}
GRIDS = [(("x",), 1), (("x",), 3), (("z", "x"), 2), (("x", "y"), 7), (("y", "z", "x"), 4)]
TIED = ((-EDGE, 0), (EDGE, 0), (0, EDGE), (0, -EDGE), (0, EDGE))
CORNER = ((EDGE, EDGE, EDGE), (EDGE, EDGE - 1, EDGE - 3))


def by_a_hair(n: int) -> NearestCentre:
    """To the upper corner the second centre is nearer, by 1: n²(2n − 3) + 1 = (n − 1)²(2n + 1)."""
    centres = ((EDGE - n + 2, EDGE - n - 1), (EDGE - n + 1, EDGE - n))
    return NearestCentre(("x", "y"), centres, (n, n - 1))


DISTANCES = [
    (NearestCentre(("x",), ((0,),), (1,)), {"clip": 1 << 40, "shift": 9}),
    (NearestCentre(("z", "x"), TIED, (1, 1)), {"clip": (1 << 26) - 1, "shift": 0}),
    (NearestCentre(("x", "y"), TIED, (500, 500)), {"clip": 1 << 60, "shift": 35}),
    (NearestCentre(("x", "y"), TIED, (512, 511)), {"clip": 1 << 54, "shift": 31}),
    (NearestCentre(("x", "y", "z"), CORNER, (419, 418, 416)), {"clip": 1 << 31, "shift": 6}),
    (NearestCentre(("x", "y"), TIED, (0, 6)), {"clip": 1 << 40, "shift": 14}),
    (NearestCentre(("x", "y", "z"), ((1, 2, 3),), (0, 0, 0)), {"clip": 5, "shift": 0}),
    (NearestCentre(("x",), ((7,),), (3,)), {"clip": 0, "shift": 62}),
]


def tree_of(*columns: str, most: int = MOST_BITS) -> BitTree:
    """The tree that halves the axes in turn."""
    return BitTree.over(columns, DOMAIN.box(columns), most=most)


def nodes_of(*nodes: tuple[int, int]) -> Prefixes:
    """Nodes of these (depth, bits)."""
    table = np.array(nodes, dtype=np.int64).reshape(-1, 2)
    return Prefixes(table[:, 0], table[:, 1])


def corners(depth: int) -> Prefixes:
    """The first and the last node of a depth, and those beside the middle of the first axis."""
    half = 1 << (depth - 1)
    return nodes_of(*((depth, bits) for bits in (2 * half - 1, 0, half, half - 1)))


ROOT = Prefixes.root()
OVERLAPPING = Prefixes.concatenate([ROOT.children(3), ROOT, corners(9), ROOT.children(1), ROOT])
TREES = [
    (BitTree(("x",), ()), ROOT, 0),
    (tree_of("x"), ROOT, 0),
    (tree_of("x"), ROOT, 16),
    (tree_of("x"), corners(17), 0),
    (tree_of("y", "x"), OVERLAPPING, 4),
    (tree_of("y", "x"), corners(34), 0),
    (tree_of("x", "z", "y"), corners(33), 7),
    (tree_of("x", "z", "y", most=30), corners(26), 4),
    (tree_of("x", "z", "y", most=31), corners(30), 1),
    (tree_of("w", "y", "x", "z"), corners(36), 4),
    (tree_of("w", "y", "x", "z"), nodes_of(), 2),
    (BitTree(("x", "z"), (1,) * 17), corners(13), 4),
    (BitTree(("x", "z"), (0, 0, 1, 0, 1, 1)), ROOT.children(2), 4),
]
THREE = tuple(NearestCentre(("x", "y"), TIED[index:] + TIED[:index], (1, 1)) for index in range(3))
SPREAD = tuple(
    NearestCentre(("w", "z", "y", "x"), ((a, -a, a, a), (-a, 0, 0, a)), (3, 1, 2, 1))
    for a in range(0, EDGE, 5000)
)
SUBSETS = [
    ([NearestCentre(("x",), ((0,),), (1,))], 0),
    (THREE[:1], 5),
    (THREE, 5),
    (THREE, 6),
    (SPREAD, (1 << 63) - 1),
    ([NearestCentre(("z", "x"), ((0, 0),), (1, 1))] * 100, 1),
    ([NearestCentre(("x", "z"), ((0, 0),), (1, 1))] * 100, 1),
    ([NearestCentre(("x", "y"), TIED, (512, 511))] * 2, 0),
    ([NearestCentre(("x", "y"), TIED, (0, 0))] * 3, 0),
    ([by_a_hair(512)], 0),
]
RESIDUALS = [
    (NearestCentre(("x",), ((7,),), (1,)), (1,)),
    (NearestCentre(("x", "y"), TIED, (1, 1)), (3, 50_000, 1, 90_001, 7)),
    (NearestCentre(("y", "x"), TIED, (512, 511)), ((1 << 47) - 1, 1, 1 << 26, 999_999, 1 << 46)),
    (NearestCentre(("x", "y", "z"), CORNER, (3, 0, 1)), (100, 200_001)),
    (SPREAD[4], (77_777, 131_071)),
]
CLASSES = [
    (NearestCentre(("x",), ((7,),), (1,)), "y"),
    (NearestCentre(("z", "x"), TIED, (1, 1)), "c"),
    (NearestCentre(("x", "y"), TIED, (512, 511)), "x"),
    (SPREAD[4], "wide"),
]
PREDICTIONS = [
    PredictedLabel("c", (0, 3), (), (), 1),
    PredictedLabel("d", (1,), (), (), 0),
    PredictedLabel("y", (0,), ("d",), ((0, 1),), 0),
    PredictedLabel("d", (0,), ("c", "x"), ((-2, 1, 3, 0), (0, 1, -1)), -1),
    PredictedLabel("x", (1, 2), ("wide", "x"), (tuple(range(-150, 150)), (7, -7, 0)), 3),
    PredictedLabel("huge", tuple(range(30_000)), ("d", "c"), ((1 << 40, -(1 << 40)), (0,) * 4), 1),
    PredictedLabel("c", (), ("z", "d"), ((-(1 << 40), 1), (1 << 40, 0)), 0),
]

GROUPINGS = {
    "no attribute": {},
    "one attribute": {"c": Grouping((0, 1, 1, 2))},
    "numbers that are coordinates no more": {"x": Grouping((0, 1, 1)), "z": Grouping((0, 1))},
    "all levels of one group": {"d": Grouping((0, 0)), "y": Grouping((0,))},
    "many levels": {
        "wide": Grouping(tuple(level // 7 for level in range(300))),
        "huge": Grouping(tuple(level // 100 for level in range(60_000))),
    },
    "every level alone": {"wide": Grouping(tuple(range(300)))},
}
GROUPED = [(), ("c",), ("x", "d"), ("wide", "c"), ("huge", "y"), ("z", "x", "c", "d")]


DERIVED = {
    "no attribute": {},
    "the answer to a bit": {"bit": DerivedAttribute(("c",), (0, 1, 0, 1))},
    "two of one attribute": {
        "low": DerivedAttribute(("x",), (1, 0, 0)),
        "middle": DerivedAttribute(("x",), (0, 1, 0)),
    },
    "of several attributes, in another order": {
        "class": DerivedAttribute(("d", "c", "x"), tuple((7 * cell) % 24 for cell in range(24)))
    },
    "one group for all": {"same": DerivedAttribute(("wide", "d"), (0,) * 600)},
    "more groups than a byte holds": {
        "many": DerivedAttribute(("huge",), tuple(level % 300 for level in range(60_000)))
    },
}


def assert_answer(sealed: Sealed, expected: np.ndarray) -> None:
    """Sealed, whole numbers, in memory order, and right."""
    assert isinstance(sealed, Sealed)
    actual = sealed.open_at_the_gate()
    assert actual.dtype == np.int64
    assert actual.shape == expected.shape
    assert actual.flags.c_contiguous
    assert np.array_equal(actual, expected)


def assert_agrees(engine: Engine, population: Population, ask: Ask) -> None:
    """The engine answers as loops over the rows do."""
    for actual, expected in zip(ask(engine(population)), ask(population.loop), strict=True):
        assert_answer(actual, expected.open_at_the_gate())


def counts(counter: Counter) -> Iterator[Sealed]:
    for marginals in QUESTIONS.values():
        yield from counter.count(marginals)


def grouped(counter: Counter, groupings: Mapping[str, Grouping]) -> Counter:
    """The counter with levels merged, as a curator of it asks for."""
    coarse = {name: each.apply_to(counter.domain[name]) for name, each in groupings.items()}
    derived = {name: DerivedAttribute((name,), each.groups) for name, each in groupings.items()}
    return counter.recoded(derived, counter.domain.with_attributes(coarse))


def with_attributes(counter: Counter, derived: Mapping[str, DerivedAttribute]) -> Counter:
    """The counter with more attributes, as a curator of it asks for."""
    added = (each.as_attribute(name) for name, each in derived.items())
    return counter.recoded(derived, Domain((*counter.domain, *added)))


def groups(counter: Counter) -> Iterator[Sealed]:
    for groupings in GROUPINGS.values():
        coarse = grouped(counter, groupings)
        yield from coarse.count(GROUPED)
        yield coarse.grid(tuple(name for name in ("w", "x") if name in coarse.domain.numeric), 3)
    once, again = GROUPINGS["one attribute"], {"c": Grouping((0, 0, 1))}
    yield from grouped(grouped(counter, once), again).count([("c", "d")])
    yield from counter.count([("c", "d")])


def derived(counter: Counter) -> Iterator[Sealed]:
    for attributes in DERIVED.values():
        finer = with_attributes(counter, attributes)
        pairs = [(name, "d") for name in attributes]
        yield from finer.count([(), ("c", "d"), tuple(attributes), *pairs])
        yield finer.grid(("w", "x"), 3)
    once = with_attributes(counter, DERIVED["two of one attribute"])
    again = {"both": DerivedAttribute(("middle", "c", "low"), tuple(range(16)))}
    yield from with_attributes(once, again).count([("both", "d")])


def trees(counter: Counter) -> Iterator[Sealed]:
    for tree, nodes, bits in [*TREES, *reversed(TREES)]:
        yield from counter.children(tree, [(nodes, bits)])


ASKED: dict[str, Ask] = {
    "counts": counts,
    "groups": groups,
    "derived": derived,
    "grids": lambda counter: [counter.grid(*grid) for grid in GRIDS],
    "distances": lambda counter: [counter.distance_total(rule, **by) for rule, by in DISTANCES],
    "trees": trees,
    "subsets": lambda counter: [counter.sum_by_centre(rules, salt=salt) for rules, salt in SUBSETS],
    "residuals": lambda counter: [counter.residuals(*residuals) for residuals in RESIDUALS],
    "classes": lambda counter: [counter.classify(*classes) for classes in CLASSES],
    "predictions": lambda counter: [counter.mistakes(label) for label in PREDICTIONS],
}
