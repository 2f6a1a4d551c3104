"""Evidence of a release for registries, auditors and data protection officers.

The texts follow from the declaration, the charges and the card. What only the publisher knows comes
from `about` of the data set file, and is marked as missing where it is not there.
"""

import textwrap
from collections.abc import Iterator, Mapping
from fractions import Fraction
from math import exp
from typing import Any

import yaml

from dp_pipeline import __version__
from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.reporting.releases import ReportedPrivateRelease

FOLDER = "evidence"
MISSING = "not stated by the publisher"
"""The text of a field that only the publisher can fill, by `about` of the data set file."""

TITLES = {
    f"{FOLDER}/registry.yaml": "Entry for the public registry of differential privacy deployments",
    f"{FOLDER}/checklist.md": "Answers to the questions of NIST SP 800-226",
    f"{FOLDER}/assessment.md": "Draft of a data protection impact assessment",
}


def evidence(release: ReportedPrivateRelease, day: str) -> dict[str, bytes]:
    """Return path → content of the registry entry, the checklist and the impact assessment.

    day   on which the release was settled, shown as the day of publication, such as 2026-11-27
    """
    entry = registry_entry(release, day)
    yaml_text = yaml.safe_dump(entry, sort_keys=False, allow_unicode=True, width=100)
    texts = (yaml_text, checklist(release), assessment(release))
    return {path: text.encode() for path, text in zip(TITLES, texts, strict=True)}


def registry_entry(release: ReportedPrivateRelease, day: str) -> dict[str, Any]:
    """Return the tier-3 entry of a release for the deployments registry of OpenDP and NIST.

    Source: the schema ``deployments-schema.yaml`` of github.com/opendp/deployments-registry-data.
    """
    spec, bundle, about = release.spec, release.bundle, release.spec.about
    return {
        "url_slug": f"{spec.name}-{bundle.facts['model']}-{day[:4]}".replace("_", "-"),
        "deployment": {
            "basic": {
                "name": spec.title,
                "data_curators": [
                    {
                        "data_curator_name": about.publisher or MISSING,
                        "data_curator_type": about.publisher_kind or MISSING,
                    }
                ],
                "description": f"{spec.description} {_product(release)}",
                "intended_use": about.use or MISSING,
                "data_product_type": _PRODUCTS.get(_main_table_name(release), "Summary statistics"),
                "data_product_region": about.region or MISSING,
                **({"data_product_sector": about.sector} if about.sector else {}),
                "publication_date": day,
            },
            "dp_variant": _variant(release),
            "privacy_loss": _loss(release),
            "deployment_model": _model(release),
            "implementation": _implementation(release),
            "administrative": {
                "evidence_sources": {
                    "release_card": {
                        "evidence_source_type": "Authorized organizational attestation",
                        "misc": {
                            "title": f"Card of {release.name}",
                            "note": f"release key {bundle.key}",
                        },
                    }
                },
                "status": "Draft",
                "registry_authors": [about.contact or about.publisher or MISSING],
                "tier": 3,
            },
        },
    }


def filled_share(entry: Mapping[str, Any]) -> float:
    """Return the share of the fields of an entry that do not say ``MISSING``.

    >>> filled_share({"a": "x", "b": {"c": MISSING}})
    0.5
    """
    values = list(_leaves(entry))
    return sum(1 for value in values if value != MISSING) / len(values)


def _leaves(node: Any) -> Iterator[Any]:
    if isinstance(node, Mapping):
        for value in node.values():
            yield from _leaves(value)
    elif isinstance(node, list):
        for value in node:
            yield from _leaves(value)
    else:
        yield node


_LARGEST_STATED = 5
"""Largest ε for which the assessment states the factor e^ε: larger ones limit little."""

_PRODUCTS = {"synthetic": "Synthetic data", "centres": "Summary statistics"}


def _main_table_name(release: ReportedPrivateRelease) -> str:
    return next((name for name in _PRODUCTS if name in release.bundle.tables), "")


def _product(release: ReportedPrivateRelease) -> str:
    kinds = {"synthetic": "A synthetic table", "centres": "Centres of clusters"}
    return f"{kinds.get(_main_table_name(release), 'Noisy counts')} by {release.bundle.model}."


def _variant(release: ReportedPrivateRelease) -> dict[str, str]:
    spec = release.spec
    columns = ", ".join(
        f"{item.name} ({item.size} cells)" if item.cells else item.name for item in spec.domain
    )
    name = "Pure DP"
    if _delta(release):
        is_pure = release.bundle.currency.name == "pure"
        name = "Approximate DP" if is_pure else "Zero-concentrated DP"
    return {
        "variant_name": name,
        "data_domain": f"All finite tables with the declared columns {columns}. Bounds and levels "
        "were declared without looking at the rows, or discovered for a part of the privacy loss.",
        "unprotected_quantities": "None. The declaration (columns, bounds, levels, the unit, the "
        "models and ε) is public and was not computed from the rows.",
    }


def _delta(release: ReportedPrivateRelease) -> float:
    delta: Fraction = release.bundle.own_delta + (release.bundle.model_currency.delta or 0)
    return float(delta)


def unit_text(release: ReportedPrivateRelease) -> str:
    """Return a sentence that says in what neighbouring tables differ."""
    spec, protection = release.spec, release.spec.protection
    verb = "replaced by another" if spec.relation == "replace_one" else "added or removed"
    if not protection.column:
        return f"Two tables are adjacent where one row is {verb}."
    window = f" of one {spec.windows.every}" if spec.windows and spec.within == "window" else ""
    return (
        f"Two tables are adjacent where all rows{window} with one value of "
        f"{protection.column} are {verb}; at most {protection.at_most} of these rows are used."
    )


def _loss(release: ReportedPrivateRelease) -> dict[str, Any]:
    spec, bundle = release.spec, release.bundle
    unit = "Row-level"
    if spec.protection.column:
        each = spec.windows.every if spec.windows and spec.within == "window" else ""
        unit = f"Person-{each}-level" if each else "Person-level"
    if spec.domain.parts is not None:
        unit = "Group-level"
    parameters: dict[str, Any] = {"epsilon": float(bundle.epsilon)}
    if _delta(release):
        parameters["delta"] = _delta(release)
    details = f"This release costs {bundle.spent_text} exactly, with its private evaluation."
    balance = release.balance
    if balance is not None:
        text = balance.currency.labelled_text
        details += f" All releases about this population have cost {text(balance.spent)}"
        details += f" of at most {text(balance.ceiling)}." if balance.ceiling is not None else "."
    loss: dict[str, Any] = {
        "privacy_unit": unit,
        "privacy_unit_details": unit_text(release),
        "privacy_parameters": parameters,
        "privacy_parameters_details": details,
    }
    if spec.nominal_rows:
        rows = 1 if spec.domain.parts else spec.protection.at_most
        loss["number_of_privacy_units"] = max(1, spec.nominal_rows // rows)
    return loss


def _model(release: ReportedPrivateRelease) -> dict[str, str]:
    spec = release.spec
    is_repeated = bool(spec.windows or spec.refresh)
    repeats = (
        f"One release each {spec.windows.every}, each under a limit of its own."
        if spec.windows
        else "A weekly schedule opens new snapshots under one ceiling."
        if spec.refresh
        else "Further releases about the same persons add to one account with a ceiling."
    )
    return {
        "model_name": "Central",
        "model_name_details": "The custodian holds the rows; models are handed a curator that "
        "answers with noise, and never the rows.",
        "trust_assumptions": "The custodian and the computer that holds the rows are trusted. "
        "Readers are not: they may know anything else and join with each other.",
        "actors": "Custodian: holds rows, declaration and ledger. Dagster operator: starts runs, "
        "and sees the same noisy numbers as readers. Readers: anyone who has the published folder.",
        "release_type": "Many releases" if is_repeated else "One release",
        "release_type_details": repeats,
        "data_source_type": "Dynamic" if is_repeated else "Static",
        "data_source_type_details": "Every release names the snapshot of the rows that it is "
        "drawn from: " + release.bundle.facts["snapshot"] + ".",
        "access_type": "Non-interactive",
        "access_type_details": "Readers ask the published tables, never the rows.",
    }


def _implementation(release: ReportedPrivateRelease) -> dict[str, str]:
    bundle = release.bundle
    lines = [
        f"- {name}, scale {scale}, charged {charges} ×, cost {epsilon_text(cost)}"
        for name, scale, charges, cost in release.mechanisms
    ]
    quality = [f"- {row.about.title}: {row.text}" for row in release.quality_rows]
    return {
        "preprocessing_and_hyperparameter_tuning": "Rows are recoded by the declaration alone; "
        "cells that are not as declared are treated by a declared rule. Nothing was tuned on the "
        "rows: every look at them is charged.",
        "mechanisms": "\n".join(
            [
                *lines,
                f"- Noise: whole numbers from {bundle.facts['noise']} samplers, exact in their "
                "distribution, without floating point.",
                "- A charge is recorded before the rows are looked at, and errors and refusals "
                "never depend on the rows. Run time is not covered.",
                f"- Code: dp_pipeline {__version__}, {bundle.facts['code']}.",
            ]
        ),
        "composition": "Sequential, by exact fractions: the charges of one release add up to its "
        "cost, and all costs of a population to its account in a ledger, which refuses what goes "
        "above the ceiling before anything is looked at.",
        "post_processing": "Fitting of a model to the noisy answers, rounding, and drawing of "
        "synthetic rows; all of it sees noisy answers only.",
        "justification": f"Model: {release.summary}. ε was declared before the rows were read; "
        "each question's sensitivity is proved beside its formula, and tests compare it with "
        "neighbouring tables.",
        "utility": "\n".join(quality)
        or "No private evaluation was bought; the card states the noise of every table.",
        "additional_information": f"Release key {bundle.key}, digest of its noisy answers "
        f"{bundle.transcript}.",
    }


def checklist(release: ReportedPrivateRelease) -> str:
    """Return answers to NIST SP 800-226's (2025) questions about a privacy claim, in Markdown."""
    spec, bundle = release.spec, release.bundle
    delta = _delta(release)
    answers = {
        "How large is the privacy loss?": bundle.spent_phrase
        + (f", δ = {delta:.3g}" if delta else ", without δ")
        + " for this release, its evaluation included.",
        "What is the unit of privacy?": unit_text(release),
        "Is the whole contribution of a person covered?": "Yes."
        if spec.protection.column and spec.within != "window"
        else "No: only the unit above. Somebody with several units loses the sum of them.",
        "Does δ stay far below one in the number of persons?": "There is no δ."
        if not delta
        else f"δ = {delta:.3g}; compare it with one in the number of persons.",
        "Who has to be trusted?": "The custodian, in the central model. Readers need no trust.",
        "Are the mechanisms proved?": "Yes: the sensitivity of each question stands beside its "
        "formula, and the sum of charges is exact.",
        "Are the proofs true of the code?": "Noise is drawn as whole numbers by exact samplers; "
        "`dp-pipeline evidence` measures the loss of this release's own scales.",
        "Is anything released without noise?": "No."
        if not release.non_dp_releases
        else f"Yes, elsewhere: {'; '.join(release.non_dp_releases)}.",
        "Were parameters chosen by looking at the rows?": "Not by this program: declarations come "
        "first. What a person looked at before cannot be known.",
        "How do several releases add up?": "In one account for the population, kept by a ledger "
        "that no second run can overspend.",
        "Are side channels closed?": "Errors, refusals and charges do not depend on the rows; run "
        "time may.",
        "How are rows, keys and ledger kept?": "In folders of the custodian alone; the promise "
        "ends where these are stolen.",
        "Is the result useful, and for whom is it not?": "The card has the figures. Small groups "
        "have the largest relative noise: do not decide about them by this release.",
    }
    lines = [f"# {spec.title}: questions of NIST SP 800-226", "", f"For {release.name}.", ""]
    for question, answer in answers.items():
        lines += [f"**{question}** {answer}", ""]
    return "\n".join(lines)


def assessment(release: ReportedPrivateRelease) -> str:
    """Return the draft of a data protection impact assessment, in Markdown, with gaps to fill."""
    spec, about = release.spec, release.spec.about
    columns = ", ".join(attribute.name for attribute in spec.domain)
    odds = ""
    if release.bundle.epsilon <= _LARGEST_STATED:
        odds = (
            f" No conclusion about a person is more than {exp(release.bundle.epsilon):.2f} times "
            "as likely with that person's data as without."
        )
    return f"""# Draft of a data protection impact assessment: {spec.title}

A draft from the declaration and the ledger. Complete it, and let your data protection officer
read it.

## What is planned

{about.publisher or MISSING.capitalize()} publishes {release.name}:
{textwrap.shorten(spec.description, 300)}
Purpose: {about.use or MISSING}. The rows hold: {columns}. They describe: {about.as_of or MISSING}.

## Necessity

The rows themselves are not published. A table with noise serves the purpose where totals, shares
and relations are asked for, and single persons are not.

## Risks for the persons

* Being singled out, or linked with other files: {unit_text(release)}{odds}
* Being judged as a member of a group: what is true of a group is published on purpose, and no
  noise prevents it.
* Decisions by wrong numbers: the card states the error of each kind of number.
* Theft of the rows, keys or ledger: outside of what the noise protects.

## Measures

* {release.standing}; charges are recorded before the rows are read, and a ceiling is enforced.
* Rows, keys and ledger lie in folders of the custodian alone; models never hold a row.
* `dp-pipeline verify` lets every reader check the folder.

## Left to decide

* Legal basis, retention of the rows, information of the persons: {MISSING}.
* Contact for the persons: {about.contact or MISSING}.
"""
