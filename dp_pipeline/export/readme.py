"""``README.txt`` of an exported folder: what it is, what the files are, and how to read them."""

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.export.evidence import TITLES as EVIDENCE
from dp_pipeline.export.folder import RELEASE
from dp_pipeline.reporting.releases import ReportedRelease

README = "README.txt"
DOCUMENTS = {
    "card.md": "The card as text",
    "card.html": "The card: what is promised, and how good the release is",
    "card.json": "The figures of the card, for programs",
    RELEASE: "The charges and digests of the release, for checks",
    "centres.geojson": "The centres, for map programs",
    "synopsis.geojson": "The boxes, for map programs",
    **EVIDENCE,
}
"""File → what it holds."""

_WIDTH = 88

_ABOUT = {
    "publisher": "Publisher",
    "contact": "Questions to",
    "licence": "Licence",
    "citation": "How to cite",
    "as_of": "The rows describe the day",
    "region": "Region",
    "use": "Meant for",
}

_KINDS = {
    "synthetic": "It holds synthetic rows: none of them is the row of a person. Counts, shares and "
    "averages over many of them are near those of the true rows; a single row says nothing.",
    "centres": "It holds centres of clusters: each stands for many rows, and is nobody's place.",
    "classes": "It holds groups of persons with a noisy number of rows each.",
    "released": "It holds coarsened rows of persons: every row is like several others.",
}


def readme_text(release: ReportedRelease, files: Mapping[str, str]) -> str:
    """Return the text of ``README.txt``.

    files   path in the folder → what it holds, in a few words
    """
    return "\n".join(_paragraphs(release, files)).rstrip() + "\n"


def described_publisher(spec: DatasetSpec) -> dict[str, Any]:
    """Return the ``licenses`` and ``contributors`` of a Data Package that the file declares.

    Each is left out where the file declares no licence or no publisher; {} for neither.
    """
    about = spec.about
    stated: dict[str, Any] = {}
    if about.licence:
        stated["licenses"] = [{"name": about.licence.replace(" ", "-"), "title": about.licence}]
    if about.publisher:
        contact = {"email": about.contact} if about.contact and "@" in about.contact else {}
        stated["contributors"] = [{"title": about.publisher, "roles": ["publisher"], **contact}]
    return stated


def _paragraphs(release: ReportedRelease, files: Mapping[str, str]) -> Iterator[str]:
    spec, bundle = release.spec, release.bundle
    yield f"{spec.title}\n{'=' * len(spec.title)}\n"
    yield _wrapped(spec.description)
    kind = next((words for name, words in _KINDS.items() if name in bundle.tables), "")
    yield _wrapped(
        f"{kind} {release.standing}: card.html says what that means, and how good it is."
    )
    about = ((title, getattr(spec.about, name)) for name, title in _ABOUT.items())
    if stated := "\n".join(f"{title}: {value}" for title, value in about if value is not None):
        yield stated + "\n"
    yield "Files\n-----\n"
    width = max(map(len, files))
    yield "\n".join(f"{path:<{width}}  {words}" for path, words in files.items()) + "\n"
    if any(path.endswith(".csv") for path in files):
        yield _wrapped(
            "CSV files open in a spreadsheet by a double click. Codes that look like numbers, such "
            "as 01234, lose their zeros there: import them as text."
        )
    clocks = [each.clock for each in spec.domain if each.clock is not None]
    if zones := sorted({clock.zone for clock in clocks if clock.kind == "timestamp"}):
        yield _wrapped(f"Times are local ones, read off a clock in {' or '.join(zones)}.")
    if bundle.is_dp:
        yield _wrapped(
            "Counts are noisy on purpose, so some are below zero and sums of parts differ from "
            "wholes. That noise is what protects the persons; it cannot be taken out."
        )
    yield _wrapped(
        "To check that the folder is as it was published: `dp-pipeline verify FOLDER`, or "
        "`sha256sum --check SHA256SUMS` for its files alone."
    )


def _wrapped(text: str) -> str:
    return textwrap.fill(text, _WIDTH) + "\n"
