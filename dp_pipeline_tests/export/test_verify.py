"""An export is checked from its own files: whatever was changed in it is found."""

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dp_pipeline.config.errors import Damaged
from dp_pipeline.export.folder import DESCRIPTOR, SUMS, file_digest, files_of, sums_text
from dp_pipeline.export.opening import open_release
from dp_pipeline.export.verify import verify_export
from dp_pipeline.reporting.releases import ReportedPrivateRelease
from dp_pipeline.results.accountant import LAPLACE, Spend
from dp_pipeline.results.measurement import variance
from dp_pipeline_tests.export.samples import (
    bad,
    exported,
    gaussian_release,
    map_release,
    table_release,
)
from dp_pipeline_tests.reporting.samples import k_anonymous

RELEASES: dict[str, Callable[[], ReportedPrivateRelease]] = {
    "table": table_release,
    "map": map_release,
    "map with sizes": lambda: map_release(sizes={"size": np.array([4.0, -1.5])}),
    "in ρ": gaussian_release,
    "refined": lambda: table_release(epsilon="0.5", refined_from="0.25", refines="ab" * 32),
}


@pytest.mark.parametrize("name", RELEASES)
@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow"])
def test_what_was_exported_verifies(name: str, ending: str, tmp_path: Path) -> None:
    checks = verify_export(exported(tmp_path / "out", RELEASES[name](), ending))
    assert bad(checks) == []
    assert len(checks) > 12


def test_a_k_anonymous_export_verifies_and_promises_no_epsilon(tmp_path: Path) -> None:
    folder = exported(tmp_path / "out", k_anonymous(purpose="benchmark", reason="it reads rows"))
    checks = verify_export(folder)
    assert bad(checks) == []
    (total,) = [check.result for check in checks if check.of == "sum of the charges"]
    assert total.startswith("no ε is stated")


def test_a_refinement_from_another_start_fails(tmp_path: Path) -> None:
    release = table_release(epsilon="0.5", refined_from="0.125", refines="ab" * 32)
    (wrong,) = bad(verify_export(exported(tmp_path / "out", release)))
    assert "sum of the charges" in wrong


def names(release: Callable[[], ReportedPrivateRelease], ending: str, folder: Path) -> list[str]:
    return files_of(exported(folder, release(), ending))


