"""PrivateSynthesizer: a differentially private copy of a table, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dp_pipeline.config.constraint_parser import constrained_domain
from dp_pipeline.config.domain import Domain, Protection
from dp_pipeline.config.errors import DeclarationError, argument_text, one_of, require_integer
from dp_pipeline.estimators import parameters, synthetic_frames, tables
from dp_pipeline.estimators.answers import TableAnswers
from dp_pipeline.estimators.declared import (
    Columns,
    complete_after_fit,
    declared_columns,
    domain_of,
    expand_ellipsis,
)
from dp_pipeline.estimators.fit import FinishedFit, PrivateFit, discovered_form
from dp_pipeline.estimators.frames import Features, features_of, is_among
from dp_pipeline.estimators.private_estimator import PrivateEstimator
from dp_pipeline.estimators.tables import DeclaredRows, TableForm
from dp_pipeline.models.tables.base import TableModel
from dp_pipeline.releases.evaluate import TableComparison
from dp_pipeline.reporting.noisy_answers import NoisyAnswers, missing_line
from dp_pipeline.reporting.plausibility import missing_shares
from dp_pipeline.reporting.quality import QualityReport
from dp_pipeline.results.synthetic_table import SyntheticTable

MOST_ROWS = 10**9


def _finished_fit_of(refines: object) -> FinishedFit:
    finished = getattr(refines, "_finished", None)
    if not isinstance(refines, PrivateSynthesizer) or not isinstance(finished, FinishedFit):
        is_unfitted = isinstance(refines, PrivateSynthesizer)
        got = "one without a fit: fit it first" if is_unfitted else f"a {type(refines).__name__}"
        raise DeclarationError(f"refines: the value must be a fitted PrivateSynthesizer, not {got}")
    return finished


class PrivateSynthesizer(TableAnswers, PrivateEstimator):
    """A synthetic table that is ε-differentially private: one row more or less changes the
    probability of any result by at most the factor e^ε.

    **Every fit is a new spend.** Fits on the same rows, of clones, of the folds and candidates of a
    grid search are together as private as the *sum* of their ε. Only ``population`` refuses too
    many; without it the second fit of an estimator and its clones warns, and a fitted one prints
    the sum.

    All that ``fit`` sets is private, and so is what ``sample`` and ``marginal`` make of it, however
    often. Not private is a ``domain`` that was read off the rows: declare levels and
    bounds that were known before. Results compared with the rows are as sensitive as they are.

    Parameters
    ----------
    domain : mapping of column names to levels, bins or sizes, default="discover"
        The declared columns, which are also those of the synthetic table, by the names that ``X``
        has for them. A column is

        * a list of levels: texts, numbers or truth values. A value is looked up as text, without
          spaces around it: the level 1 takes 1, 1.0 and "1". A pandas ``CategoricalDtype`` is
          a list too, and gives synthetic columns of that type. A tuple of two numbers is refused:
          ``[0, 1]`` are two levels, and bounds are written ``{"bounds": [0, 20000], "bins": 16}``;
        * a number n: the levels 0..n−1;
        * ``{"levels": [...]}`` or ``{"size": n}``, with ``"other"``, the level of unknown values,
          ``"nullable": True``, where a missing value is a level of its own, and
          ``"missing": [...]``, texts that mean one;
        * ``{"bounds": [low, high], "bins": n}``, or ``"edges": [...]`` in place of bins: a
          number, clipped to the bounds, with ``"integer": True`` where synthetic values are
          integers, ``"nullable"`` and ``"missing"``. The bounds may be first and last edge;
        * ``{"bounds": ["2026-01-01", "2026-12-31"], "every": "week"}``: a date, or a time with
          ``"type": "timestamp"``, in cells of a year, month, week, day or hour, or in bins or
          edges; with ``"zone"`` for times that have none.

        Further fields are those of a data set file: ``"aliases"``, ``"on_invalid"``, ``"format"``,
        ``"decimal"``. Noisy measurements find what nobody knows, at the price of ``discover``:

        * ``{"levels": "discover"}``, with ``"at_most"``, ``"other"`` and ``"on_invalid": "drop"``:
          texts that enough rows have; others become ``other``. Synthetic ones are texts;
        * ``{"bounds": "discover", "bins": {"quantiles": 16}}``, or a number of bins: numbers, with
          ``"unit"``; or ``{"bounds": [0, 99], "bins": {"quantiles": 16}}`` inside known bounds;
        * ``{"bounds": [timedelta(0), timedelta(days=10)], "bins": 5}``: a duration;
        * ``"discover"``: what the type of the column is; ``domain="discover"`` says this of every
          column. Truth values and the categories of a pandas ``CategoricalDtype`` or a polars
          ``Enum`` are levels, for nothing: **who discovers vouches that categories are public**.
          Levels of texts, and ranges of numbers, dates, times and durations are measured.

        **The types of X are public**, and synthetic columns have them: a column of integers has
        integers, text stays text, whatever it looks like. pandas makes some types from values, so
        give them before (``astype``, ``convert_dtypes``) where one value may not decide them.

        The key ``...`` declares every other column of ``X``, as in
        ``{...: {"bounds": [0, 1], "bins": 8}}``. Columns of an array without a name are called x
        and their place: x0, x1.

        **Units with parts** are two tables by name, that of units first, each with its columns:
        ``{"households": {"region": [...]}, "persons": {"age": {...}, "sex": [...]}}``. One
        household with all its persons is protected, and ``size``, the number of its persons, is
        counted. Their columns are declared, without ``...`` and ``"discover"``.
    epsilon : str, Fraction, int or float
        Privacy of one fit, from 1e-6 to 1e6. A float is taken by its shortest decimal text, 0.1 is
        exactly 1/10, and **rounded down** to nine decimals: 1 / 3 is 0.333333333.
    delta : str, Fraction or float, default=0
        With one from 1e-99 to 0.001, the fit is (ε, δ)-differentially private, accounted in ρ
        of zero-concentrated DP: less noise where columns are many. Where they are so few that pure
        ε has less, ``one_shot`` takes that, unless a population pays. Only some methods take one.
        Choose it far below one over the number of rows. The account of a population has the same.
    method : str, default="one_shot"
        A private model of tables of ``dp_pipeline.models``.
    nominal_rows : int, default=None
        Declared number of rows, which need not be true: for methods that plan with one.
    method_params : dict, default=None
        Further parameters of the method, as text or numbers; of ``one_shot`` also
        ``{"workload": "income 4, age sex 2"}``: pairs with income count four times as much.
    label : str, default=None
        The column that will be predicted: all pairs with it count four times as much, where
        ``method_params`` has no ``workload``. Only methods with a workload take one.
    noise : str or NoiseSource, default=None
        None is OpenDP, the secure default; ``"exact"`` is this package's own sampler on the
        operating system's randomness. ``"seeded:7"``, or ``SeededNoise(7)`` from
        ``dp_pipeline.gate.noise``, is for research: who knows the seed can subtract the noise.
        Text starts anew with every fit; a source goes on, and is shared with clones.
    random_state : int, RandomState or None, default=None
        Randomness of post-processing, which protects nobody.
    population : str, default=None
        Population whose account in the ledger of this project's home (``DP_PIPELINE_HOME``, or
        the folder of workspace.yaml) pays for every fit, before it looks, and without refunds.
    on_unknown : {"keep", "drop", "error"}, default="keep"
        "keep": a value that is missing, or not declared and without ``other``, is missing in the
        synthetic table, and costs no row: every column has a level for it but those that say
        ``"nullable": False``, and NumPy's integers and truth values, which are never missing.
        "drop" leaves its row out. "error" raises, in words that name the column. **That tells about
        a row:** for public data alone, and never with ``population``.
    constraints : dict, default=None
        Which values of columns go together, in the words of a data set file, such as
        ``{"never": [{"age": "[0, 16)", "state": ["married", "widowed"]}]}``; also ``only`` and
        ``depends``. Rows that break one are left out, and no synthetic row does. Not every method
        can keep them.
    plan_from : PrivateSynthesizer, default=None
        A fit of **other** rows, such as last week's, by the same method over the same domain, whose
        release is public: planning from it is free. ``method_params={"smooth": "true"}`` combines
        numbers as well. A clone has an unfitted copy of it, which is refused.
    discover : dict, default=None
        What finding the columns that say ``"discover"`` costs: ``{"epsilon": 0.1, "delta": 1e-9}``.
        Its ε is **a part of** ``epsilon``, and its δ, which levels need, is added to ``delta``: the
        fit is (ε, ``delta`` + δ)-differentially private in all. By default a tenth of ``epsilon``
        and 1e-9. What too few rows have becomes ``other``, or one bin, and ``warnings_`` says what
        would have been needed.

    Attributes
    ----------
    spends_ : tuple of Spend
        Every noisy measurement of this fit. Their ε add up to ``epsilon`` exactly, with those of
        the fit that it refines, if any; with ``delta`` they are ρ, and add up to the largest
        integer number of nano-ρ that means no more than ``epsilon``.
    discovered_ : dict
        Column → what was discovered of it: ``levels``, or ``bounds`` and ``edges``; private too.
    graph_ : networkx.Graph
        The model: nodes are cliques, tuples of columns, with their number of ``cells``; an edge
        has the ``separator`` that two of them share.
    fit_for_release_ : bool
        Whether the noise may protect persons: False for a seed and for a source of one's own.
    warnings_ : tuple of str
        Warnings of noisy counts about this release, private too: fewer rows than half of
        ``nominal_rows`` or than noise, nearly all of one ``other``.
    n_features_in_ : int
        Number of declared columns.
    feature_names_in_ : ndarray
        Their names, where ``X`` has names that are all text.

    References
    ----------
    Each method names its paper, and proves its ε, in its own docstring
    (``dp_pipeline.models.MODELS[method]``). The default, ``one_shot``, is our own; its parts are of
    PriView (Qardaji, Yang, Li, SIGMOD 2014), Private-PGM (McKenna, Sheldon, Miklau, ICML 2019) and
    AIM (McKenna, Mullins, Sheldon, Miklau, VLDB 2022). ρ: Bun, Steinke (TCC 2016).

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
    >>> synthesizer.marginal("smokes")["probability"].round(1).tolist()  # no, yes, missing
    [0.5, 0.5, 0.0]
    >>> sum(spend.epsilon for spend in synthesizer.spends_)
    Fraction(1, 1)
    """

    _family = TableModel
    _discover_hint = 'of domain as "discover" or {"quantiles": 16}'
    _set_by = MappingProxyType({"attributes": "the columns of domain"})
    _forms: tuple[TableForm, ...]

    def __init__(  # noqa: PLR0913
        self,
        *,
        domain: Any = "discover",
        epsilon: Any,
        delta: Any = 0,
        method: str = "one_shot",
        noise: Any = None,
        random_state: Any = None,
        method_params: Mapping[str, object] | None = None,
        nominal_rows: int | None = None,
        on_unknown: str = "keep",
        population: str | None = None,
        constraints: Mapping[str, object] | None = None,
        discover: Mapping[str, object] | None = None,
        plan_from: PrivateSynthesizer | None = None,
        label: str | None = None,
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
        self.label = label

    def fit(
        self,
        X: Any,
        y: Any = None,  # noqa: ARG002
        *,
        person: Any = None,
        at_most: int | None = None,
        order: Any = None,
        rehearse: bool = False,
        prior: Any = None,
        refines: PrivateSynthesizer | None = None,
    ) -> PrivateSynthesizer:
        """Fit a private model to the rows of X; each call costs ``epsilon``.

        Parameters
        ----------
        X : frame, array of shape (n, d) or nested lists
            A frame of pandas, polars or Arrow with the declared columns, of any types, and any
            number of rows, 0 too; other columns are left out. Of an array, the d columns in the
            order of ``domain``. Where ``domain`` declares units and their parts, either one frame
            with a row a part, in which the columns of its unit are repeated, or **two frames by
            name**, such as ``{"households": h, "persons": p}``.
        y : ignored
        person : column of a frame X, default=None
            Who a row is about, by a text or an integer; this column is not released. None protects
            single rows. Where units have parts, the column that names the unit, of both frames if
            there are two: synthetic frames have it with numbers of their own.
        at_most : int, default=None
            Most rows of a person that count, needed with ``person``: all of them together are
            protected. Which ones count is a keyed choice among her own rows. Where units have
            parts, the most parts of a unit that count. In two frames a unit may have none, and
            parts without a unit do not count.
        order : column of the frame of parts, default=None
            The number or date by which the parts of a unit are in order: successive ones are pairs.
            Synthetic parts stand in that order, also where noise leaves this column not ascending.
            None: they are a set.
        rehearse : bool, default=False
            Fit ``nominal_rows`` rows, or 1000, that are drawn from the declaration or from
            ``prior``: for nothing, with seeded noise and without a population. Of X the names and
            types of columns are read, and no value. The fitted estimator prints that it is a
            rehearsal.
        prior : frame, array or nested lists, default=None
            **Public rows of others**, with the same columns and of the same declaration. They say
            which tables to measure, at no cost, and stand in for what is not measured.
            **You vouch** that they are public and of no person in X: nothing of them is
            protected, and a fitted estimator holds their codes. Only methods with a ``prior``, such
            as ``one_shot``, take them, and only where no column is to be discovered.
        refines : PrivateSynthesizer, default=None
            A fit of **the very same rows** at a smaller ε, with the same parameters, whose answers
            get less noise: the two together cost ``epsilon``, and this one the difference.
            Other rows are refused, in any order, by a keyed fingerprint that no fitted estimator
            holds. *One* fit refines it, as two tell more than was paid for; this one may be refined
            again. With ``population`` the ledger sees to both, over all processes and copies;
            without one a pickle, a deep copy and a forked process are refused. Only fits by
            ``independent``, ``priview`` and ``one_shot`` can be refined, without ``prior``,
            ``plan_from`` and ``discover``. Source, with its proof:
            ``dp_pipeline.gate.mechanisms.refinement_query``.

        Returns
        -------
        PrivateSynthesizer
            Itself, fitted.

        Raises
        ------
        InvalidParameter
            A ValueError: for parameters and for a table without a declared column. Nothing was
            charged or drawn then. No error and no warning says anything about a row, but for two
            that are asked for: that of ``on_unknown``, and that rows are not those of ``refines``.
        BudgetExceeded
            With ``population``; nothing was charged or drawn.

        Warns
        -----
        WeakSignal
            For each of ``warnings_``.

        Examples
        --------
        >>> import pandas as pd
        >>> people = pd.DataFrame({"smokes": ["no", "yes"] * 500})
        >>> few, more = (
        ...     PrivateSynthesizer(domain={"smokes": ["no", "yes"]}, epsilon=epsilon, noise="exact")
        ...     for epsilon in ("0.5", "2")
        ... )
        >>> spends = few.fit(people).spends_ + more.fit(people, refines=few).spends_
        >>> sum(spend.epsilon for spend in spends)
        Fraction(2, 1)
        >>> homes = [home for home in range(400) for _ in range(1 + home % 3)]
        >>> rows = pd.DataFrame({"home": homes, "place": "hill", "smokes": "no"})
        >>> domain = {"homes": {"place": ["hill", "river"]}, "people": {"smokes": ["no", "yes"]}}
        >>> synthesizer = PrivateSynthesizer(domain=domain, epsilon=8)
        >>> both = synthesizer.fit(rows, person="home", at_most=3).sample()
        >>> {name: list(frame) for name, frame in both.items()}
        {'homes': ['home', 'place'], 'people': ['home', 'smokes']}
        >>> round(synthesizer.parts.count("smokes == 'no'").value, -2)
        800.0
        """
        with parameters.invalid_parameters():
            must_fit = self._raises_on_unknown()
            if tables.have_parts(X, self.domain):
                self._refuse_with_parts(prior=prior, refines=refines)
                rows = DeclaredRows.of_units(X, self.domain, person, at_most, order)
            else:
                features = features_of(X)
                protection, persons = self._protection(features, person, at_most)
                rows = self._rows_of_table(X, features, person, protection, persons)
                if order is not None:
                    raise DeclarationError(
                        "order: the parts of a unit can be in order, but the domain declares one "
                        "table: leave it out, or declare two"
                    )
            fit = self._declare(rows.domain, rows.protection, has_prior=prior is not None)
            fit = replace(fit, must_fit=must_fit)
            if prior is not None:
                fit = self._add_public_rows(fit, prior, X, rows.forms[0])
            refined = None if refines is None else _finished_fit_of(refines)
            if rehearse and refined is not None:
                raise DeclarationError(
                    "rehearse: a fit that refines another cannot be rehearsed: leave out "
                    "rehearse or `refines`"
                )
            finished = self._run_declared(fit, rows.to_arrow, refined=refined, rehearse=rehearse)
        self._finished = finished
        domain = finished.fit.spec.domain
        self._forms = tuple(
            replace(form, columns=complete_after_fit(form.columns, domain)) for form in rows.forms
        )
        self._set_fitted(finished)
        self._name_features()
        self._warn()
        return self

    def _refuse_with_parts(self, **arguments: Any) -> None:
        arguments |= {"plan_from": self.plan_from, "discover": self.discover}
        excess = [name for name, value in arguments.items() if value is not None]
        excess += ["on_unknown"] if self.on_unknown != "keep" else []
        if excess:
            raise DeclarationError(
                f"{excess[0]}: this argument is for one table, but this fit is of units with "
                "parts: leave it out"
            )

    def _rows_of_table(
        self, X: Any, features: Features, person: Any, protection: Protection, ids: tuple[Any, ...]
    ) -> DeclaredRows:
        columns = declared_columns(
            expand_ellipsis(self.domain, features, person), nullable=self.on_unknown == "keep"
        )
        if person is not None and person in [column.name for column in columns]:
            raise DeclarationError(
                f"domain: the column {person!r} holds persons and must not be declared: leave it "
                "out"
            )
        form, values = tables.declared_table(X, features, columns)
        return DeclaredRows((form,), ((*values, *ids),), domain_of(form.columns), protection)

    @property
    def _columns(self) -> Columns:
        return tuple(column for form in self._forms for column in form.columns)

    def _set_fitted(self, finished: FinishedFit) -> None:
        table, spec = finished.result.released, finished.fit.spec
        assert isinstance(table, SyntheticTable)
        self._table = table
        discovered = () if spec.discovered is None else spec.discovered.names
        self.discovered_ = {
            column.name: discovered_form(column.attribute)
            for column in self._columns
            if column.attribute.name in discovered
        }
        self.graph_ = synthetic_frames.clique_graph(table, self._columns)
        total = NoisyAnswers.of_table(table).total
        self._set_outcome(finished, table.tables_without_rows(), total)

    def _name_features(self) -> None:
        names = [column.name for column in self._columns]
        self.n_features_in_ = len(names)
        has_labels = all(form.has_labels for form in self._forms)
        if has_labels and all(isinstance(name, str) for name in names):
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    @parameters.invalid_parameters()
    def sample(self, num_rows: int | None = None, *, random_state: Any = None) -> Any:
        """Return synthetic rows in a frame of the kind that ``X`` was; pandas for an array.

        Columns have the types of ``X``. Categories are the declared levels. Where the declared
        values do not fit, a type is the next one that holds them: int64, float64, text. NumPy's
        integers with a missing cell become pandas' nullable ones. Arrow's dictionaries of numbers
        within bounds come back as numbers, and a null column as texts. A time of the hour that a
        zone has twice is the first of both.

        Parameters
        ----------
        num_rows : int, default=None
            Rows to draw anew from the model, from 0 to 10^9, for no further ε; None gives the rows
            that were drawn when it was fitted, as many as there are by a noisy count.
        random_state : int, RandomState or None, default=None
            Randomness of these rows; None is that of the estimator. With a value, ``num_rows=None``
            draws as many rows anew.

        Returns
        -------
        frame of ``num_rows`` rows
            With the declared columns. For units with parts a dict of two frames by name, with
            ``num_rows`` units, and the key of the unit in both.

        Raises
        ------
        InvalidParameter
            For another number; NotFittedError before a fit.

        Examples
        --------
        >>> people = [["no", 0], ["yes", 2]] * 500
        >>> domain = {"smokes": ["no", "yes"], "visits": {"size": 3, "nullable": True}}
        >>> synthesizer = PrivateSynthesizer(domain=domain, epsilon=1).fit(people)
        >>> synthesizer.sample(5, random_state=7).dtypes["visits"]
        Int64Dtype()
        >>> synthesizer.sample(5, random_state=7).equals(synthesizer.sample(5, random_state=7))
        True
        """
        check_is_fitted(self)
        if num_rows is None and random_state is None:
            return tables.synthetic_frames(self._table, self._forms)
        rows = len(self._table.codes) if num_rows is None else num_rows
        rows = require_integer(rows, of="num_rows", least=0, most=MOST_ROWS)
        rng = parameters.generator(self.random_state if random_state is None else random_state)
        return tables.synthetic_frames(self._finished.sample_again(rows, rng), self._forms)

    @parameters.invalid_parameters()
    def marginal(self, *columns: str | int | Sequence[str | int]) -> Any:
        """Return the released shares and noisy counts over columns: ``marginal("age", "sex")``.

        Parameters
        ----------
        *columns : str, or one list of them
            Declared columns, each once, with at most 2^24 cells together.

        Returns
        -------
        pandas.DataFrame of shape (cells, 3)
            ``probability``, the share of the synthetic rows, which adds up to 1; ``noisy_count``,
            rows, by the noisy table with these columns that has the least noise, NA where no table
            that was paid for has all of them; ``deviation``, the standard deviation of the noise in
            that, in rows. The index holds every declared cell, a level of the index a column:
            declared levels, bins in words, NA for missing.

        Raises
        ------
        InvalidParameter
            For no column, one twice or not declared, for more cells, and for a fit of units with
            parts; NotFittedError before a fit.

        Examples
        --------
        >>> people = [["no", 0], ["yes", 2]] * 500
        >>> domain = {"smokes": ["no", "yes"], "visits": 3}
        >>> synthesizer = PrivateSynthesizer(domain=domain, epsilon=10, method="independent")
        >>> synthesizer.fit(people).marginal("smokes", "visits").shape
        (12, 3)
        >>> synthesizer.marginal("visits")["noisy_count"].round(-2).tolist()
        [500, 0, 500, 0]
        """
        check_is_fitted(self)
        if self._table.domain.parts is not None:
            raise DeclarationError(
                "marginal: the shares are of rows of one table, but this fit is of units with "
                "parts: use `table` or `parts.table`, which have intervals"
            )
        names: Any = columns
        if len(columns) == 1 and isinstance(columns[0], list | tuple):
            (names,) = columns
        chosen = synthetic_frames.columns_of_marginal(self._table, self._columns, list(names))
        return synthetic_frames.marginal_frame(self._table, chosen)

    @parameters.invalid_parameters()
    def quality_report(self, real: Any = None, *, label: str | int | None = None) -> QualityReport:
        """Return a report on the quality of the synthetic rows that ``sample()`` returns.

        Without ``real`` the report has the noisy tables alone that the release was made of: how far
        its rows are from those, and how far noise alone puts those from the truth. That is as
        private as the rest of the release, and costs nothing. **What is computed from real rows has
        no noise: it is as sensitive as they are and not for publication.** Choosing ``epsilon`` or
        a method by it is a release that nobody paid for.

        Parameters
        ----------
        real : frame, array or list of shape (n, columns), or None
            Rows to compare with, as ``fit`` takes them; those that do not fit the declaration are
            left out.
        label : str or None
            A column of 2 to 20 cells. Classifiers learn to predict it from the other columns, on
            synthetic rows and on four fifths of the real ones, and are tested on the last fifth.

        Returns
        -------
        QualityReport
            It prints itself, has tables in notebooks, and ``to_frame()``.

        Raises
        ------
        InvalidParameter
            For a table without a declared column, for another label, and for one without ``real``;
            NotFittedError before a fit. Units with parts have no label.

        Examples
        --------
        >>> people = [["no", 0], ["yes", 2]] * 500
        >>> domain = {"smokes": ["no", "yes"], "visits": 3}
        >>> synthesizer = PrivateSynthesizer(domain=domain, epsilon=10, method="independent")
        >>> report = synthesizer.fit(people).quality_report(people)
        >>> "not for publication" in str(report)
        True
        """
        check_is_fitted(self)
        table, domain = self._table, self._finished.fit.spec.domain
        if domain.parts is not None and label is not None:
            raise DeclarationError(
                "label: classifiers learn from rows of one table, but this fit is of units with "
                "parts: leave label out"
            )
        codes = dict(zip(table.attributes, np.ascontiguousarray(table.codes.T), strict=True))
        answers = NoisyAnswers.of_table(table)
        measured, unmeasured = answers.compare(codes, domain), answers.count_unmeasured(codes)
        missing = missing_line(missing_shares(domain, table.tables_without_rows()), answers, domain)
        if real is None:
            if label is not None:
                raise DeclarationError(
                    "label: a label can be evaluated only with real rows: pass them, or leave "
                    "label out"
                )
            return QualityReport(
                len(table.codes), measured=measured, unmeasured=unmeasured, missing=missing
            )
        with parameters.name_argument("real"):
            real_codes, left_out = tables.other_rows(real, self._forms, domain).codes()
        return replace(
            TableComparison(domain, real_codes, codes).report(
                label=None if label is None else str(label)
            ),
            measured=measured,
            unmeasured=unmeasured,
            missing=missing,
            left_out=left_out,
        )

    def _declare(self, domain: Domain, protection: Protection, *, has_prior: bool) -> PrivateFit:
        if self.constraints is not None:
            domain = constrained_domain(self.constraints, domain)
        model = self._declared_model(has_prior=has_prior)
        if self.label is not None:
            label = str(self.label)
            if not hasattr(model, "workload"):
                raise DeclarationError(
                    f"label: the method {self.method} has no workload that could use a label: "
                    "leave label out"
                )
            if label not in domain.names:
                raise DeclarationError(f"label: the column {one_of(domain.names, label)}")
            model = model.for_targets((label,), domain)
        fit = self._declare_fit(domain, model, protection, parameters.exact_delta(self.delta))
        earlier = self.plan_from
        return fit if earlier is None else replace(fit, earlier=earlier._table.tables())  # noqa: SLF001

    @staticmethod
    def _add_public_rows(fit: PrivateFit, prior: Any, X: Any, form: TableForm) -> PrivateFit:
        if prior is X:
            raise DeclarationError(
                "prior: the public rows must be of other persons than X, but they are X "
                "itself: pass other rows"
            )
        if fit.spec.to_discover:
            raise DeclarationError(
                "prior: public rows need a domain without columns to discover, but "
                f"{', '.join(fit.spec.to_discover)} must be discovered: declare levels or bounds "
                "for each, or leave prior out"
            )
        return replace(fit, public=tables.public_rows(prior, (form,), fit.spec.domain))

    def _raises_on_unknown(self) -> bool:
        if not is_among(self.on_unknown, ("drop", "keep", "error")):
            raise DeclarationError(
                f"on_unknown: expected drop, keep or error, got {argument_text(self.on_unknown)}"
            )
        if self.on_unknown == "error" and self.population is not None:
            raise DeclarationError(
                "on_unknown: the value error would reveal a row, so with `population` it must be "
                "keep or drop"
            )
        return self.on_unknown == "error"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # A value that is missing, or no declared one, is dropped or has a cell of its own.
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags
