"""Format numbers: what is stored says how it is to be read, and nothing is read by guessing.

A number changes when an earlier program would misread what is stored, or a later one what was.

What goes unsaid in digests, so that what was made before something was added stays the same.

A release that was paid for is found again by a digest of what it was asked. A field that is added
to such a question says in its metadata which value means what was done before there was the field;
with that value it is left out, and all earlier digests stand. Every other value is said, that of a
default that changes one day as well: no two different questions share a digest. The value is
history and no default: it is never changed. A name is never used again.
"""

from __future__ import annotations

from dataclasses import Field, asdict, fields
from typing import Any

from dp_pipeline.spec.errors import UnknownFormat

DATASET_FILE = 1
"""Of data set files: their optional key ``format``; absent means 1."""

BUNDLE = 2
"""Of ``bundle.json`` and the tables beside it."""

TRANSCRIPT = 2
"""Of the lines of a transcript; in its first one."""

MANIFEST = 3
"""Of a snapshot's manifest, a retired one's too."""

SAMPLE = 2
"""Of the rule by which rows of a person are kept (``raw/contributions.py``): in its key, and in the
marks of stages that were prepared by it.
"""

DOCUMENT = 1
"""Of the JSON files by which assets hand on evaluations, comparisons and pointers to bundles."""

EXPORT = 1
"""Of exported folders: in their ``datapackage.json`` and ``card.json``."""


def require_format(stored: object, expected: int, *, of: str, older: str) -> None:
    """UnknownFormat unless ``stored`` is the number of the format that this program reads.

    stored   what was found in the place of the number; None where there was nothing
    of       the object, for the message
    older    what to do about one without a number, or with a lower one

    >>> require_format(2, 1, of="bundle 3f55fba", older="draw it anew")
    Traceback (most recent call last):
    ...
    dp_pipeline.spec.errors.UnknownFormat: bundle 3f55fba: expected format 1, got 2: made by a \
newer dp_pipeline: upgrade this one; `dp-pipeline doctor` lists all formats
    """
    if type(stored) is int and stored == expected:
        return
    if stored is None or (type(stored) is int and 0 <= stored < expected):
        got = "none" if stored is None else str(stored)
        remedy = f"made by an older dp_pipeline: {older}"
    elif type(stored) is int and stored > expected:
        got, remedy = str(stored), "made by a newer dp_pipeline: upgrade this one"
    else:
        got, remedy = "what is no format's number", "put back a copy from a backup"
    raise UnknownFormat(
        f"{of}: expected format {expected}, got {got}: {remedy}; "
        "`dp-pipeline doctor` lists all formats"
    )


AS_BEFORE = "as_before"
"""The key of a field's metadata that holds this value."""


def is_said(field: Field[Any], value: object) -> bool:
    """Whether a field has to be named: always, unless its value means what was done before."""
    return AS_BEFORE not in field.metadata or value != field.metadata[AS_BEFORE]


def said(question: Any) -> dict[str, Any]:
    """The fields of a dataclass that have to be named, with their values.

    >>> from dataclasses import dataclass, field
    >>> @dataclass
    ... class Draw:
    ...     rows: int
    ...     seed: int = field(default=7, metadata={AS_BEFORE: 0})
    >>> said(Draw(5)), said(Draw(5, seed=0))
    ({'rows': 5, 'seed': 7}, {'rows': 5})
    """
    named = [one.name for one in fields(question) if is_said(one, getattr(question, one.name))]
    values = asdict(question)
    return {name: values[name] for name in named}
