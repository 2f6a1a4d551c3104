"""The format number of everything that is stored."""

from dp_pipeline.config.errors import UnknownFormat

FORMAT = 1
"""Format of data set files (their optional key ``format``), bundles and their tables, transcripts,
manifests of snapshots, the JSON files of assets, and exported folders.
"""


def require_format(stored: object, *, of: str) -> None:
    """Raise UnknownFormat unless a stored format number is the one that this program reads.

    stored   the stored value; None without one
    of       name of the object, for the message
    """
    if type(stored) is int and stored == FORMAT:
        return
    got, remedy = "another value", "put back an unchanged copy"
    if stored is None or (type(stored) is int and stored >= 0):
        got = "no format" if stored is None else str(stored)
        remedy = "use the dp_pipeline that wrote it"
    raise UnknownFormat(f"{of}: expected format {FORMAT}, got {got}: {remedy}")
