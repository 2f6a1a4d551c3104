"""The table of mistakes in data set files, `mistakes.txt`, each with its refusal.

A case is a few fields that replace those of a good file, or are added to it; ``-name`` leaves a
field out, ``+name: value`` writes one more of that name at the end, and ``field.name: value`` one
more line into a field. The last line is the
refusal: ``>``, the line of the case that it names (``-``: a line of another field), its words. A
line ``=== NAME`` chooses the good file of the cases behind it.

    python -m dp_pipeline_tests.config.mistakes      writes the refusals anew, to be read
"""

import re
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from dp_pipeline.cli.declaration_check import require_buildable
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.parser import load_spec
from dp_pipeline.config.yaml_text import Document
from dp_pipeline_tests.config.declarations import FIELDS

TABLE = Path(__file__).with_name("mistakes.txt")

GOOD: dict[str, dict[str, str]] = {
    "toy": FIELDS,
    "k-anonymous": FIELDS
    | {
        "protection": "protection: {unit: one_row}",
        "label": "label: colour",
        "purpose": "purpose: benchmark",
        "k_anonymity": "k_anonymity:\n  methods: {kjig: }",
    },
    "windows": FIELDS
    | {
        "windows": (
            "windows: {column: ended, every: week, zone: Europe/Zurich, first: 2026-W01, "
            "grace: 36 hours}"
        ),
        "protection": (
            "protection: {unit: rows_of_person, column: person, at_most: 3, within: window}"
        ),
        "publish": (
            "publish:\n  - {model: dpqt_kmeans, epsilon: 0.5}\n  - {model: independent, epsilon: 1}"
        ),
        "ceiling": "ceiling: {each_window: 2}",
    },
    "units": FIELDS
    | {
        "protection": "protection: {unit: group, key: household}",
        "attributes": "attributes:\n  region: {levels: [north, south]}",
        "parts": (
            "parts:\n  persons:\n    at_most: 3\n    attributes:\n"
            "      age: {bounds: [0, 100], bins: 4}\n      sex: {levels: [f, m]}"
        ),
        "models": "models: {one_shot: }",
        "publish": "publish: {model: one_shot, epsilon: 1}",
    },
    "constraints": FIELDS
    | {
        "attributes": (
            "attributes:\n"
            "  age: {bounds: [0, 80], bins: 8, integer: true}\n"
            "  height: {bounds: [0, 2], bins: 4}\n"
            "  state: {levels: [single, married, widowed], nullable: true}\n"
            "  town: {levels: [Graz, Linz, Wels, other], other: other, aliases: {G: Graz}}\n"
            "  land: {levels: [Styria, Upper]}\n"
            "  born: {type: date, bounds: [2026-01-01, 2026-03-31], every: month}\n"
            "  free: {bounds: [0, 1]}"
        )
    },
}
"""Name → field → its lines, of files that the parser accepts."""


@dataclass(frozen=True)
class Case:
    """A mistake: the good file, the lines that differ, and the refusal."""

    good: str
    lines: tuple[str, ...]
    refusal: str

    @property
    def blocks(self) -> list[list[str]]:
        blocks: list[list[str]] = []
        for line in self.lines:
            if line[0].isspace() and blocks:
                blocks[-1].append(line)
            else:
                blocks.append([line])
        return blocks

    def refused(self, folder: Path) -> str:
        """Return the refusal of parser or models; an empty text where they accept the file."""
        fields = {name: text.splitlines() for name, text in GOOD[self.good].items()}
        for first, *others in self.blocks:
            if first.startswith("-"):
                del fields[first[1:]]
            elif re.match(r"\w+\.", first):
                name, _, value = first.partition(".")
                fields[name] += [f"  {value}", *others]
            else:
                name = first if first.startswith("+") else first.partition(":")[0]
                fields[name] = [first.removeprefix("+"), *others]
        text = [line for lines in fields.values() for line in lines]
        path = folder / "toy.yaml"
        path.write_text("\n".join(text) + "\n", encoding="utf-8")
        try:
            require_buildable(load_spec(path), Document.read(path))
        except DeclarationError as error:
            match = re.fullmatch(rf"{re.escape(str(path))}:(\d+): (.*)", str(error))
            assert match, error
            written = [re.sub(r"^\w+\.", "  ", line.removeprefix("+")) for line in self.lines]
            line = text[int(match[1]) - 1]
            place = written.index(line) + 1 if line in written else "-"
            return f"> {place} {match[2].replace(str(folder), 'FOLDER')}"
        return ""


def cases() -> list[Case]:
    cases_, good, lines = [], "toy", list[str]()
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if line.startswith("=== "):
            good = line.removeprefix("=== ")
        elif line.startswith(">"):
            cases_.append(Case(good, tuple(lines), line))
            lines = []
        elif line:
            lines.append(line)
    return cases_


def table_text(table: list[Case]) -> str:
    text, good = "", ""
    for case in table:
        if case.good != good:
            good = case.good
            text += f"=== {good}\n"
        text += "".join(f"{line}\n" for line in (*case.lines, case.refusal))
    return text


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        anew = [replace(case, refusal=case.refused(Path(temporary))) for case in cases()]
    TABLE.write_text(table_text(anew), encoding="utf-8")
