"""What goes unsaid in digests, so that what was made before something was added stays the same.

A release that was paid for is found again by a digest of what it was asked. A field that is added
to such a question says in its metadata which value means what was done before there was the field;
with that value it is left out, and all earlier digests stand. Every other value is said, that of a
default that changes one day as well: no two different questions share a digest. The value is
history and no default: it is never changed. A name is never used again.
"""

from __future__ import annotations

from dataclasses import Field, asdict, fields
from typing import Any

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
