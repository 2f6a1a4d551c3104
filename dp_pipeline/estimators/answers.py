"""Counts, shares, means, quantiles and sizes of what a fit released, with intervals."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from sklearn.utils.validation import check_is_fitted

from dp_pipeline.answers.boxes import OpenClusters
from dp_pipeline.answers.tables import OpenTable
from dp_pipeline.answers.units import OpenParts, OpenUnits, open_tables
from dp_pipeline.config.encoding import FloatArray
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.estimators.parameters import invalid_parameters
from dp_pipeline.results.clusters import Synopsis
from dp_pipeline.results.synthetic_table import SyntheticTable


def _after_fit(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of estimators that calls ``method`` of the release that a fit has drawn.

    It raises NotFittedError before a fit, and InvalidParameter in place of DeclarationError.
    """

    @wraps(method)
    def answer(self: Any, *args: Any, **options: Any) -> Any:
        check_is_fitted(self)
        with invalid_parameters():
            return getattr(self._open_release(), method.__name__)(*args, **options)

    return answer


class TableAnswers:
    """Methods of an estimator that answer from its released table, at no further ε.

    They are those of ``OpenTable``. Where units have parts, they are those of ``OpenUnits``:
    ``count`` and ``share`` take ``any_part``, and ``parts`` has the same methods about parts.

    >>> from dp_pipeline.estimators import PrivateSynthesizer
    >>> people = [["no", 0], ["yes", 2]] * 500
    >>> synthesizer = PrivateSynthesizer(domain={"smokes": ["no", "yes"], "visits": 3}, epsilon=1)
    >>> count = synthesizer.fit(people).count("smokes == 'yes' and visits > 1")
    >>> count.basis, count.low <= count.value <= count.high
    ('measured', True)
    """

    _table: SyntheticTable
    _opened: tuple[SyntheticTable, OpenTable] | None = None

    count = _after_fit(OpenTable.count)
    share = _after_fit(OpenTable.share)
    mean = _after_fit(OpenTable.mean)
    quantile = _after_fit(OpenTable.quantile)
    table = _after_fit(OpenTable.table)
    replicates = _after_fit(OpenTable.replicates)

    @property
    def parts(self) -> OpenParts:
        """The released parts of units, with ``count``, ``share``, ``mean``, ``quantile`` and
        ``table`` about parts; AttributeError for a fit of one table."""
        check_is_fitted(self)
        release = self._open_release()
        if not isinstance(release, OpenUnits):
            raise AttributeError(
                "parts: the fit is of one table, whose rows have no parts: declare two tables"
            )
        return release.parts

    def _open_release(self) -> OpenTable:
        if self._opened is None or self._opened[0] is not self._table:
            self._opened = self._table, open_tables(self._table.tables(), self._table.clocks())
        return self._opened[1]


class ClusterAnswers:
    """Methods of an estimator that answer from its released boxes, at no further ε.

    They are those of ``OpenClusters``.

    >>> from dp_pipeline.estimators import PrivateKMeans
    >>> rows = [[1.0], [9.0]] * 500
    >>> kmeans = PrivateKMeans(2, epsilon=1, bounds=(0, 10), noise="seeded:7").fit(rows)
    >>> [round(size.value, -2) for size in kmeans.sizes()], kmeans.count("x0 > 5").basis
    ([500.0, 500.0], 'measured')
    """

    synopsis_: Synopsis | None
    cluster_centers_: FloatArray

    count = _after_fit(OpenClusters.count)
    share = _after_fit(OpenClusters.share)
    sizes = _after_fit(OpenClusters.sizes)

    def _open_release(self) -> OpenClusters:
        if self.synopsis_ is None or self.synopsis_.deviations is None:
            raise DeclarationError(
                "The fit must have counted boxes to give intervals, but it released centres "
                "alone: fit with a method such as `htree_kmeans`"
            )
        return OpenClusters(self.cluster_centers_, self.synopsis_)
