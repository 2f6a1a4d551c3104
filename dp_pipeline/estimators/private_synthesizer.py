"""PrivateSynthesizer: a differentially private copy of a table, with scikit-learn's manners.

New rows from a fit that is over: its stored answers once more, then other randomness.

The graph of a released table's model, for networkx.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dp_pipeline.estimators.declared import DeclaredColumn, declared_columns, domain_of
from dp_pipeline.estimators.discovery import Discovery, cost_of, left_of
from dp_pipeline.estimators.fit import (
    Estimate,
    PrivateFit,
    charged,
    exact_delta,
    exact_epsilon,
    generator,
    invalid_parameters,
    is_fit_for_release,
    noise_of,
    plain_guarantee,
    planning_params,
    promised,
    table_model,
)
from dp_pipeline.estimators.frames import features_of, frame_kind, whole_number
from dp_pipeline.estimators.private_kmeans import table_doubts, warn_of
from dp_pipeline.estimators.quality import table_report
from dp_pipeline.estimators.rows import declared_values, every_column, fitting_rows
from dp_pipeline.estimators.synthetic_frames import marginal_frame, synthetic_frame, typed
from dp_pipeline.gate.counter import MOST_GRID_CELLS
from dp_pipeline.gate.noise import OpenDPNoise
from dp_pipeline.models.tables.base import TableModel
from dp_pipeline.release.accountant import Spend
from dp_pipeline.release.synthetic_table import SyntheticTable
from dp_pipeline.release.transcript import Transcript
from dp_pipeline.reporting.quality import QualityReport
from dp_pipeline.spec.attribute_parser import DISCOVER
from dp_pipeline.spec.constraint_parser import constraints_of
from dp_pipeline.spec.domain import Domain
from dp_pipeline.spec.encoding import IntArray
from dp_pipeline.spec.errors import DeclarationError


class _StoredAnswers(Transcript):
    """Answers of a fit; with the last of them the model's randomness becomes another.

    A model may draw which questions it asks, so it must begin as it began; what it draws
    after its last answer are rows.
    """

    def __init__(
        self, answered: Transcript, *, rng: np.random.Generator, then: np.random.Generator
    ) -> None:
        super().__init__()
        self._records = list(answered.records)
        self._rng, self._then = rng, then

    def recall(self, question: str, *, words: str = "") -> IntArray | None:
        """The stored answer, as any transcript gives it."""
        answer = super().recall(question, words=words)
        if self._next == len(self._records):
            self._rng.bit_generator.state = self._then.bit_generator.state
        return answer


def redrawn(
    fit: PrivateFit[SyntheticTable],
    transcript: Transcript,
    *,
    rows: int,
    began: np.random.Generator,
    rng: np.random.Generator,
) -> SyntheticTable:
    """Rows drawn anew from what was released: post-processing, no row is read, nothing is spent.

    began   randomness as it was when the fit began
    rng     randomness of the rows
    """
    assert isinstance(fit.model, TableModel)
    began = copy.deepcopy(began)
    answers = _StoredAnswers(transcript, rng=began, then=rng)
    again = replace(fit, model=replace(fit.model, synthetic_rows=rows))
    return again.replayed(answers, noise=OpenDPNoise(), rng=began).released


def clique_graph(table: SyntheticTable) -> Any:
    """An undirected graph: cliques with their ``cells``, edges with their ``separator``."""
    import networkx as nx

    graph = nx.Graph()
    for clique in table.cliques:
        graph.add_node(clique, cells=table.domain.cell_count(clique))
    for parent, child in table.links:
        first, second = table.cliques[parent], table.cliques[child]
        shared = tuple(name for name in second if name in first)
        graph.add_edge(first, second, separator=shared)
    return graph


MOST_ROWS = 10**9


class PrivateSynthesizer(BaseEstimator):  # type: ignore[misc]
    """A synthetic table that is ε-differentially private: one row more or less changes the
    probability of any result by at most the factor e^ε.

    **Every fit is a new spend.** The results of two fits on the same rows, of clones, of the
    folds and candidates of a grid search are together as private as the *sum* of their ε.
    Nothing here adds them up unless ``population`` is given.

    All that ``fit`` sets is private, and so is what ``sample`` and ``marginal`` make of it, as
    often as they are called. Not private is a ``domain`` that was read off the rows: declare
    levels and bounds that were known before. Results compared with the rows are as sensitive
    as they are.

    Parameters
    ----------
    domain : mapping of column names to levels, bins or sizes, or "discover"
        The declared columns, which are also those of the synthetic table. A column is

        * a list of levels: texts, numbers or truth values. A value is looked up as text, without
          spaces around it: the level 1 takes 1, 1.0 and "1". A pandas ``CategoricalDtype`` is
          a list too, and gives synthetic columns of that type;
        * a number n: the levels 0..n−1;
        * ``{"levels": [...]}`` or ``{"size": n}``, with ``"other"``, the level that takes unknown
          values, ``"nullable": True``, where a missing value is a level of its own, and beside
          that ``"missing": [...]``, texts that mean one;
        * ``{"bounds": [low, high], "bins": n}``, or ``"edges": [...]`` in place of bins: a
          number, clipped to the bounds, with ``"integer": True`` where synthetic values are
          whole, ``"nullable"`` and ``"missing"``. Edges may hold the bounds, as first and last;
        * ``{"bounds": ["2026-01-01", "2026-12-31"], "every": "week"}``: a date, or a time with
          ``"type": "timestamp"``, in cells of a year, month, week, day or hour, or in bins or
          edges; with ``"zone"`` for times that have none.

        What nobody knows is found by looks that are paid for (``discover``):

        * ``{"levels": "discover"}``, with ``"at_most"``, ``"other"`` and ``"on_invalid": "drop"``:
          texts that enough rows have; others become ``other``. Synthetic ones are texts;
        * ``{"bounds": "discover", "bins": {"quantiles": 16}}``, or a number of bins: numbers, with
          ``"unit"``; or ``{"bounds": [0, 99], "bins": {"quantiles": 16}}`` inside known bounds;
        * ``"discover"``, and not even whether it holds numbers or texts is known: a noisy count
          tells, a tenth of what ``discover`` costs. Types of ``X`` are not asked, because its
          values make them. ``domain="discover"`` says this of every column.

        The key ``...`` declares every other column of ``X``, as in
        ``{...: {"bounds": [0, 1], "bins": 8}}``. Columns of an array without a name are called x
        and their place: x0, x1.
    epsilon : str, Fraction, int or float
        Privacy of one fit, from 1e-6 to 1e6 with at most nine decimals. A float is taken by its
        shortest decimal text, 0.1 is exactly 1/10, and **rounded down** to nine decimals: 1 / 3 is
        0.333333333. What a fitted estimator prints says so.
    delta : str, Fraction or float, default=0
        With one above 0, at most 0.001, the fit is (ε, δ)-differentially private, accounted in ρ
        of zero-concentrated DP: less noise. Only methods that know how take one. Choose it far
        below one over the number of rows.
    method : str, default="one_shot"
        A private model of tables of ``dp_pipeline.models``.
    noise : str or NoiseSource, default=None
        None is OpenDP, the secure default. ``"exact"`` is this package's own sampler on the
        operating system's randomness. ``"seeded:7"`` is for research only: whoever knows the
        seed can subtract the noise.
    random_state : int, RandomState or None, default=None
        Randomness of post-processing: of the rows that are drawn. It protects nobody.
    method_params : dict, default=None
        Further parameters of the method, as text or numbers; of ``one_shot`` also
        ``{"workload": "income 4, age sex 2"}``: pairs with income count four times as much.
    nominal_rows : int, default=None
        Declared number of rows, which need not be true: for methods that plan with one.
    on_unknown : {"drop", "error"}, default="drop"
        What becomes of a row with a value that is not declared and has no ``other`` to go to, or
        that is missing where nothing says it may be: it is left out, as the whole pipeline does.
        "error" raises in its place, in words that name the column. **That tells about a row:**
        for public data alone, and never beside ``population``.
    population : str, default=None
        Population whose account in the ledger of this project's home (``DP_PIPELINE_HOME``, or
        the folder of workspace.yaml) pays for every fit, before it looks. A fit that stops after
        that has spent its ε: there are no refunds. The account's δ is that of ``delta``, or
        ``delta`` is 0.
    constraints : dict, default=None
        What columns say together, in the words of a data set file, such as
        ``{"never": [{"age": "[0, 16)", "state": ["married", "widowed"]}]}``; also ``only`` and
        ``depends``. Rows that break one are left out, as those with values that are not declared;
        no synthetic row does. Not every method can.
    plan_from : PrivateSynthesizer, default=None
        A fit of other rows, such as last week's, by the same method over the same domain: what it
        released is public, so planning from it is free. ``method_params={"smooth": "true"}``
        combines numbers as well. The rows must be others: the ε of fits over the same rows add up
        in any case. A clone has an unfitted copy of it, which is refused.
    discover : dict, default=None
        What finding the columns that say ``"discover"`` costs: ``{"epsilon": 0.1, "delta": 1e-9}``.
        Its ε is **a part of** ``epsilon``, and its δ, which levels need, is added to ``delta``: the
        fit is (ε, ``delta`` + δ)-differentially private in all.

    Attributes
    ----------
    spends_ : tuple of Spend
        Every noisy look of this fit. Their ε add up to ``epsilon`` exactly; with ``delta`` they
        are ρ, and add up to the largest whole nano-ρ that means no more than ``epsilon``.
    discovered_ : dict
        Column → what was found of it: ``levels``, or ``bounds`` and ``edges``; private too.
    graph_ : networkx.Graph
        The model: nodes are cliques, tuples of columns, with their number of ``cells``; an edge
        has the ``separator`` that two of them share.
    fit_for_release_ : bool
        Whether the noise may protect persons: False for a seed and for a source of one's own.
    warnings_ : tuple of str
        What noisy counts say against this release, private too: fewer rows than half of
        ``nominal_rows`` or than noise, nearly all of one ``other``. None is no proof of the
        contrary.
    n_features_in_ : int
        Number of declared columns.
    feature_names_in_ : ndarray
        Their names, where ``X`` has names.

    Examples
    --------
    >>> import pandas as pd
    >>> from dp_pipeline.estimators import PrivateSynthesizer
    >>> people = pd.DataFrame({"smokes": ["no", "yes"] * 500, "age": [30, 60] * 500})
    >>> domain = {"smokes": ["no", "yes"], "age": {"bounds": [0, 100], "bins": 4, "integer": True}}
    >>> synthesizer = PrivateSynthesizer(
    ...     domain=domain, epsilon="1", noise="seeded:7", random_state=0
    ... ).fit(people)
    >>> synthesizer.sample(3).dtypes["age"]
    dtype('int64')
    >>> synthesizer
    PrivateSynthesizer by one_shot, fitted: ε=1, protects one row that is added or removed; its \
