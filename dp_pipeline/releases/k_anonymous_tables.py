"""The stored tables of a k-anonymous release: rows, recoding rules and disclosure measures."""

from collections.abc import Iterator, Mapping
from functools import partial, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity.coded_rows import CodedRows, Column, KAnonymityGuarantee
from dp_pipeline.anonymity.method import Bit, BitRule, Recoding, RowRule
from dp_pipeline.config.encoding import IntArray
from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.metrics.disclosure import DisclosureReport, disclosure_report
from dp_pipeline.results.bundle import Bundle
from dp_pipeline.results.clusters import ROWS_A_BATCH, Columns, LongColumns, Tables, batches_of

RELEASED = "released"
AUC, ONE_LABEL_AUC = "auc_in_folds", "auc_in_folds_with_one_label"
"""Measures of public rows alone."""


def k_anonymous_tables(
    rows: CodedRows,
    anonymized: Recoding,
    promise: KAnonymityGuarantee,
    *,
    label: str,
    is_public: bool,
    aucs: Mapping[str, float] | None = None,
) -> Tables:
    """Return the tables of a k-anonymous release by name.

    ``released``: one text for each kept column, and the label; sorted rows. ``columns``: name,
    source attribute and rule of each column. ``measures``: name and value of every measure of the
    released rows, with ``aucs``. ``suppressed``: number of suppressed rows; of public rows, by
    label, with its share of the label's rows.

    They do not show the order of rows or of the selection, nor columns that were not kept. Of
    sensitive rows only the number of suppressed ones is released: the label of a single one would
    be that person's. BoundaryViolation for two columns of one name.
    """
    released = {RELEASED: _texts(anonymized.release(rows), label)}
    is_bits = isinstance(anonymized.rule, BitRule)
    report = measure_disclosure(released, label=label, k=promise.k, bits=is_bits)
    facts = {**report.facts(), **(aucs or {})}
    suppressed: dict[str, np.ndarray] = {
        "rows": np.array([anonymized.suppressed.sum()], dtype=np.int64)
    }
    if is_public:
        labels = rows.target_levels
        counts = np.bincount(rows.target[anonymized.suppressed], minlength=len(labels))
        suppressed = {
            "label": np.array(labels, dtype=np.str_),
            "rows": counts.astype(np.int64),
            "share": counts / np.maximum(1, rows.target_counts),
        }
    return {
        **released,
        "columns": _rules(anonymized.rule),
        "measures": {
            "name": np.array(list(facts), dtype=np.str_),
            "value": np.array(list(facts.values()), dtype=np.float64),
        },
        "suppressed": suppressed,
    }


def measure_disclosure(
    tables: Tables, *, label: str, k: int, bits: bool = False
) -> DisclosureReport:
    """Return every disclosure measure of a stored table.

    bits   whether its columns are bits, so that containment is measured too
    """
    released = tables[RELEASED]
    labels, target = _levels_and_codes(released, label)
    names = [name for name in released if name != label]
    codes = np.zeros((len(target), len(names)), dtype=np.int64)
    for position, name in enumerate(names):
        codes[:, position] = _levels_and_codes(released, name)[1]
    return disclosure_report(codes, target, labels=len(labels), k=k, bits=bits)


def keeps_guarantee(bundle: Bundle) -> bool:
    """Return whether the stored rows of a k-anonymous bundle fulfil its guarantee."""
    k, diversity = int(bundle.facts["k"]), int(bundle.facts["diversity"])
    report = measure_disclosure(bundle.tables, label=bundle.facts["label"], k=k)
    return (k <= 1 or report.k >= k) and (diversity <= 1 or report.distinct_l >= diversity)


def table_facts(bundle: Bundle) -> dict[str, Any]:
    """Return the guarantee and the disclosure measures of a k-anonymous table, by name.

    k, diversity  as promised
    columns       number of kept columns, without the label
    smallest      rows of the smallest class
    homogeneous   share of the rows that are in classes with one label
    left_out      rows that were suppressed to keep the promise
    """
    measures = measures_of(bundle)
    return {
        "k": int(bundle.facts["k"]),
        "diversity": int(bundle.facts["diversity"]),
        "columns": len(bundle.tables["columns"]["name"]),
        "classes": int(measures["classes"]),
        "smallest": int(measures["k"]),
        "homogeneous": measures["homogeneous_rows"] / max(1.0, measures["rows"]),
        "left_out": int(bundle.tables["suppressed"]["rows"].sum()),
    }


def measures_of(bundle: Bundle) -> dict[str, float]:
    """Return the values of a release's disclosure measures by name."""
    stored = bundle.tables["measures"]
    return dict(zip(stored["name"].tolist(), stored["value"].tolist(), strict=True))


def _levels_and_codes(table: Columns, name: str) -> tuple[np.ndarray, IntArray]:
    levels = reduce(np.union1d, map(np.unique, batches_of(table, name)))
    codes = [np.searchsorted(levels, batch) for batch in batches_of(table, name)]
    return levels, np.concatenate(codes)


def _texts(released: CodedRows, label: str) -> Columns:
    names = [*(column.name for column in released.columns), label]
    if len(set(names)) < len(names):
        # A name given twice would silently take a column out of the table that is measured.
        fault = "The columns of a released table must have different names, but one is repeated"
        raise BoundaryViolation(fault)
    levels = [*(column.levels for column in released.columns), released.target_levels]
    codes = [*released.codes.T, released.target]
    columns = {
        name: partial(_text_batches, np.array(texts, dtype=np.str_), column)
        for name, texts, column in zip(names, levels, codes, strict=True)
    }
    if len(released) <= ROWS_A_BATCH:
        return {name: next(batches()) for name, batches in columns.items()}
    return LongColumns(columns)


def _text_batches(levels: np.ndarray, codes: NDArray[np.integer]) -> Iterator[np.ndarray]:
    """Yield the texts of the rows in batches, because texts take far more memory than codes."""
    for start in range(0, max(1, len(codes)), ROWS_A_BATCH):
        yield levels[codes[start : start + ROWS_A_BATCH]]


def _rules(recoding: RowRule) -> dict[str, np.ndarray]:
    if isinstance(recoding, BitRule):
        sources = [recoding.source[bit.column].name for bit in recoding.bits]
        rules = [_rule(bit, recoding.source[bit.column]) for bit in recoding.bits]
    else:
        sources = [column.name for column in recoding.columns]
        rules = ["the level of a row, or the set of levels that its class shares"] * len(sources)
    names = [column.name for column in recoding.columns]
    texts = {"name": names, "source": sources, "rule": rules}
    return {name: np.array(values, dtype=np.str_) for name, values in texts.items()}


def _rule(bit: Bit, column: Column) -> str:
    """Return the condition under which a bit is 1, as text.

    >>> _rule(Bit(0, 1, "at_least"), Column("age", ("[0, 20)", "[20, 40]"), ordered=True))
    '1 where age is in [20, 40] or above'
    """
    level = column.levels[bit.code]
    if bit.asks == "at_least":
        return f"1 where {column.name} is in {level} or above"
    return f"1 where {column.name} is {level}"
