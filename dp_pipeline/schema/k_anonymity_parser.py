"""The k-anonymous releases of a data set, as its file declares them."""

from __future__ import annotations

import re
from fractions import Fraction

from dp_pipeline.schema.domain import Domain
from dp_pipeline.schema.errors import DeclarationError
from dp_pipeline.schema.fields import Fields
from dp_pipeline.schema.k_anonymity import PARTITIONS, KAnonymity, parse_k
from dp_pipeline.schema.name import did_you_mean
from dp_pipeline.schema.protection import Protection


def parse_k_anonymity(
    fields: Fields, domain: Domain, protection: Protection, *, label: str | None, is_release: bool
) -> KAnonymity:
    """Read the section ``k_anonymity`` of a data set file.

    fields       of the whole file
    label        the attribute that is predicted: it is released, and no quasi-identifier
    is_release   whether rows are sensitive: then ``allow_not_dp: true`` has to stand beside it,
                 and every K has to promise something; so do those that go without saying

    Methods and their parameters are checked where they are built. DeclarationError
    without a label, for attributes without cells, for more different labels in a
    class than there are, and where K rows may be fewer than K persons.
    """
    if label is None:
        fields.refuse("k_anonymity", "a `label` beside it, for rows to predict", "none")
    if domain[label].nullable:
        expected = "a label that is never missing: a missing one would pass for another label"
        fields.refuse("k_anonymity", expected, f"{label} with `nullable: true`")
    if protection.rows > 1:
        expected = "at most one row of a person beside it, for K rows to be K persons"
        fields.refuse("k_anonymity", expected, str(protection))
    if is_release and not fields.boolean("allow_not_dp"):
        expected = "`allow_not_dp: true` for k-anonymous releases of sensitive rows"
        fields.refuse("k_anonymity", expected, "false" if "allow_not_dp" in fields else "none")
    section = fields.section("k_anonymity")
    declared = KAnonymity(
        methods=_methods(section),
        attributes=_attributes(section, domain, label),
        partitions=_partitions(section, least=2 if is_release else 0),
        sensitive_label=_is_sensitive(section),
        diversity=_diversity(section, most=domain[label].size),
        suppress=_share(section, "suppress"),
        seed=section.integer("seed", at_least=0) if "seed" in section else 0,
    )
    section.finish()
    return declared


def _is_sensitive(section: Fields) -> bool:
    return section.text("sensitive_label", "true", choices=("true", "false")) == "true"


def _methods(section: Fields) -> dict[str, dict[str, str]]:
    named, methods = section.section("methods"), {}
    for name in named:
        parameters = named.section(name)
        methods[name] = {parameter: parameters.text(parameter) for parameter in parameters}
    if not methods:
        section.refuse("methods", "at least one method", "none")
    return methods


def _attributes(section: Fields, domain: Domain, label: str) -> tuple[str, ...]:
    """Those listed, in that order, or every attribute with cells but the label."""
    known = tuple(name for name in domain.discrete if name != label)
    if "attributes" not in section and known:
        return known
    names = tuple(section.text("attributes", "").split())
    if not names or len(set(names)) != len(names) or not set(names) <= set(known):
        expected = f"attributes with cells, each once: {', '.join(known) or 'there is none'}"
        unknown = next((name for name in names if name not in known), "")
        near = did_you_mean(unknown, known)
        section.refuse("attributes", expected, ", ".join(names) or "none", hint=near)
    return names


def _partitions(section: Fields, *, least: int) -> tuple[int, ...]:
    if "partitions" not in section:
        return tuple(k for k in PARTITIONS if k >= least)
    texts = section.texts("partitions")
    try:
        partitions = tuple(map(parse_k, texts))
    except DeclarationError:
        partitions = ()
    if not partitions or list(partitions) != sorted(set(partitions)) or partitions[0] < least:
        expected = f"ascending K of at least {least}, each once, at least one"
        section.refuse("partitions", expected, ", ".join(texts) or "none")
    return partitions


def _diversity(section: Fields, *, most: int) -> int | None:
    if "diversity" not in section:
        return None
    diversity = section.integer("diversity", at_least=1)
    if diversity > most:
        section.refuse("diversity", f"at most the label's {most} levels", str(diversity))
    return diversity


def _share(section: Fields, name: str) -> Fraction:
    """An exact share below 1, as decimal text; 0 when not declared."""
    text = section.text(name, "0")
    if not re.fullmatch(r"0|0?\.[0-9]{1,9}", text):
        section.refuse(name, "a decimal number from 0 to below 1", repr(text[:60]))
    return Fraction(text)