noise protects nobody
    >>> synthesizer.marginal("smokes")["probability"].round(1).tolist()
    [0.5, 0.5]
    >>> sum(spend.epsilon for spend in synthesizer.spends_)
    Fraction(1, 1)
    """

    def __init__(  # noqa: PLR0913
        self,
        *,
        domain: Any,
        epsilon: Any,
        delta: Any = 0,
        method: str = "one_shot",
        noise: Any = None,
        random_state: Any = None,
        method_params: Mapping[str, object] | None = None,
        nominal_rows: int | None = None,
        on_unknown: str = "drop",
        population: str | None = None,
        constraints: Mapping[str, object] | None = None,
        discover: Mapping[str, object] | None = None,
        plan_from: PrivateSynthesizer | None = None,
    ) -> None:
        self.domain = domain
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.noise = noise
        self.random_state = random_state
        self.method_params = method_params
        self.nominal_rows = nominal_rows
        self.on_unknown = on_unknown
        self.population = population
        self.constraints = constraints
        self.discover = discover
        self.plan_from = plan_from

    def fit(self, X: Any, y: Any = None) -> PrivateSynthesizer:  # noqa: ARG002
        """Make a private model of the rows of X; costs ``epsilon`` each time.

        X   frame of pandas, polars or Arrow with the declared columns, of any types, and any
            number of rows, 0 too; other columns are left out. Or an array (n, d) or nested lists:
            d columns in the order of ``domain``. y is ignored

        Raises InvalidParameter, a ValueError, for parameters and for a table without a declared
        column; with ``population`` also BudgetExceeded; nothing was charged or drawn then.
        NotDiscovered where noisy counts say too little of a column: ``discover`` is spent then.
        No error and no warning says anything about a row, unless ``on_unknown`` asks for one.
        Warns (WeakSignal) of what ``warnings_`` says.
        """
        began = generator(self.random_state)
        with invalid_parameters():
            features = features_of(X, typed=False)
            is_open = isinstance(self.domain, str) and self.domain == DISCOVER
            domain = every_column({...: DISCOVER} if is_open else self.domain, features)
            columns = declared_columns(domain)
            values = declared_values(features, columns)
            columns = typed(columns, values)
            discovery = self._discovery(columns)
            fit = self._declared(columns, discovery)
            noise, refuse = noise_of(self.noise), self._refuses_unknown()
            is_fit = is_fit_for_release(self.noise)
            promise = promised(fit, asked=self.epsilon, is_fit=is_fit)
            # A declaration that read rows may hold a cache of them, so it is not the one kept.
            again = declared_columns(domain)

            def run() -> Estimate[SyntheticTable]:
                nonlocal fit, columns, again
                spends: tuple[Spend, ...] = ()
                if discovery is not None:
                    columns, spends = discovery.found(values, noise)
                    fit, again = replace(self._declared(columns), guarantee=fit.guarantee), columns
                rows = fitting_rows(
                    values, again, refuse=refuse, constraints=fit.domain.constraints
                )
                fitted = fit.run(rows.counter(), noise=noise, rng=copy.deepcopy(began))
                return replace(fitted, spends=(*spends, *fitted.spends))

            fitted = self._paid(fit, run, noise)
        self._fit, self._columns, self._began = fit, columns, began
        self._table, self._transcript = fitted.released, fitted.transcript
        self.spends_ = fitted.spends
        self.discovered_ = {} if discovery is None else discovery.words_of(columns)
        self.graph_ = clique_graph(fitted.released)
        self.fit_for_release_ = is_fit
        self._promised = promise
        self._frame_kind = frame_kind(X)
        self._name_features(fit.domain.names, is_named=features.labels is not None)
        self.warnings_ = table_doubts(fitted, fit, nominal_rows=self.nominal_rows)
        warn_of("PrivateSynthesizer", self.warnings_)
        return self

    def _name_features(self, names: tuple[str, ...], *, is_named: bool) -> None:
        """An array has no names: those of an earlier fit are forgotten."""
        self.n_features_in_ = len(names)
        if is_named:
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def sample(self, n: int | None = None, *, random_state: Any = None) -> Any:
        """Synthetic rows with the declared columns in their order, in a frame of the kind that
        ``X`` was: pandas, polars (where it is installed) or Arrow; pandas for an array.

        n              rows to draw anew from the model, for no further ε; None gives the rows that
                       were drawn when it was fitted, as many as there are by a noisy count
        random_state   of these rows; None is that of the estimator. With one, None as n draws as
                       many rows anew

        Values are as declared, whatever those of ``X`` were. So are NumPy's types, which pandas
        makes from values: levels as they were written, whole numbers int64, others float64. Types
        that say no value come out as they came in, as long as the declared values fit: dates,
        categories (of the declared levels), pandas' nullable types, those of Arrow and polars.
        They are taken as public. Nullable columns can hold NA.
        Raises InvalidParameter unless n is a whole number in 0..10^9.
        """
        check_is_fitted(self)
        if n is None and random_state is None:
            return synthetic_frame(self._table, self._columns, self._frame_kind)
        many = len(self._table.codes) if n is None else n
        with invalid_parameters():
            rows = whole_number(many, of="n", least=0, most=MOST_ROWS)
        rng = generator(self.random_state if random_state is None else random_state)
        table = redrawn(self._fit, self._transcript, rows=rows, began=self._began, rng=rng)
        return synthetic_frame(table, self._columns, self._frame_kind)

    def marginal(self, *columns: str | Sequence[str]) -> Any:
        """What was released of one or more columns together, a pandas frame with a row a cell:
        ``marginal("age", "sex")``, or a list of them.

        probability   the share of the synthetic rows, which adds up to 1
        noisy_count   rows, by the noisy table with these columns that has the least noise; NA
                      where no table that was paid for has all of them
        deviation     the standard deviation of the noise in that, in rows

        The index holds every declared cell, a level of the index a column: declared levels, bins
        in words, NA for missing. Raises InvalidParameter for no column, one twice or not
        declared, and for more than 2^24 cells.
        """
        check_is_fitted(self)
        named: Any = columns
        if len(columns) == 1 and isinstance(columns[0], list | tuple):
            (named,) = columns
        with invalid_parameters():
            chosen = self._chosen(list(named))
        return marginal_frame(self._table, chosen)

    def quality_report(self, real: Any = None, *, label: str | None = None) -> QualityReport:
        """How good the rows are that were drawn when it was fitted: ``sample()``.

        real    rows to compare with, as ``fit`` takes them; those that do not fit the declaration
                are left out. **What is computed from them has no noise: it is as sensitive as they
                are and not for publication.** Choosing ``epsilon`` or a method by it is a release
                that nobody paid for
        label   a column of 2 to 20 cells: classifiers learn to tell it from the others, from
                synthetic rows and from four fifths of the real ones, and answer about the last
                fifth

        Without ``real`` the report has the noisy tables alone that the release was made of: how far
        its rows are from those, and how far noise alone puts those from the truth. That is as
        private as the rest of the release, and costs nothing.

        The report prints itself, has tables in notebooks, and ``to_frame()``. Raises
        InvalidParameter for a table without a declared column, and for another label.
        """
        check_is_fitted(self)
        with invalid_parameters():
            return table_report(
                self._table, self._columns, self._fit.domain, real=real, label=label
            )

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """What is promised, once there is a fit; its parameters before."""
        line = getattr(self, "_promised", None)
        return str(super().__repr__(N_CHAR_MAX)) if line is None else line

    def _discovery(self, columns: tuple[DeclaredColumn, ...]) -> Discovery | None:
        """What is to be discovered; None where every column is declared."""
        named = [one.attribute.name for one in columns if one.attribute.undeclared is not None]
        if named:
            return Discovery(columns, cost_of(self.discover))
        if self.discover is not None:
            raise DeclarationError(
                "discover: expected a column of domain that says discover or quantiles, got none"
            )
        return None

    def _declared(
        self, columns: tuple[DeclaredColumn, ...], discovery: Discovery | None = None
    ) -> PrivateFit[SyntheticTable]:
        """The fit; before a discovery, of as many cells as may be found."""
        said = self.constraints
        constraints = () if said is None else constraints_of(said, domain_of(columns))
        widest = columns if discovery is None else discovery.widest
        domain = Domain(domain_of(widest).attributes, constraints)
        epsilon, delta = exact_epsilon(self.epsilon), exact_delta(self.delta)
        cost = None if discovery is None else discovery.cost
        epsilon = left_of(epsilon, cost)
        params = planning_params(self.plan_from, self, self.method_params)
        model = table_model(self.method, nominal_rows=self.nominal_rows, params=params)
        model.check(domain)
        guarantee = plain_guarantee(self.method, model, epsilon, domain=domain, delta=delta)
        before = self.plan_from
        earlier = None if before is None else before._table.tables()  # noqa: SLF001
        return PrivateFit(
            "PrivateSynthesizer",
            self.method,
            SyntheticTable,
            model,
            domain,
            guarantee,
            cost,
            earlier,
        )

    def _refuses_unknown(self) -> bool:
        if self.on_unknown not in ("drop", "error"):
            raise DeclarationError(
                f"on_unknown: expected drop or error, got {self.on_unknown!r:.60}"
            )
        if self.on_unknown == "error" and self.population is not None:
            raise DeclarationError(
                "on_unknown: expected drop where a population pays, got error: it tells about a row"
            )
        return self.on_unknown == "error"

    def _paid(
        self,
        fit: PrivateFit[SyntheticTable],
        run: Callable[[], Estimate[SyntheticTable]],
        noise: Any,
    ) -> Estimate[SyntheticTable]:
        if self.population is None:
            return run()
        return charged(fit, run, population=self.population, noise=noise)

    def _chosen(self, names: list[str]) -> tuple[DeclaredColumn, ...]:
        known = {column.attribute.name: column for column in self._columns}
        if not names or len(set(names)) < len(names) or not set(names) <= set(known):
            raise DeclarationError(
                f"marginal: expected some of the columns {', '.join(known)}, each once, "
                f"got {names!r:.60}"
            )
        cells = self._fit.domain.cell_count(tuple(names))
        if cells > MOST_GRID_CELLS:
            raise DeclarationError(
                f"marginal: expected at most {MOST_GRID_CELLS} cells, "
                f"got {', '.join(names)} with {cells}"
            )
        return tuple(known[name] for name in names)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # A value that is missing, or no declared one, is dropped or has a cell of its own.
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        tags.non_deterministic = not str(self.noise).startswith("seeded:")
        return tags
