"""PrivateKMeans: differentially private k-means as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from dp_pipeline.config.domain import Domain, Protection
from dp_pipeline.config.encoding import FloatArray, IntArray
from dp_pipeline.config.errors import DeclarationError, require_integer
from dp_pipeline.estimators import parameters
from dp_pipeline.estimators.answers import ClusterAnswers
from dp_pipeline.estimators.declared import box_domain
from dp_pipeline.estimators.fit import PrivateFit
from dp_pipeline.estimators.frames import features_of, numeric_features, numeric_rows, plain_frame
from dp_pipeline.estimators.private_estimator import PrivateEstimator
from dp_pipeline.estimators.rows import table_to_arrow
from dp_pipeline.inference.kmeans import cluster_synopsis
from dp_pipeline.metrics.clustering import nicv
from dp_pipeline.models.clustering.base import Clustering
from dp_pipeline.raw.evaluate import reference_kmeans
from dp_pipeline.reporting.figures.cluster_view import cluster_sizes
from dp_pipeline.reporting.plausibility import NoisyTotal
from dp_pipeline.reporting.quality import ClusteringQuality
from dp_pipeline.results.clusters import Clusters

_RECLUSTER_STARTS = 10
_MOST_CLUSTERS = 10_000
"""As many centres as a model takes."""


def _bounds_of(domain: Domain) -> FloatArray:
    return np.array([[side.lower, side.upper] for side in domain.box(domain.names)])


def _number_of_clusters(value: object) -> int:
    return require_integer(value, least=1, most=_MOST_CLUSTERS, of="n_clusters")


class PrivateKMeans(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    ClusterAnswers,
    PrivateEstimator,
):
    """k-means whose centres are ε-differentially private: one row more or less changes the
    probability of any result by at most the factor e^ε.

    **Every fit is a new spend.** Fits on the same rows, of clones, of the folds and candidates of a
    grid search are together as private as the *sum* of their ε. Only ``population`` refuses too
    many; without it the second fit of an estimator and its clones warns, and a fitted one prints
    the sum.

    All that ``fit`` sets is private. ``predict``, ``transform`` and ``score`` answer exactly about
    the rows that they get, and are as sensitive, so there is no ``labels_``, ``inertia_`` or
    ``fit_predict``. A step before it that learns from the rows (a scaler, a PCA) is not
    covered: scale by declared bounds instead.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of centres k.
    epsilon : str, Fraction, int or float
        Privacy of one fit, from 1e-6 to 1e6. A float is taken by its shortest decimal text, 0.1 is
        exactly 1/10, and **rounded down** to nine decimals: 1 / 3 is 0.333333333.
    bounds : (low, high), d pairs, or a mapping of column names to pairs
        The declared box, in data units: known beforehand, never the minimum and maximum of the
        rows. One pair holds for all columns; a sequence or array (d, 2) has one a column, in
        their order. Values outside, ±inf too, are clipped; a row with NaN is dropped.
        ``"discover"`` in place of a pair, or of all: noisy measurements find them.
    method : str, default="htree_kmeans"
        A private clustering method of ``dp_pipeline.models``.
    nominal_rows : int, default=None
        Declared number of rows, which need not be true: for methods that plan with one.
        Without it, such a method buys a noisy count with 2 % of ε.
    method_params : dict, default=None
        Further parameters of the method, as text or numbers.
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
    plan_from : PrivateKMeans, default=None
        A fit of **other** rows, such as last week's, by the same method over the same box, whose
        release is public: planning from it is free. ``method_params={"smooth": "true"}`` combines
        numbers as well. A clone has an unfitted copy of it, which is refused.
    discover : dict, default=None
        What finding bounds costs: ``{"epsilon": 0.1}``, **a part of** ``epsilon``; a tenth of it
        by default. Discovered bounds are powers of two times ``UNIT_OF_BOUNDS``, wide rather than
        narrow.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (k, d)
        Private centres, in data units, inside the box.
    spends_ : tuple of Spend
        Every noisy measurement of this fit; their ε add up to ``epsilon`` exactly.
    bounds_ : ndarray of shape (d, 2)
        The box: declared bounds, and discovered ones, which are private too.
    synopsis_ : Synopsis or None
        The noisy boxes that the centres were made from, private too, for plots and ``recluster``.
        None with methods that make none.
    cluster_sizes_ : ndarray of shape (k,) or None
        **Noisy** rows of each centre of ``cluster_centers_``, private too: counted by the method,
        or the weight of the nearest boxes of ``synopsis_``. May be below 0. None without either.
    left_out_ : NoisyNumber or None
        **Noisy** number of rows that lack a coordinate and are in no cluster, private too; may be
        below 0. None where no row can lack one.
    fit_for_release_ : bool
        Whether the noise may protect persons: False for a seed and for a source of one's own.
    warnings_ : tuple of str
        Warnings of noisy counts about this release, private too: fewer rows than half of
        ``nominal_rows``, N·ε/k below 20, many rows that lack a coordinate, nearly all at a bound.
    n_features_in_ : int
        Number of columns d.
    feature_names_in_ : ndarray of shape (d,)
        Names of the columns, where ``X`` has names that are all text.

    References
    ----------
    Each method names its paper, and proves its ε, in its own docstring
    (``dp_pipeline.models.MODELS[method]``). The default, ``htree_kmeans``, is our own; it shares ε
    along the paths of a tree (Cormode, Procopiuc, Srivastava, Shen, Yu, ICDE 2012) and makes its
    counts consistent (Hay, Rastogi, Miklau, Suciu, VLDB 2010).

    Examples
    --------
    >>> import numpy as np
    >>> from dp_pipeline.estimators import PrivateKMeans
    >>> rows = np.repeat([[1.0, 1.0], [9.0, 9.0]], 500, axis=0)
    >>> kmeans = PrivateKMeans(2, epsilon="1", bounds=(0, 10), noise="seeded:7", random_state=0)
    >>> sorted(kmeans.fit(rows).cluster_centers_.round().tolist())
    [[1.0, 1.0], [9.0, 9.0]]
    >>> sum(spend.epsilon for spend in kmeans.spends_)
    Fraction(1, 1)
    >>> kmeans.recluster(3).shape
    (3, 2)
    """

    _family = Clustering
    _discover_hint = 'of bounds as "discover"'
    _set_by = MappingProxyType({"k": "n_clusters", "columns": "the columns of X"})

    def __init__(  # noqa: PLR0913
        self,
        n_clusters: int = 8,
        *,
        epsilon: Any,
        bounds: Any,
        method: str = "htree_kmeans",
        nominal_rows: int | None = None,
        method_params: Mapping[str, object] | None = None,
        noise: Any = None,
        random_state: Any = None,
        population: str | None = None,
        discover: Mapping[str, object] | None = None,
        plan_from: PrivateKMeans | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.epsilon = epsilon
        self.bounds = bounds
        self.method = method
        self.nominal_rows = nominal_rows
        self.method_params = method_params
        self.noise = noise
        self.random_state = random_state
        self.population = population
        self.discover = discover
        self.plan_from = plan_from

    def fit(
        self,
        X: Any,
        y: Any = None,  # noqa: ARG002
        *,
        person: Any = None,
        at_most: int | None = None,
        rehearse: bool = False,
    ) -> PrivateKMeans:
        """Find private centres of the rows of X; costs ``epsilon`` each time.

        Parameters
        ----------
        X : array of shape (n, d), nested lists, or a frame of pandas, polars or Arrow
            Numbers, in the unit of ``bounds``; any n, 0 too. Types of columns are public: lists get
            theirs from the values, so hand sensitive rows as an array or a frame.
        y : ignored
        person : column of a frame X, default=None
            Who a row is about, by a text or an integer; this column is no coordinate. None
            protects single rows.
        at_most : int, default=None
            Most rows of a person that count, needed with ``person``: all of them together are
            protected. Which ones count is a keyed choice among her own rows.
        rehearse : bool, default=False
            Fit ``nominal_rows`` rows, or 1000, that are drawn from the declaration: for nothing,
            with seeded noise and without a population. Of X the names and types of columns are
            read, and no value. The fitted estimator prints that it is a rehearsal.

        Returns
        -------
        PrivateKMeans
            Itself, fitted.

        Raises
        ------
        InvalidParameter
            A ValueError: for parameters and for the form of X. Nothing was charged or drawn. No
            error and no warning says anything about a row.
        BudgetExceeded
            With ``population``; nothing was charged or drawn.

        Warns
        -----
        WeakSignal
            For each of ``warnings_``.

        Examples
        --------
        >>> rows = [[1.0, 1.0], [9.0, 9.0]] * 500
        >>> kmeans = PrivateKMeans(2, epsilon=1 / 3, bounds=(0, 10), noise="seeded:7").fit(rows)
        >>> print(kmeans)
        PrivateKMeans by htree_kmeans, fitted: ε=0.333333333 (rounded down from \
0.3333333333333333), protects one row that is added or removed; its noise protects nobody
        """
        with parameters.invalid_parameters():
            X = plain_frame(X)
            protection, persons = self._protection(features_of(X), person, at_most)
            if persons:
                X = X.drop(columns=[person])
            features = numeric_features(X)
            fit = self._declare(features.names, features.keys, protection)
            values, person = (*features.columns, *persons), fit.spec.protection.column
            table = partial(table_to_arrow, fit.spec.domain, values, person)
            finished = self._run_declared(fit, table, rehearse=rehearse)
        validate_data(self, X, skip_check_array=True)
        released, spec = finished.result.released, finished.fit.spec
        assert isinstance(released, Clusters)
        tables = released.tables()
        self.bounds_ = _bounds_of(spec.domain)
        # A mean of floats may lie a last bit outside.
        self.cluster_centers_ = np.clip(released.centres, *self.bounds_.T)
        self.synopsis_ = released.synopsis
        self.cluster_sizes_, self.left_out_ = cluster_sizes(tables), released.left_out
        spends, distance = finished.result.spends, spec.distance
        self._set_outcome(finished, tables, NoisyTotal.of_tables(tables, spends, distance=distance))
        self._warn()
        return self

    def predict(self, X: Any) -> IntArray:
        """Return the index of the nearest centre of every row.

        Exact, about rows that the caller holds: as sensitive as they are.

        Parameters
        ----------
        X : array of shape (n, d), nested lists or a frame
            Rows in the unit of those that were fitted.

        Returns
        -------
        ndarray of shape (n,)
            Integers in 0..k−1.

        Raises
        ------
        ValueError
            For NaN, and for other columns than were fitted; NotFittedError before a fit.

        Examples
        --------
        >>> rows = [[1.0], [9.0]] * 500
        >>> kmeans = PrivateKMeans(2, epsilon=1, bounds=(0, 10), noise="seeded:7").fit(rows)
        >>> first, second = kmeans.predict([[2.0], [8.0]])
        >>> bool(first != second)
        True
        """
        from sklearn.metrics import pairwise_distances_argmin

        rows = self._numeric_rows(X)
        return np.asarray(pairwise_distances_argmin(rows, self.cluster_centers_))

    def transform(self, X: Any) -> FloatArray:
        """Return the distance of every row to every centre.

        Exact, about rows that the caller holds: as sensitive as they are.

        Parameters
        ----------
        X : array of shape (n, d), nested lists or a frame
            Rows in the unit of those that were fitted.

        Returns
        -------
        ndarray of shape (n, k)
            Euclidean distances of at least 0, in data units.

        Raises
        ------
        ValueError
            For NaN, and for other columns than were fitted; NotFittedError before a fit.

        Examples
        --------
        >>> rows = [[1.0], [9.0]] * 500
        >>> kmeans = PrivateKMeans(2, epsilon=1, bounds=(0, 10), noise="seeded:7").fit(rows)
        >>> sorted(kmeans.transform([[2.0]]).round().ravel().tolist())
        [1.0, 7.0]
        """
        from sklearn.metrics.pairwise import euclidean_distances

        return np.asarray(euclidean_distances(self._numeric_rows(X), self.cluster_centers_))

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """Return minus the sum of squared distances to the nearest centres, as scikit-learn does.

        **An exact number about these rows, and no private release**: as sensitive as they are.
        Choosing k, ``epsilon`` or a method by it, or publishing it, is a release that nobody paid
        for. Score public rows.

        Parameters
        ----------
        X : array of shape (n, d), nested lists or a frame
            Rows in the unit of those that were fitted; none is moved into ``bounds_``.
        y : ignored

        Returns
        -------
        float
            At most 0, in squared data units.

        Raises
        ------
        ValueError
            For NaN, and for other columns than were fitted; NotFittedError before a fit.

        Examples
        --------
        >>> rows = [[1.0], [9.0]] * 500
        >>> kmeans = PrivateKMeans(2, epsilon=10, bounds=(0, 10), noise="seeded:7").fit(rows)
        >>> round(kmeans.score([[1.0], [5.0]]))
        -16
        """
        from sklearn.metrics import pairwise_distances_argmin_min

        _, distances = pairwise_distances_argmin_min(self._numeric_rows(X), self.cluster_centers_)
        return -float(np.square(distances).sum())

    @parameters.invalid_parameters()
    def quality_report(self, real: Any) -> ClusteringQuality:
        """Return the distances of rows from the released centres and from those of plain k-means.

        **What is computed from rows has no noise: it is as sensitive as they are and not for
        publication.** Choosing ``epsilon``, k or a method by it is a release that nobody paid for.

        Parameters
        ----------
        real : array, frame or list of shape (n, d)
            Rows as ``fit`` takes them: numbers outside ``bounds_`` count at the nearer bound, and
            rows with a missing number are left out. ``score`` does neither.

        Returns
        -------
        ClusteringQuality
            ``nicv``, the mean squared distance to the nearest centre in squared data units;
            ``floor``, that of k-means on these rows; ``ratio``. It prints itself, and has
            ``to_frame()``.

        Raises
        ------
        InvalidParameter
            For another form, and for no row without a missing number; NotFittedError before a fit.

        Examples
        --------
        >>> import numpy as np
        >>> rows = np.repeat([[1.0, 1.0], [9.0, 9.0]], 2000, axis=0)
        >>> kmeans = PrivateKMeans(2, epsilon=10, bounds=(0, 10), noise="seeded:1").fit(rows)
        >>> kmeans.quality_report(rows).nicv < 1
        True
        """
        check_is_fitted(self)
        with parameters.name_argument("real"):
            rows = numeric_rows(real, len(self.bounds_))
        points = np.clip(rows[~np.isnan(rows).any(axis=1)], *self.bounds_.T)
        if not len(points):
            raise DeclarationError(
                "real: at least one row must have no missing number, but "
                f"{'every row has one' if len(rows) else 'there are no rows'}: pass other rows"
            )
        floor = nicv(points, reference_kmeans(points, len(self.cluster_centers_)))
        return ClusteringQuality(len(points), nicv(points, self.cluster_centers_), floor)

    @parameters.invalid_parameters()
    def recluster(self, n_clusters: int) -> FloatArray:
        """Return ``n_clusters`` new centres, computed from ``synopsis_`` at no further ε.

        Parameters
        ----------
        n_clusters : int
            From 1 to 10,000.

        Returns
        -------
        ndarray of shape (k, d)
            Private centres in data units; those of the fit stay as they are.

        Raises
        ------
        InvalidParameter
            For another number, and where the method made no synopsis; NotFittedError before a fit.

        Examples
        --------
        >>> rows = [[1.0], [9.0]] * 500
        >>> kmeans = PrivateKMeans(2, epsilon=1, bounds=(0, 10), noise="seeded:7").fit(rows)
        >>> kmeans.recluster(3).shape
        (3, 1)
        """
        check_is_fitted(self)
        if self.synopsis_ is None:
            raise DeclarationError(
                "recluster: the method of the fit makes no synopsis, which this needs: fit with "
                "method='htree_kmeans'"
            )
        k = _number_of_clusters(n_clusters)
        boxes, rng = self.synopsis_.refined(), parameters.generator(self.random_state)
        return cluster_synopsis(boxes, k=k, starts=_RECLUSTER_STARTS, rng=rng)

    def _declare(
        self, names: tuple[str, ...], keys: tuple[Any, ...], protection: Protection
    ) -> PrivateFit:
        domain = box_domain(self.bounds, names, keys)
        model = self._declared_model(k=str(_number_of_clusters(self.n_clusters)))
        fit = self._declare_fit(domain, model, protection)
        earlier = self.plan_from
        if earlier is None:
            return fit
        bounds = _bounds_of(fit.spec.widest.domain)
        if earlier.synopsis_ is None or not np.array_equal(earlier.bounds_, bounds):
            fault = "has none" if earlier.synopsis_ is None else "has other bounds"
            raise DeclarationError(
                "plan_from: the other fit must have a synopsis over the same bounds, but it "
                f"{fault}: plan from another fit, or leave plan_from out"
            )
        synopsis = replace(earlier.synopsis_, columns=domain.names)
        return replace(fit, earlier={"synopsis": synopsis.table()})

    def _numeric_rows(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        with parameters.invalid_parameters():
            X = plain_frame(X)
            # What scikit-learn says of a text shows it.
            numeric_features(X)
        return np.asarray(validate_data(self, X, reset=False, dtype=np.float64))

    @property
    def _n_features_out(self) -> int:
        return len(self.cluster_centers_)
