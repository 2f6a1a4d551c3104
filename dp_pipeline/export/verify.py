"""Checks of an export by its own files, without home, ledger or rows.

The result of a check is one line, and a failed one does not stop the others. A failed check that
depends on another failed one is left out, so that one cause is one line. Somebody who changes all
files and digests can make an export that passes: therefore the publisher states the digest of the
export in another place.
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
from dp_pipeline.config.errors import BoundaryViolation, BudgetExceeded, Damaged, PipelineError
from dp_pipeline.config.formats import require_format
from dp_pipeline.config.system_errors import system_line
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
from dp_pipeline.export.intervals import added_columns
from dp_pipeline.export.tables import CENTRES, geojson, read_resource
from dp_pipeline.reporting.figures.cluster_view import SIZE
from dp_pipeline.reporting.rendering import has_same_words
from dp_pipeline.results.accountant import Accountant
from dp_pipeline.results.bundle import EARLIER_EVALUATION, REFINED_FROM, Bundle, table_digest
from dp_pipeline.results.clusters import LEFT_OUT, Columns, row_count
from dp_pipeline.results.measurement import variance

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
"""Form of an amount: 1e999999999 in a foreign folder would be computed for hours."""

_NAME = slice(66, None)
"""Place of the file's name in a line of ``SHA256SUMS``, after 64 digits and two blanks."""

_PLACES = ".geojson"


class Check(NamedTuple):
    """The result of checking one property of an export.

    of       the checked file or property
    is_good  whether it is as the other files of the export imply
    result   what agrees; for a failed check, what was expected and what was got
    """

    of: str
    is_good: bool
    result: str

    @property
    def line(self) -> str:
        return f"{'ok ' if self.is_good else 'BAD'}  {self.of}: {self.result}"


_Inspection = tuple[str, Callable[[], str], tuple[str, ...]]
"""Name of a check, its function, and the names of all checks that it depends on."""


def verify_export(folder: Path) -> list[Check]:
    """Return the results of checking an export; failures that follow from others are left out."""
    failed, checks = set[str](), list[Check]()
    for of, inspect, causes in _inspections(_Export(folder), failed):
        check = _checked(of, inspect)
        if not check.is_good:
            if not failed.isdisjoint(causes):
                continue
            failed.add(of)
        checks.append(check)
    return checks


def _inspections(export: _Export, failed: Collection[str]) -> Iterator[_Inspection]:
    """Yield (name, check, names of the checks that it depends on), causes first.

    failed   names of the checks that failed so far
    """
    for path in sorted(export.paths, key=lambda path: path != DESCRIPTOR):
        yield path, partial(export.check_file, path), (DESCRIPTOR,)
    yield SUMS, partial(export.check_sums, failed), ()
    causes = export.release_paths
    # The centres are compared with the other tables.
    for name in sorted(export.table_names, key=lambda name: name == CENTRES):
        yield f"values of {name}", partial(export.check_table, name), causes
        causes += (f"values of {name}",)
    if export.has_places:
        yield "places", export.check_places, (*causes, *export.paths)
    charges = "release", "scales", "sum of the charges"
    for name, inspect in zip(
        charges, (export.check_release, export.check_scales, export.check_total), strict=True
    ):
        yield name, inspect, causes
        causes += (name,)
    figures = f"figures of {CARD}.md"
    yield f"figures of {CARD}.json", export.check_card, (*causes, f"{CARD}.json")
    yield figures, export.check_sentences, (*causes, f"{CARD}.md")
    yield f"words of {CARD}.html", export.check_page, (figures, f"{CARD}.md", f"{CARD}.html")


FETCH = ": fetch the export again"
_UNREADABLE = (ValueError, TypeError, AttributeError, LookupError, ArithmeticError)


def _checked(of: str, inspect: Callable[[], str]) -> Check:
    try:
        return Check(of, True, inspect())
    except PipelineError as error:
        # The remedy of a violation is for the author of the code.
        text = " ".join(
            str(error).removeprefix(f"{of}: ").partition(" (correct the code")[0].split()
        )
        is_damage = isinstance(error, Damaged | BoundaryViolation | BudgetExceeded)
        return Check(of, False, text + FETCH if is_damage and not text.endswith("again") else text)
    except FileNotFoundError as error:
        return Check(of, False, f"{Path(str(error.filename)).name} is missing{FETCH}")
    except OSError as error:
        return Check(of, False, system_line(error))
    except (*_UNREADABLE, RecursionError):
        return Check(of, False, f"its file is not as it was exported{FETCH}")


