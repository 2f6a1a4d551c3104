"""Downloads of a data set file: where from, of what size, known by which hash."""

from __future__ import annotations

import re
from dataclasses import replace

from dp_pipeline.schema.fields import Fields
from dp_pipeline.schema.source import Source
from dp_pipeline.schema.url import EXPECTED_URL, is_allowed_url, shown_url, url_names

_SHA256 = re.compile(r"[0-9a-f]{64}")


def parse_urls(section: Fields, form: Source, *, is_release: bool) -> Source:
    """The source of a section with ``url`` and ``sha256``, or with lists of both.

    form         what its files are like
    is_release   whether rows are sensitive: then the hash is required, because whoever answers
                 for a URL must not choose whose rows are released
    """
    several = form.kind == "csv" and "urls" in section
    field = "urls" if several else "url"
    urls = section.texts("urls") if several else (section.text("url"),)
    for url in urls:
        if not is_allowed_url(url):
            section.refuse(field, EXPECTED_URL, "another text")
    if not urls:
        section.refuse(field, "one or more URLs", "none")
    _require_different(section, field, urls)
    hashes = _hashes(section, len(urls), several=several, is_release=is_release)
    return replace(
        form,
        location=urls[0],
        more=urls[1:],
        needs=None,
        sha256=dict(zip(urls, hashes, strict=True)) if hashes else {},
        at_most_mb=section.integer("at_most_mb", at_least=1),
    )


def _require_different(section: Fields, field: str, urls: tuple[str, ...]) -> None:
    """No file twice: its rows would count twice."""
    known: set[str] = set()
    for url in urls:
        names = url_names(url)
        if not known.isdisjoint(names):
            section.refuse(
                field,
                "URLs that differ in more than a query, capital letters or slashes",
                f"{shown_url(url)} for a second time",
            )
        known.update(names)


def _hashes(section: Fields, count: int, *, several: bool, is_release: bool) -> tuple[str, ...]:
    """One a URL, or none at all."""
    if "sha256" not in section:
        if is_release:
            section.refuse("sha256", "the hash of sensitive data that is downloaded", "nothing")
        return ()
    hashes = section.texts("sha256") if several else (section.text("sha256"),)
    if len(hashes) != count or not all(map(_SHA256.fullmatch, hashes)):
        section.refuse("sha256", f"64 hexadecimal digits (0-9, a-f), {count} times", "another text")
    return hashes
