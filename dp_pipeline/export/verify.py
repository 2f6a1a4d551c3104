"""Checking an export from its own files: no home, no ledger, no row.

A check says what it looked at in one line, and never stops the others. One that fails beside a
check that it rests on is left out: one cause is one line. Who changes every file and every digest
alike can write a whole that agrees with itself: against that, the publisher says the digest of the
export at another place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator
from fractions import Fraction
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dp_pipeline.config.amounts import PURE
from dp_pipeline.config.errors import Damaged, PipelineError
from dp_pipeline.config.formats import require_format
from dp_pipeline.export.contents import CARD, SIZES, guarantee, lines_on_card
from dp_pipeline.export.folder import (
    DESCRIPTOR,
    OWN,
    RELEASE,
    SUMS,
    file_digest,
    files_of,
    read_descriptor,
    sums_text,
)
from dp_pipeline.export.tables import CENTRES, geojson, read_table
from dp_pipeline.reporting.figures.cluster_view import SIZE, cluster_sizes
from dp_pipeline.reporting.rendering import has_same_words
from dp_pipeline.results.accountant import Accountant
from dp_pipeline.results.bundle import EARLIER_EVALUATION, REFINED_FROM, Bundle, table_digest
from dp_pipeline.results.clusters import Columns

_EXACT = ("epsilon", "scale", "delta")
_AMOUNTS = (
    "epsilon",
    "composed",
    "evaluation",
    "delta",
    "own_delta",
    EARLIER_EVALUATION,
    REFINED_FROM,
)
_AMOUNT = re.compile(r"none|[0-9./]{1,5000}(e-[0-9]{1,2})?", re.ASCII)
"""Whoever wrote the folder may be a stranger: 1e999999999 would be computed for hours."""


_PLACES = ".geojson"


class Check(NamedTuple):
    """One check.

    of      file, or what was looked at
    found   what agrees, or what was expected and what was got
    """

    of: str
    is_good: bool
    found: str

    @property
    def line(self) -> str:
        """For a person."""
        return f"{'ok ' if self.is_good else 'BAD'}  {self.of}: {self.found}"


_Look = tuple[str, Callable[[], str], tuple[str, ...]]
"""What is looked at, how, and all checks that it rests on, be it through others."""


def verified(folder: Path) -> list[Check]:
    """Return every check of an export, in the order of what rests on what, without those that fail
    because another one does.
    """
    failed, checks = set[str](), list[Check]()
    for of, find, causes in _looks(_Export(folder), failed):
        check = _checked(of, find)
        if not check.is_good:
            if not failed.isdisjoint(causes):
                continue
            failed.add(of)
        checks.append(check)
    return checks


def _looks(export: _Export, failed: Collection[str]) -> Iterator[_Look]:
    """Yield every look; ``failed`` are the names of those that have found something wrong."""
    for path in sorted(export.paths, key=lambda path: path != DESCRIPTOR):
        yield path, partial(export.file, path), (DESCRIPTOR,)
    yield SUMS, partial(export.sums, failed), ()
    causes = export.read_files
    # The centres are compared with the other tables.
    for name in sorted(export.names, key=lambda name: name == CENTRES):
        yield f"values of {name}", partial(export.table, name), causes
        causes += (f"values of {name}",)
    if export.has_places:
        yield "places", export.places, (*causes, *export.paths)
    charges = "release", "scales", "sum of the charges"
    for name, find in zip(charges, (export.release, export.scales, export.total), strict=True):
        yield name, find, causes
        causes += (name,)
    figures = f"figures of {CARD}.md"
    yield f"figures of {CARD}.json", export.card, (*causes, f"{CARD}.json")
    yield figures, export.sentences, (*causes, f"{CARD}.md")
    yield f"words of {CARD}.html", export.page, (figures, f"{CARD}.md", f"{CARD}.html")


_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, LookupError, ArithmeticError)


def _checked(of: str, look: Callable[[], str]) -> Check:
    """What a look finds; whatever it cannot read is not as it was exported."""
    try:
        return Check(of, True, look())
    except PipelineError as error:
        return Check(of, False, " ".join(str(error).removeprefix(f"{of}: ").split()))
    except (*_UNREADABLE, OSError, RecursionError):
        return Check(of, False, "expected it as it was exported, got what cannot be read")


class _Export:
    """One folder, each of its parts read once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._sheets: dict[str, Columns] = {}

    @property
    def paths(self) -> list[str]:
        """Files that are there or that ought to be."""
        return sorted((set(self._there) | {DESCRIPTOR, *self._described}) - {SUMS})

    @property
    def names(self) -> list[str]:
        """Tables that are described."""
        return [str(one["name"]) for one in self._described.values() if one.get("type") == "table"]

    @property
    def read_files(self) -> tuple[str, ...]:
        """The files that a release is read from; with a link among them none is, which the list of
        digests says.
        """
        beside = tuple(f"{CARD}.{ending}" for ending in ("html", "json", "md"))
        read = [path for path in self.paths if path not in beside and Path(path).suffix != _PLACES]
        return (*read, *(() if self._there else (SUMS,)))

    @property
    def has_places(self) -> bool:
        """Whether places are described in GeoJSON."""
        return any(path.endswith(_PLACES) for path in self._described)

    def sums(self, failed: Collection[str]) -> str:
        """The list of digests, byte for byte as the files of now make it.

        failed   files that are wrong by themselves: what is listed of them is no news
        """
        listed, found = self._listed
        others = [name for name in self._changed if name not in failed]
        if others and others[0] in self.paths:
            raise Damaged(f"expected the digest of {others[0][:80]}, got another")
        if others or (listed != found and not self._changed):
            raise Damaged("expected the files that are there and no other, got others")
        return f"{len(found)} files and no other, each with its digest"

    def file(self, path: str) -> str:
        """Size and digest of one file, as described."""
        if path == DESCRIPTOR:
            require_format(self._descriptor[OWN].get("format"), of=DESCRIPTOR)
            resources = len(self._resources)
            if DESCRIPTOR in self._changed:
                raise Damaged(f"expected the digest that {SUMS} has of it, got another")
            return f"describes {resources} files"
        described = self._described.get(path)
        if described is None:
            raise Damaged("expected no file that is not described, got one")
        if not (self.folder / path).is_file():
            raise Damaged("expected a file, got none")
        size, digest = (self.folder / path).stat().st_size, file_digest(self.folder / path)
        if (described["bytes"], described["hash"]) != (size, f"sha256:{digest}"):
            raise Damaged("expected the size and the digest that are described, got others")
        of = f", of {len(self._stored['tables'])} tables" if path == RELEASE else ""
        return f"{size:,} bytes, as described{of}"

    def table(self, name: str) -> str:
        """The values of one table, as they were released; what stands beside is computed again."""
        own = self._own(name)
        if table_digest(own) != self._stored["tables"][name]:
            raise Damaged("expected the values that were released, got others")
        if name == CENTRES and SIZE in self._sheet(CENTRES):
            found, again = self._sheet(CENTRES)[SIZE], cluster_sizes(self._tables)
            if again is None or not np.allclose(found, again):
                raise Damaged("expected the noisy rows of the released map, got others")
        lines = max((len(values) for values in own.values()), default=0)
        return f"{lines:,} lines, every value as it was released"

    def places(self) -> str:
        """The GeoJSON files, made again from the tables."""
        x, y = self._descriptor[OWN]["place"]
        drawn = [name for name in self.names if f"{name}.geojson" in self._described]
        for name in drawn:
            path = self.folder / f"{name}.geojson"
            if path.read_bytes() != geojson(name, self._sheet(name), (x, y)):
                raise Damaged(f"{path.name}: expected the places of its table, got others")
        return f"{', '.join(drawn)}: the same in GeoJSON as in the tables"

    def release(self) -> str:
        """The bundle and all of its tables, as they are stored."""
        if f"{self._bundle.to_json()}\n".encode() != (self.folder / RELEASE).read_bytes():
            raise Damaged("expected a release as this program writes it, got another")
        return f"{self._bundle.key[:12]}, with all of its tables"

    def scales(self) -> str:
        """That each scale proves what was charged for it: the accountant's rule, in an accountant
        that has room for all of them.
        """
        bundle = self._bundle
        for spend in bundle.spends:
            budget = bundle.budget if spend.currency != PURE.name else PURE
            Accountant(spend.epsilon, budget, delta=spend.delta).charge(spend)
        return f"{len(bundle.spends)}, each with a scale that costs what was charged for it"

    def total(self) -> str:
        """That the charges add up to what the release states, and to nothing less."""
        bundle = self._bundle
        if not bundle.is_dp:
            return f"no ε is stated, and none is promised: {bundle.caveat}"
        last, promised = bundle.model_spends, bundle.facts["epsilon"]
        if bundle.budget == PURE:
            promised = bundle.facts.get("composed", promised)
        stated = Fraction(promised)
        amount = bundle.budget.amount_of(stated)
        if REFINED_FROM in bundle.facts:
            amount -= bundle.budget.amount_of(Fraction(bundle.facts[REFINED_FROM]))
        budgets = [(bundle.spends[:last], amount, bundle.budget, bundle.own_delta)]
        if bundle.facts["evaluation"] != "none" and EARLIER_EVALUATION not in bundle.facts:
            evaluation = Fraction(bundle.facts["evaluation"])
            budgets.append((bundle.spends[last:], evaluation, PURE, Fraction(0)))
        for spends, most, currency, delta in budgets:
            accountant = Accountant(most, currency, delta=delta)
            accountant.charge(*spends)
            accountant.require_all_spent()
        return f"{bundle.spent_text}, exactly what is stated"

    def card(self) -> str:
        """The card's figures, computed again from the release."""
        card = json.loads((self.folder / f"{CARD}.json").read_text(encoding="utf-8"))
        require_format(card.get("format"), of=f"{CARD}.json")
        told, again = card["guarantee"], json.loads(json.dumps(guarantee(self._bundle)))
        other = next((name for name in (*again, *told) if again.get(name) != told.get(name)), None)
        if other is not None:
            raise Damaged(f"{other[:40]}: expected that of the release, got another")
        if self._descriptor[OWN].get("standing") != again["standing"]:
            raise Damaged(f"standing: expected that of the release in {DESCRIPTOR}, got another")
        return f"{again['standing']}, ε = {again['epsilon']}, as in the release"

    def sentences(self) -> str:
        """The card for people: what it has to say of this release stands in it."""
        card = self._text(f"{CARD}.md")
        unsaid = next((line for line in lines_on_card(self._bundle) if line not in card), None)
        if unsaid is not None:
            raise Damaged(f"expected {unsaid[:80]!r} on the card, got another")
        return "standing, amounts and mechanisms as in the release"

    def page(self) -> str:
        """The page of the card: the same words."""
        if not has_same_words(self._text(f"{CARD}.html"), self._text(f"{CARD}.md")):
            raise Damaged(f"expected the words of {CARD}.md, got others")
        return f"the words of {CARD}.md"

    @cached_property
    def _listed(self) -> tuple[list[str], list[str]]:
        """The lines of the list of digests, and those that the files of now make."""
        listed = (self.folder / SUMS).read_bytes().decode("ascii")
        return listed.splitlines(keepends=True), sums_text(self.folder).splitlines(keepends=True)

    @cached_property
    def _changed(self) -> list[str]:
        """The files whose lines are not the same in both; none where there is no list, which the
        check of the list says.
        """
        try:
            listed, found = self._listed
        except (PipelineError, *_UNREADABLE, OSError):
            return []
        odd = [line for line in found if line not in listed]
        odd += [line for line in listed if line not in found]
        return list(dict.fromkeys(line[66:].strip() for line in odd))

    def _text(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")

    @cached_property
    def _descriptor(self) -> dict[str, Any]:
        return read_descriptor(self.folder)

    @cached_property
    def _resources(self) -> dict[str, dict[str, Any]]:
        """Path → what is described of it."""
        return {str(one["path"]): dict(one) for one in self._descriptor["resources"]}

    @property
    def _described(self) -> dict[str, dict[str, Any]]:
        """The same; nothing where the description cannot be read, which a check of it says."""
        try:
            return self._resources
        except (PipelineError, *_UNREADABLE):
            return {}

    @property
    def _there(self) -> list[str]:
        """Files; none where one is a link, which the check of all digests says."""
        try:
            return files_of(self.folder)
        except Damaged:
            return []

    @cached_property
    def _stored(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._text(RELEASE))
        amounts = [spend[name] for spend in found["spends"] for name in _EXACT if name in spend]
        amounts += [found["facts"][name] for name in _AMOUNTS if name in found["facts"]]
        if not all(_AMOUNT.fullmatch(one) for one in amounts):
            raise Damaged("expected amounts as they are written, got another")
        return found

    def _sheet(self, name: str) -> Columns:
        """A table as it is written; Damaged where none of the files is it."""
        if name not in self._sheets:
            found = [one for one in self._resources.values() if one["name"] == name]
            # A path that leads out of the folder is none of its files.
            if len(found) != 1 or found[0]["path"] not in self._there:
                raise Damaged(f"{name[:40]}: expected one file of this table, got none")
            schema = found[0]["schema"]
            # Dates in a format of their own are texts in the release.
            types = {
                field["name"]: "string" if "format" in field else str(field["type"])
                for field in schema["fields"]
            }
            path = self.folder / found[0]["path"]
            self._sheets[name] = read_table(path, types, missing=bool(schema["missingValues"]))
        return self._sheets[name]

    @cached_property
    def _tables(self) -> dict[str, Columns]:
        """The tables of the release: the sizes of its centres apart from them again."""
        tables = {name: self._own(name) for name in self.names}
        if CENTRES in tables and SIZES in self._stored["tables"]:
            tables[SIZES] = {"size": self._sheet(CENTRES)[SIZE]}
        return tables

    def _own(self, name: str) -> Columns:
        """A table without the column that stands beside the centres."""
        sheet = self._sheet(name)
        # Each look at a column of many rows reads it.
        return sheet if SIZE not in sheet else {one: sheet[one] for one in sheet if one != SIZE}

    @cached_property
    def _bundle(self) -> Bundle:
        return Bundle.from_json(json.dumps(self._stored), self._tables)
