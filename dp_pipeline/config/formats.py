"""The format number of everything that is stored: nothing is read by guessing."""

from __future__ import annotations

from dp_pipeline.config.errors import UnknownFormat

FORMAT = 1
"""The format of data set files (their optional key ``format``; absent means 1), bundles and their
tables, transcripts (in their first line), manifests of snapshots, the JSON files by which assets
hand on evaluations, comparisons and pointers, and exported folders.
"""


def require_format(stored: object, *, of: str) -> None:
    """Raise UnknownFormat unless ``stored`` is the number of the format that this program reads.

    stored   the value in the place of the number; None without one
    of       the object, for the message

    >>> require_format(2, of="bundle 3f55fba")
    Traceback (most recent call last):
    ...
    dp_pipeline.config.errors.UnknownFormat: bundle 3f55fba: expected format 1, got 2: use the \
dp_pipeline that wrote it; `dp-pipeline check` lists all formats
    """
    if type(stored) is int and stored == FORMAT:
        return
    got, remedy = "what is no format's number", "put back a copy from a backup"
    if stored is None or (type(stored) is int and stored >= 0):
        got = "none" if stored is None else str(stored)
        remedy = "use the dp_pipeline that wrote it"
    raise UnknownFormat(
        f"{of}: expected format {FORMAT}, got {got}: {remedy}; `dp-pipeline check` lists all "
        "formats"
    )