class _Export:
    """An exported folder, whose checks return a line about what agrees, and raise for a fault.

    A file that is not as it was written may raise ``_UNREADABLE`` or OSError.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._sheets: dict[str, Columns] = {}

    @property
    def paths(self) -> list[str]:
        """The sorted paths of all files that are present or described, but ``SHA256SUMS``."""
        return sorted((set(self._present) | {DESCRIPTOR, *self._described}) - {SUMS})

    @property
    def table_names(self) -> list[str]:
        resources = self._described.values()
        return [str(file["name"]) for file in resources if file.get("type") == "table"]

    @property
    def release_paths(self) -> tuple[str, ...]:
        """The paths that the release is read from, with ``SHA256SUMS`` if there is a link."""
        cards = tuple(f"{CARD}.{ending}" for ending in ("html", "json", "md"))
        paths = [path for path in self.paths if path not in cards and Path(path).suffix != _PLACES]
        return (*paths, *(() if self._present else (SUMS,)))

    @property
    def has_places(self) -> bool:
        return any(path.endswith(_PLACES) for path in self._described)

    def check_sums(self, failed: Collection[str]) -> str:
        """Return a summary of ``SHA256SUMS``; Damaged unless it lists exactly the present files.

        failed   files that failed a check of their own, which are not reported again
        """
        listed, present = self._lines
        for name in [name for name in self._changed if name not in failed][:1]:
            if not any(line[_NAME].strip() == name for line in listed):
                raise Damaged(f"the list lacks the file {name[:80]}, which is present")
            if not any(line[_NAME].strip() == name for line in present):
                raise Damaged(f"the list names the file {name[:80]}, which is not present")
            raise Damaged(f"the file {name[:80]} does not have the digest that is listed for it")
        if listed != present and not self._changed:
            raise Damaged("the list must have one line a file, sorted by name, but has others")
        return f"{len(present)} files and no other, each with its digest"

    def check_file(self, path: str) -> str:
        """Return a summary of a file; Damaged if its size or digest is not as described.

        The digest of ``datapackage.json`` is compared with ``SHA256SUMS``.
        """
        if path == DESCRIPTOR:
            require_format(self._descriptor[OWN].get("format"), of=DESCRIPTOR)
            resources = len(self._resources)
            if DESCRIPTOR in self._changed:
                raise Damaged(f"the file does not have the digest that {SUMS} lists")
            return f"describes {resources} files"
        described = self._described.get(path)
        if described is None:
            raise Damaged(f"the file is not described in {DESCRIPTOR}")
        if not (self.folder / path).is_file():
            raise Damaged("the file is missing")
        size, digest = (self.folder / path).stat().st_size, file_digest(self.folder / path)
        if described["bytes"] != size:
            raise Damaged(f"the file has {size:,} bytes, not the number that {DESCRIPTOR} states")
        if described["hash"] != f"sha256:{digest}":
            raise Damaged(f"the file does not have the digest that {DESCRIPTOR} states")
        tables = f", of {len(self._stored['tables'])} tables" if path == RELEASE else ""
        return f"{size:,} bytes, as described{tables}"

    def check_table(self, name: str) -> str:
        """Return a summary of a table; Damaged unless it has the released values.

        Damaged too for added columns that do not follow from these.
        """
        table = self._released_table(name)
        if table_digest(table) != self._stored["tables"][name]:
            raise Damaged("the table does not have the values that were released")
        computed, added = added_columns(name, self._tables), self._added(name)
        if added != list(computed):
            raise Damaged(
                f"the added columns must be {', '.join(computed) or 'none'}, not "
                f"{', '.join(added)[:80] or 'none'}"
            )
        for column, values in computed.items():
            if not np.allclose(self._sheet(name)[column], values):
                raise Damaged(f"the added column {column} does not follow from released values")
        return f"{row_count(table):,} lines, every value as it was released"

    def check_places(self) -> str:
        x, y = self._descriptor[OWN]["place"]
        names = [name for name in self.table_names if f"{name}.geojson" in self._described]
        for name in names:
            path = self.folder / f"{name}.geojson"
            if path.read_bytes() != geojson(name, self._sheet(name), (x, y)):
                raise Damaged(f"{path.name} does not have the places of its table")
        return f"{', '.join(names)}: the same in GeoJSON as in the tables"

    def check_release(self) -> str:
        if f"{self._bundle.to_json()}\n".encode() != (self.folder / RELEASE).read_bytes():
            raise Damaged("the file is not a release as this program writes it")
        return f"{self._bundle.key[:12]}, with all of its tables"

    def check_scales(self) -> str:
        """Return a summary of the charges; PipelineError if a noise scale costs another amount."""
        bundle = self._bundle
        for spend in bundle.spends:
            budget = bundle.model_currency if spend.currency != PURE.name else PURE
            Accountant(spend.epsilon, budget, delta=spend.delta).charge(spend)
        for spend in bundle.free_spends:
            spends = bundle.spends[: bundle.model_spend_count]
            paid = sum((other.epsilon for other in spends), Fraction(0))
            Accountant(paid).record_free_spend(spend)
        # The noise of the number of rows left out is what was charged for it.
        stated = bundle.tables.get(LEFT_OUT, {}).get("deviation", np.array([]))
        charged = [variance(spend.scale) ** 0.5 for spend in bundle.free_spends]
        if len(charged) > 1 or len(stated) != len(charged):
            raise Damaged(
                "the number of rows left out must be stated once and charged once, or neither, but "
                f"it is stated {len(stated)} times and charged {len(charged)} times"
            )
        if not np.allclose(stated, charged):
            raise Damaged(
                "the number of rows left out does not have the noise that is charged for it"
            )
        return f"{len(bundle.spends)}, each with a scale that costs what was charged for it"

    def check_total(self) -> str:
        """Return the sum of the charges as text; PipelineError unless the release states it.

        For a release that is not differentially private, return its caveat and check nothing.
        """
        bundle = self._bundle
        if not bundle.is_dp:
            return f"no ε is stated, and none is promised: {bundle.caveat}"
        last, promised = bundle.model_spend_count, bundle.facts["epsilon"]
        if bundle.model_currency == PURE:
            promised = bundle.facts.get("composed", promised)
        stated = Fraction(promised)
        amount = bundle.model_currency.amount_of(stated)
        if REFINED_FROM in bundle.facts:
            amount -= bundle.model_currency.amount_of(Fraction(bundle.facts[REFINED_FROM]))
        budgets = [(bundle.spends[:last], amount, bundle.model_currency, bundle.own_delta)]
        if bundle.facts["evaluation"] != "none" and EARLIER_EVALUATION not in bundle.facts:
            evaluation = Fraction(bundle.facts["evaluation"])
            budgets.append((bundle.spends[last:], evaluation, PURE, Fraction(0)))
        for spends, total, currency, delta in budgets:
            accountant = Accountant(total, currency, delta=delta)
            if (charged := sum(map(accountant.cost, spends), Fraction(0))) > total:
                raise Damaged(
                    f"the charges sum to {currency.text(charged)}, which is more than the stated "
                    f"{currency.text(total)}"
                )
            accountant.charge(*spends)
            accountant.require_all_spent()
        return f"{bundle.spent_text}, exactly what is stated"

    def check_card(self) -> str:
        """Return a summary of ``card.json``; Damaged unless it has the release's guarantee.

        Damaged too for another standing in ``datapackage.json``, and UnknownFormat for another
        format.
        """
        card = json.loads((self.folder / f"{CARD}.json").read_text(encoding="utf-8"))
        require_format(card.get("format"), of=f"{CARD}.json")
        stated, computed = card["guarantee"], json.loads(json.dumps(guarantee(self._bundle)))
        for name in (*computed, *stated):
            if computed.get(name) != stated.get(name):
                raise Damaged(f"the entry {name[:40]} differs from that of the release")
        if self._descriptor[OWN].get("standing") != computed["standing"]:
            raise Damaged(f"the standing in {DESCRIPTOR} differs from that of the release")
        return f"{computed['standing']}, ε = {computed['epsilon']}, as in the release"

    def check_sentences(self) -> str:
        card = self._text(f"{CARD}.md")
        for line in lines_on_card(self._bundle):
            if line not in card:
                raise Damaged(f"the card lacks the line {line[:80]!r}")
        return "standing, amounts and mechanisms as in the release"

    def check_page(self) -> str:
        if not has_same_words(self._text(f"{CARD}.html"), self._text(f"{CARD}.md")):
            raise Damaged(f"the page does not have the words of {CARD}.md")
        return f"the words of {CARD}.md"

    @cached_property
    def _lines(self) -> tuple[list[str], list[str]]:
        """(lines of ``SHA256SUMS``, lines that it should have for the present files)."""
        listed = (self.folder / SUMS).read_bytes().decode("ascii")
        return listed.splitlines(keepends=True), sums_text(self.folder).splitlines(keepends=True)

    @cached_property
    def _changed(self) -> list[str]:
        """The paths whose line in ``SHA256SUMS`` is wrong, absent or too many; [] if unreadable."""
        try:
            listed, present = self._lines
        except (PipelineError, *_UNREADABLE, OSError):
            return []
        changed = [line for line in present if line not in listed]
        changed += [line for line in listed if line not in present]
        return list(dict.fromkeys(line[_NAME].strip() for line in changed))

    def _text(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")

    @cached_property
    def _descriptor(self) -> dict[str, Any]:
        return read_descriptor(self.folder)

    @cached_property
    def _resources(self) -> dict[str, dict[str, Any]]:
        resources = self._descriptor["resources"]
        return {str(resource["path"]): dict(resource) for resource in resources}

    @property
    def _described(self) -> dict[str, dict[str, Any]]:
        """Path → description of a file in ``datapackage.json``; {} if that is unreadable."""
        try:
            return self._resources
        except (PipelineError, *_UNREADABLE):
            return {}

    @property
    def _present(self) -> list[str]:
        """The paths of the present files; [] if one is a link, which ``check_sums`` reports."""
        try:
            return files_of(self.folder)
        except Damaged:
            return []

    @cached_property
    def _stored(self) -> dict[str, Any]:
        stored: dict[str, Any] = json.loads(self._text(RELEASE))
        spends = (*stored["spends"], *stored["free_spends"])
        amounts = [(name, spend[name]) for spend in spends for name in _EXACT if name in spend]
        facts = stored["facts"]
        amounts += [(name, facts[name]) for name in _AMOUNTS if name in facts]
        for name, amount in amounts:
            if not _AMOUNT.fullmatch(amount):
                raise Damaged(f"each {name} must be a fraction such as 1/2, but one is no fraction")
        return stored

    def _sheet(self, name: str) -> Columns:
        if name not in self._sheets:
            resources = [file for file in self._resources.values() if file["name"] == name]
            if len(resources) != 1:
                raise Damaged(
                    f"the table {name[:40]} must be in exactly one file, but {DESCRIPTOR} names "
                    f"{len(resources)}"
                )
            # A path that leads out of the folder is none of its files.
            if resources[0]["path"] not in self._present:
                raise Damaged(f"the file of the table {name[:40]} is not in the folder")
            self._sheets[name] = read_resource(self.folder, resources[0])
        return self._sheets[name]

    @cached_property
    def _tables(self) -> dict[str, Columns]:
        """Name → released table, with the sizes of centres as a separate table."""
        tables = {name: self._released_table(name) for name in self.table_names}
        if CENTRES in tables and SIZES in self._stored["tables"]:
            tables[SIZES] = {"size": self._sheet(CENTRES)[SIZE]}
        return tables

    def _released_table(self, name: str) -> Columns:
        sheet, added = self._sheet(name), self._added(name)
        # Each access to a column of many rows reads it.
        return {key: sheet[key] for key in sheet if key not in added} if added else sheet

    def _added(self, name: str) -> list[str]:
        resource = next(file for file in self._resources.values() if file["name"] == name)
        return [str(column) for column in resource.get(OWN, {}).get("added", [])]

    @cached_property
    def _bundle(self) -> Bundle:
        return Bundle.from_json(json.dumps(self._stored), self._tables)
