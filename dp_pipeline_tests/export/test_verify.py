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
from dp_pipeline_tests.export import samples
from dp_pipeline_tests.export.samples import bad, exported, map_release, table_release
from dp_pipeline_tests.reporting.samples import k_anonymous

REFINED = {"epsilon": "0.5", "refines": "ab" * 32}
RELEASES: dict[str, Callable[[], ReportedPrivateRelease]] = {
    "table": table_release,
    "map": map_release,
    "map with sizes": lambda: map_release(sizes={"size": np.array([4.0, -1.5])}),
    "in ρ": samples.gaussian_release,
    "refined": lambda: table_release(**REFINED, refined_from="0.25"),
}


@pytest.mark.parametrize("name", RELEASES)
@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow"])
def test_what_was_exported_verifies(name: str, ending: str, tmp_path: Path) -> None:
    checks = verify_export(exported(tmp_path / "out", RELEASES[name](), ending))
    assert bad(checks) == []
    assert len(checks) > 12


def test_a_k_anonymous_export_verifies_and_promises_no_epsilon(tmp_path: Path) -> None:
    release = k_anonymous(purpose="benchmark", reason="it reads rows")
    checks = verify_export(exported(tmp_path / "out", release))
    assert bad(checks) == []
    (total,) = [check.result for check in checks if check.of == "sum of the charges"]
    assert total.startswith("no ε is stated")


@pytest.mark.parametrize("place", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(("name", "ending"), [("table", "parquet"), ("map", "csv")])
def test_a_changed_byte_fails(name: str, ending: str, place: float, tmp_path: Path) -> None:
    for index, file in enumerate(files_of(exported(tmp_path / "first", RELEASES[name](), ending))):
        folder = exported(tmp_path / str(index), RELEASES[name](), ending)
        content = bytearray((folder / file).read_bytes())
        content[round(place * (len(content) - 1))] ^= 1
        (folder / file).write_bytes(content)
        (actual,) = bad(verify_export(folder))
        assert actual.startswith(f"BAD  {file}") or f"digest of {file}" in actual or file == SUMS


@pytest.mark.parametrize("name", ["table", "map"])
def test_a_lost_file_fails_whichever_it_is(name: str, tmp_path: Path) -> None:
    for index, file in enumerate(files_of(exported(tmp_path / "first", RELEASES[name]()))):
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


def forged(folder: Path, file: str, old: str, new: str) -> Path:
    """One file changed, and every digest of it made to agree again."""
    path = folder / file
    content = path.read_text(encoding="utf-8")
    assert old in content
    path.write_text(content.replace(old, new), encoding="utf-8")
    described: dict[str, Any] = json.loads((folder / DESCRIPTOR).read_text(encoding="utf-8"))
    for resource in described["resources"]:
        if resource["path"] == file:
            resource["bytes"] = path.stat().st_size
            resource["hash"] = f"sha256:{file_digest(path)}"
    (folder / DESCRIPTOR).write_text(json.dumps(described), encoding="utf-8")
    (folder / SUMS).write_text(sums_text(folder), encoding="utf-8")
    return folder


ENDLESS = '"epsilon": "1e999999999"'
FORGERIES: dict[str, tuple[str, str, str, str]] = {
    "a value": ("synthetic.csv", "01.", "02.", "values of synthetic"),
    "a place": ("centres.geojson", "47.25", "47.5", "places"),
    "noisy rows": ("centres.csv", ",0.5,", ",0.5,9", "values of centres"),
    "ε for programs": ("card.json", '"epsilon": "0.5"', '"epsilon": "0.1"', "figures of card.json"),
    "ε for people": ("card.md", "ε = 0.5 exactly", "ε = 0.1 exactly", "figures of card.md"),
    "a standing": ("card.md", "# DIFFERENTIALLY", "# VERY", "figures of card.md"),
    "a sentence": ("card.html", "missing or added", "never looked at", "words of card.html"),
    "a charge": ("release.json", '"epsilon": "1/4"', '"epsilon": "1/8"', "scales"),
    "less noise": ("release.json", '"scale": "4"', '"scale": "2"', "scales"),
    "stated ε": ("release.json", '"epsilon": "0.25"', '"epsilon": "0.2"', "sum of the charges"),
    # An amount that would be computed for hours.
    "endless charge": ("release.json", '"epsilon": "1/4"', ENDLESS, "release.json"),
    "endless ε": ("release.json", '"epsilon": "0.25"', ENDLESS, "release.json"),
    "a description": (DESCRIPTOR, '"standing": "DIFF', '"standing": "IND', "figures of card.json"),
}


@pytest.mark.parametrize("case", FORGERIES)
def test_wrong_content_fails_though_every_digest_agrees(case: str, tmp_path: Path) -> None:
    file, old, new, check = FORGERIES[case]
    release = map_release() if file.startswith("centres") else table_release()
    folder = forged(exported(tmp_path / "out", release), file, old, new)
    (actual,) = bad(verify_export(folder))
    assert actual.startswith(f"BAD  {check}")


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
    for changed, case in (("synthetic.csv", "a sentence"), ("card.html", "a value")):
        *forgery, check = FORGERIES[case]
        folder = forged(exported(tmp_path / changed, table_release()), *forgery)
        (folder / changed).write_text("x\n", encoding="utf-8")
        lines = [line.partition(": ")[0] for line in bad(verify_export(folder))]
        assert lines == [f"BAD  {changed}", f"BAD  {check}"]


def with_spends(
    release: ReportedPrivateRelease, *spends: Spend, **changes: Any
) -> ReportedPrivateRelease:
    return replace(release, bundle=replace(release.bundle, spends=spends, **changes))


TABLE, IN_RHO = table_release(), samples.gaussian_release()
(SPEND,) = IN_RHO.bundle.spends
HALF = replace(SPEND, epsilon=SPEND.epsilon / 2, scale=SPEND.scale * 2)
WRONG_SUMS = {
    "an omitted charge": with_spends(TABLE, *TABLE.bundle.spends[1:], quality={}),
    "an evaluation that was not paid in full": table_release(evaluation="0.5", epsilon="0.25"),
    "a smaller ρ than the stated ε costs": with_spends(IN_RHO, HALF),
    "a refinement from another start": table_release(**REFINED, refined_from="0.125"),
}


@pytest.mark.parametrize("case", WRONG_SUMS)
def test_charges_of_another_sum_fail(case: str, tmp_path: Path) -> None:
    (actual,) = bad(verify_export(exported(tmp_path / "out", WRONG_SUMS[case])))
    assert actual.startswith("BAD  sum of the charges")


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
    right = with_rows_left_out("2", "1/2")
    unpaid = replace(right, bundle=replace(right.bundle, free_spends=()))
    (line,) = bad(verify_export(exported(tmp_path / "unpaid", unpaid)))
    assert line.startswith("BAD  scales")


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
