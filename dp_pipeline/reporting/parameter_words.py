"""Parameters of a release in words: its facts hold them as a JSON object."""

from __future__ import annotations

from dp_pipeline.schema.parameter_facts import Parameter, fact_values


def parameter_words(fact: str) -> str:
    """The parameters in one line; text that holds none as it is.

    >>> parameter_words('{"columns": [], "k": "8"}'), parameter_words("{}")
    ('columns: all; k: 8', 'none')
    """
    parameters = fact_values(fact)
    if parameters is None:
        return fact
    return "; ".join(f"{name}: {_words(value)}" for name, value in parameters.items()) or "none"


def _words(value: Parameter) -> str:
    """A value: of names all of them; all attributes where none is named."""
    if value is None:
        return "not set"
    if isinstance(value, list):
        return ", ".join(value) or "all"
    return value
