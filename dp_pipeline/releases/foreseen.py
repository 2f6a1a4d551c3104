"""The plan's forecast for unpaid releases, from declarations alone: the pairs that tables will
measure, and the rows that a discovery needs to find anything.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from dp_pipeline.config.amounts import PURE, epsilon_text
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.domain import OTHER, Domain
from dp_pipeline.config.encoding import Levels
from dp_pipeline.gate.discovery import discovery_queries, rows_for_bounds
from dp_pipeline.models.tables.base import ExpectedPairs, TableModel
from dp_pipeline.releases.epsilon_release import EpsilonRelease
from dp_pipeline.releases.run_options import RunOptions
from dp_pipeline.reporting.plausibility import NOISE_SHARE
from dp_pipeline.results.measurement import NoiseRate

FEW_PAIRS = 10
"""Measured pairs below which a table keeps little more than averages."""

REMEDIES = "raise ε, declare fewer columns or coarser bins"


@dataclass(frozen=True)
class PairForecast:
    """The pairs of attributes that one release is expected to measure.

    rows   ``nominal_rows`` of the data set
    """

    release: EpsilonRelease
    rows: int
    pairs: ExpectedPairs

    @property
    def warning(self) -> str:
        """A phrase on what will not be measured and what would help; empty if enough is."""
        pairs, remedies = self.pairs, REMEDIES
        if self.release.spec.protection.rows > 1:
            remedies += ", or one row a person"
        if pairs.error >= NOISE_SHARE:
            return f"this will be a table of noise: {remedies}"
        if pairs.likely < min(FEW_PAIRS, pairs.total):
            few = f"below {FEW_PAIRS} the table keeps averages and loses dependence"
            return f"{few}: {remedies}"
        return ""

    @property
    def text(self) -> str:
        """A line on the number of pairs, their error, and the warning."""
        items, pairs = self.release.spec.domain.item_word, self.pairs
        least, most = min(self.pairs.measured), max(self.pairs.measured)
        of_all = (
            f"{self.release.name} at ε={epsilon_text(self.release.epsilon)}, {self.rows:,} {items}"
        )
        many = f"{least} to {most}" if least < most else f"about {least}"
        usual = f" ({pairs.likely} if attributes depend as in most tables)" if least < most else ""
        error = f"a pair is wrong by {min(1.0, pairs.error):.0%} of the {items} on average"
        text = f"{of_all}: of {pairs.total} pairs {many} will be measured{usual}, {error}"
        return text + (f"; {self.warning}" if self.warning else "")


def forecast_pairs(options: RunOptions) -> Iterator[PairForecast]:
    """Yield a forecast for each release of tables with a finite ε; nothing without nominal_rows.

    Models that give no ``expected_pairs`` are left out. Of many time windows only the first is
    shown: all are alike.
    """
    first, rows = options.per_window[0], options.spec.nominal_rows
    for release in first.releases:
        if not isinstance(release, EpsilonRelease) or rows is None or not release.guarantee.is_dp:
            continue
        model, spec, currency = release.model, release.spec.widest, release.guarantee.currency
        if isinstance(model, TableModel):
            rate = NoiseRate(currency != PURE, spec.distance)
            amount = currency.amount_of(release.epsilon)
            domain = _likely_domain(spec, options.spec, rows)
            pairs = model.expected_pairs(domain, rows, amount, rate)
            if pairs is not None:
                yield PairForecast(release, rows, pairs)


def _likely_domain(spec: DatasetSpec, declared: DatasetSpec, rows: int) -> Domain:
    """Return the domain of a release; before its discovery, with as many levels as are likely.

    These are as many as would be discovered if all rows were shared equally among them."""
    fewer = {}
    is_invented = declared.to_discover and spec.discovered == declared.widest.discovered
    for query in discovery_queries(declared) if is_invented else ():
        attribute = spec.domain[query.attribute.name]
        if query.rule is not None and isinstance(attribute.cells, Levels):
            texts = attribute.cells.values[: int(rows // query.rule.persons)]
            levels = Levels((*texts, attribute.other or OTHER))
            fewer[attribute.name] = replace(attribute, cells=levels)
    return spec.domain.with_attributes(fewer)


def discovery_lines(spec: DatasetSpec) -> Iterator[str]:
    """Yield a line for levels and a line for bounds of each attribute to discover, with the persons
    or rows that they need.

    Bins have no line.
    """
    rows = spec.nominal_rows
    for query in discovery_queries(spec) if spec.to_discover else ():
        name = query.attribute.name
        if query.rule is not None:
            fewest, most = query.rule.fewest_persons, query.rule.persons
            spread = "" if fewest == most else f" to {float(most):,.0f}"
            line = (
                f"{name}: a level is found when about {float(fewest):,.0f}{spread} persons have it"
            )
            if rows is not None:
                level_count = int(rows // fewest)
                many = (
                    f"at most {level_count} levels"
                    if level_count
                    else "none: all is other or missing"
                )
                line += f"; {rows:,} rows reach that for {many}"
            yield line
        elif query.spend.what.startswith("bounds"):
            least = rows_for_bounds(spec, query)
            bucket = "power of two" if query.attribute.clock is None else "year"
            yield f"{name}: bounds are found when a {bucket} has about {least:,} rows"