@pytest.mark.parametrize("place", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(("name", "ending"), [("table", "parquet"), ("map", "csv")])
def test_a_changed_byte_in_any_file_fails(
    name: str, ending: str, place: float, tmp_path: Path
) -> None:
    for index, file in enumerate(names(RELEASES[name], ending, tmp_path / "first")):
        folder = exported(tmp_path / str(index), RELEASES[name](), ending)
        content = bytearray((folder / file).read_bytes())
        content[round(place * (len(content) - 1))] ^= 1
        (folder / file).write_bytes(content)
        (actual,) = bad(verify_export(folder))
        assert actual.startswith(f"BAD  {file}") or f"digest of {file}" in actual or file == SUMS


@pytest.mark.parametrize("name", ["table", "map"])
def test_a_lost_file_fails_whichever_it_is(name: str, tmp_path: Path) -> None:
    for index, file in enumerate(names(RELEASES[name], "csv", tmp_path / "first")):
        folder = exported(tmp_path / str(index), RELEASES[name]())
        (folder / file).unlink()
        (actual,) = bad(verify_export(folder))
        assert actual.startswith(f"BAD  {file}"), file


def test_a_further_file_or_link_fails(tmp_path: Path) -> None:
    folder = exported(tmp_path / "out", map_release())
    (folder / "more.csv").write_text("x\n1\n", encoding="utf-8")
    (actual,) = bad(verify_export(folder))
    assert actual.startswith("BAD  more.csv: the file is not described in datapackage.json")
    (folder / "more.csv").unlink()
    (folder / "link.csv").symlink_to(folder / "centres.csv")
    (actual,) = bad(verify_export(folder))
    assert "link.csv must be a file" in actual


def forged(folder: Path, file: str, change: Callable[[str], str]) -> Path:
    """One file changed, and every digest of it made to agree again."""
    path = folder / file
    before = path.read_text(encoding="utf-8")
    after = change(before)
    assert after != before
    path.write_text(after, encoding="utf-8")
    described: dict[str, Any] = json.loads((folder / DESCRIPTOR).read_text(encoding="utf-8"))
    for resource in described["resources"]:
        if resource["path"] == file:
            resource["bytes"] = path.stat().st_size
            resource["hash"] = f"sha256:{file_digest(path)}"
    (folder / DESCRIPTOR).write_text(json.dumps(described), encoding="utf-8")
    (folder / SUMS).write_text(sums_text(folder), encoding="utf-8")
    return folder


FORGERIES: dict[str, tuple[str, str, str, str]] = {
    "a value of a table": ("synthetic.csv", "plain", "plane", "values of synthetic"),
    "a smaller ε on the card for programs": (
        "card.json", '"epsilon": "0.5"', '"epsilon": "0.1"', "figures of card.json",
    ),
    "a smaller ε on the card for people": (
        "card.md", "ε = 0.5 exactly", "ε = 0.1 exactly", "figures of card.md",
    ),
    "another standing on the card": (
        "card.md", "# DIFFERENTIALLY", "# VERY", "figures of card.md",
    ),
    "another sentence on the page": (
        "card.html", "missing or added", "never looked at", "words of card.html",
    ),
    "a smaller charge": ("release.json", '"epsilon": "1/4"', '"epsilon": "1/8"', "scales"),
    "less noise": ("release.json", '"scale": "4"', '"scale": "2"', "scales"),
    "a smaller stated ε": (
        "release.json", '"epsilon": "0.25"', '"epsilon": "0.2"', "sum of the charges",
    ),
    "an amount that would be computed for hours": (
        "release.json", '"epsilon": "1/4"', '"epsilon": "1e999999999"', "release.json",
    ),
    "an ε that would be computed for hours": (
        "release.json", '"epsilon": "0.25"', '"epsilon": "1e999999999"', "release.json",
    ),
    "another standing in the description": (
        DESCRIPTOR, '"standing": "DIFF', '"standing": "IND', "figures of card.json",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", FORGERIES)
def test_wrong_content_fails_though_every_digest_agrees(what: str, tmp_path: Path) -> None:
    file, old, new, of = FORGERIES[what]
    folder = exported(tmp_path / "out", table_release())
    if what == "a value of a table":
        forged(folder, file, lambda text: text.replace("01.", "02.", 1))
    else:
        forged(folder, file, lambda text: text.replace(old, new))
    (actual,) = bad(verify_export(folder))
    assert actual.startswith(f"BAD  {of}")


@pytest.mark.parametrize("part", ["name", "path", "schema", "all"])
def test_a_changed_description_of_a_table_is_one_line(part: str, tmp_path: Path) -> None:
    folder = exported(tmp_path / "out", table_release())
    described = json.loads((folder / DESCRIPTOR).read_text(encoding="utf-8"))
    for index, resource in enumerate(described["resources"]):
        if resource["name"] == "marginals":
            if part == "all":
                described["resources"][index] = "marginals"
            else:
                del resource[part]
    (folder / DESCRIPTOR).write_text(json.dumps(described), encoding="utf-8")
    assert bad(verify_export(folder))[0].startswith(f"BAD  {DESCRIPTOR}")
    with pytest.raises(Damaged, match="fetch the export again"):
        open_release(folder)


def test_two_causes_are_two_lines(tmp_path: Path) -> None:
    for changed, forged_file, named in (
        ("synthetic.csv", "card.html", "words of card.html"),
        ("card.html", "synthetic.csv", "values of synthetic"),
    ):
        folder = exported(tmp_path / changed, table_release())
        change = {"card.html": ("missing or added", "never seen"), "synthetic.csv": ("01.", "02.")}
        forged(folder, forged_file, lambda text, change=change[forged_file]: text.replace(*change))
        (folder / changed).write_text("x\n", encoding="utf-8")
        actual = bad(verify_export(folder))
        assert [line.partition(": ")[0] for line in actual] == [f"BAD  {changed}", f"BAD  {named}"]


def test_a_moved_place_and_other_noisy_rows_fail(tmp_path: Path) -> None:
    folder = exported(tmp_path / "place", map_release())
    forged(folder, "centres.geojson", lambda text: text.replace("47.25", "47.5"))
    (actual,) = bad(verify_export(folder))
    assert actual.startswith("BAD  places")
    folder = exported(tmp_path / "rows", map_release())
    forged(folder, "centres.csv", lambda text: text.replace(",0.5,", ",0.5,9"))
    (actual,) = bad(verify_export(folder))
    assert actual.startswith("BAD  values of centres")


def test_an_omitted_charge_fails(tmp_path: Path) -> None:
    release = table_release()
    less = replace(
        release, bundle=replace(release.bundle, spends=release.bundle.spends[1:], quality={})
    )
    (actual,) = bad(verify_export(exported(tmp_path / "out", less)))
    assert actual.startswith("BAD  sum of the charges")
    assert "got 0" in actual or "ceiling" in actual or "must spend exactly" in actual


def with_rows_left_out(scale: str, epsilon: str) -> ReportedPrivateRelease:
    """Return a map of ε = .5 with a number of rows left out, whose table has noise of scale 2."""
    count = {"rows": np.array([3.0]), "deviation": np.array([variance(Fraction(2)) ** 0.5])}
    release = map_release(left_out=count)
    spend = Spend("rows left out", LAPLACE, Fraction(epsilon), 1, Fraction(scale))
    return replace(release, bundle=replace(release.bundle, free_spends=(spend,)))


def test_rows_left_out_have_the_noise_that_is_charged(tmp_path: Path) -> None:
    folder = exported(tmp_path / "right", with_rows_left_out("2", "1/2"))
    assert bad(verify_export(folder)) == []
    assert "rows left out" in (folder / "card.md").read_text(encoding="utf-8")
    for scale, epsilon in (("4", "1/4"), ("1", "1"), ("2", "1/4")):
        folder = exported(tmp_path / f"{scale} {epsilon[-1]}", with_rows_left_out(scale, epsilon))
        assert [line.partition(":")[0] for line in bad(verify_export(folder))] == ["BAD  scales"]
    release = replace(with_rows_left_out("2", "1/2"), bundle=map_release().bundle)
    unpaid = replace(release.bundle, tables=with_rows_left_out("2", "1/2").bundle.tables)
    (line,) = bad(verify_export(exported(tmp_path / "unpaid", replace(release, bundle=unpaid))))
    assert line.startswith("BAD  scales")


def test_an_evaluation_that_was_not_paid_in_full_fails(tmp_path: Path) -> None:
    release = table_release(evaluation="0.5", epsilon="0.25")
    (actual,) = bad(verify_export(exported(tmp_path / "out", release)))
    assert actual.startswith("BAD  sum of the charges")


def test_a_smaller_rho_than_the_stated_epsilon_costs_is_found(tmp_path: Path) -> None:
    release = gaussian_release()
    (spend,) = release.bundle.spends
    half = replace(spend, epsilon=spend.epsilon / 2, scale=spend.scale * 2)
    less = replace(release, bundle=replace(release.bundle, spends=(half,)))
    (actual,) = bad(verify_export(exported(tmp_path / "out", less)))
    assert actual.startswith("BAD  sum of the charges")
    assert half.epsilon_of_scale == half.epsilon > Fraction(0)


STRANGE_DESCRIPTIONS = [
    "", "null", "[]", "{}", '{"dp_pipeline": {}, "resources": [1]}',
    '{"dp_pipeline": {}, "resources": [{"path": "../card.md", "name": "x", "type": "table"}]}',
    '{"dp_pipeline": {"format": 99}, "resources": []}', "[" * 100_000,
]  # fmt: skip


@pytest.mark.parametrize("text", STRANGE_DESCRIPTIONS, ids=range(len(STRANGE_DESCRIPTIONS)))
def test_a_strange_description_is_bad_and_no_crash(text: str, tmp_path: Path) -> None:
    folder = exported(tmp_path / "out", map_release())
    (folder / DESCRIPTOR).write_text(text, encoding="utf-8")
    (folder / SUMS).write_text(sums_text(folder), encoding="utf-8")
    assert len(bad(verify_export(folder))) == 1


def test_an_empty_folder_is_no_export(tmp_path: Path) -> None:
    assert bad(verify_export(tmp_path))
