"""What the card and the page of a k-anonymous release say, from its bundle and its declaration."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from dp_pipeline.orchestration.beside import BESIDE
from dp_pipeline.orchestration.declared_methods import declared_method
from dp_pipeline.orchestration.syntactic_tables import TableFacts, measures_of
from dp_pipeline.release.bundle import ALLOWED, Bundle
from dp_pipeline.reporting.anonymous_release import AnonymousRelease, KeptColumn, LeftOut
from dp_pipeline.reporting.parameter_words import parameter_words
from dp_pipeline.reporting.release_card import release_card
from dp_pipeline.schema.spec import DatasetSpec


def card_of(spec: DatasetSpec, bundle: Bundle) -> str:
    """The card that is stored with a bundle, in markdown."""
    return release_card(anonymous_release(spec, bundle, {}))


def anonymous_release(
    spec: DatasetSpec, bundle: Bundle, figures: Mapping[str, float]
) -> AnonymousRelease:
    """One release for a reader.

    figures   of its evaluation, on public rows
    """
    facts = bundle.facts
    told = {*facts["attributes"].split(), facts["label"]}
    labels = () if spec.is_release else _rows(bundle, "suppressed")
    return AnonymousRelease(
        title=spec.title,
        dataset=facts["dataset"],
        lineage=spec.lineage,
        purpose=spec.purpose,
        method=facts["model"],
        summary=declared_method(spec, facts["model"]).summary,
        k=int(facts["k"]),
        diversity=int(facts["diversity"]),
        suppress=Fraction(facts["suppress"]),
        label=facts["label"],
        columns=tuple(KeptColumn(*texts) for texts in _rows(bundle, "columns")),
        outside=tuple(name for name in spec.domain.names if name not in told),
        measures=measures_of(bundle),
        suppressed=TableFacts.of(bundle).left_out,
        left_out=tuple(LeftOut(*values) for values in labels),
        allowed=facts[ALLOWED] == "yes",
        earlier=tuple(facts[BESIDE].split("; ")) if BESIDE in facts else (),
        figures=figures,
        provenance={
            "Snapshot": facts["snapshot"],
            "Parameters": parameter_words(facts["parameters"]),
            "Seed": facts["seed"],
            "Code": facts["code"],
            "Release key": bundle.key,
        },
    )


def _rows(bundle: Bundle, table: str) -> list[tuple[Any, ...]]:
    """The lines of a small table of a bundle."""
    columns = (values.tolist() for values in bundle.tables[table].values())
    return list(zip(*columns, strict=True))
