"""An export is checked from its own files, and what they prove of its noise."""

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from dp_pipeline.cli import main
from dp_pipeline.config.about import AboutSection
from dp_pipeline.config.errors import Damaged
from dp_pipeline.export.evidence import MISSING, TITLES, filled_share, registry_entry
from dp_pipeline.export.folder import DESCRIPTOR, RELEASE, SUMS, file_digest, files_of, sums_text
from dp_pipeline.export.opening import open_release
from dp_pipeline.export.verify import verify_export
from dp_pipeline.gate.measured_loss import measure_loss
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.reporting.releases import ReportedPrivateRelease
from dp_pipeline.results.accountant import GAUSSIAN, LAPLACE, Spend
from dp_pipeline.results.measurement import variance
from dp_pipeline_tests.export import samples
from dp_pipeline_tests.export.samples import (
    bad,
    exported,
    map_release,
    table_release,
)
from dp_pipeline_tests.instruments import CheaperNoise
from dp_pipeline_tests.reporting.samples import SEEDED, k_anonymous

REFINED = {"epsilon": "0.5", "refines": "ab" * 32}
RELEASES: dict[str, Callable[[], ReportedPrivateRelease]] = {
    "table": table_release,
    "map": map_release,
    "map with sizes": lambda: map_release(sizes={"size": np.array([4.0, -1.5])}),
    "k-anonymous": lambda: k_anonymous(purpose="benchmark", reason="it reads rows"),
    "in ρ": samples.gaussian_release,
    "refined": lambda: table_release(**REFINED, refined_from="0.25"),
}


@pytest.mark.parametrize("name", RELEASES)
@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow"])
def test_what_was_exported_verifies(name: str, ending: str, tmp_path: Path) -> None:
    checks = verify_export(exported(tmp_path / "out", RELEASES[name](), ending))
    assert bad(checks) == []
    assert len(checks) > 10
    (total,) = [check.result for check in checks if check.of == "sum of the charges"]
    assert total.startswith("no ε is stated") == (name == "k-anonymous")


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


ABOUT = AboutSection(
    publisher="Office of Statistics",
    publisher_kind="Government",
    contact="open@example.org",
    licence="CC-BY-4.0",
    citation="Office (2026): Rows",
    as_of="2026-10-01",
    region="Styria",
    sector="Government",
    use="Teaching",
)


PUBLISHED = ("table", "map", "in ρ")


def published(kind: str):
    release = RELEASES[kind]()
    return replace(release, spec=replace(release.spec, about=ABOUT))


@pytest.mark.parametrize("kind", PUBLISHED)
def test_a_registry_entry_has_every_field_of_tier_3(kind: str):
    entry = registry_entry(published(kind), "2026-11-27")
    deployment = entry["deployment"]
    sections = "basic dp_variant privacy_loss deployment_model implementation administrative"
    assert set(deployment) == set(sections.split())
    variant = deployment["dp_variant"]["variant_name"]
    assert variant == ("Zero-concentrated DP" if kind == "in ρ" else "Pure DP")
    assert ("delta" in deployment["privacy_loss"]["privacy_parameters"]) == (kind == "in ρ")
    assert deployment["basic"]["publication_date"] == "2026-11-27"
    assert filled_share(entry) == 1
    assert yaml.safe_load(yaml.safe_dump(entry)) == entry


def test_fields_of_the_publisher_are_marked_as_missing():
    entry = registry_entry(table_release(), "2026-11-27")
    assert entry["deployment"]["basic"]["intended_use"] == MISSING
    assert 0.8 < filled_share(entry) < 1


def test_a_release_of_seeded_noise_has_no_evidence(tmp_path: Path):
    assert (exported(tmp_path / "cleared", table_release()) / "evidence").is_dir()
    seeded = exported(tmp_path / "seeded", table_release(**SEEDED))
    assert not (seeded / "evidence").exists()


@pytest.mark.parametrize("kind", PUBLISHED)
def test_an_export_says_in_plain_words_what_it_is(kind: str, tmp_path: Path):
    folder = exported(tmp_path / "out", published(kind))
    text = (folder / "README.txt").read_text(encoding="utf-8")
    files = [path for path in folder.rglob("*") if path.is_file()]
    described = {path.relative_to(folder).as_posix() for path in files}
    described -= {"README.txt", "datapackage.json", "SHA256SUMS"}
    assert all(name in text for name in described)
    assert "Licence: CC-BY-4.0" in text
    assert "The rows describe the day: 2026-10-01" in text
    package = json.loads((folder / "datapackage.json").read_text(encoding="utf-8"))
    assert package["licenses"][0]["name"] == "CC-BY-4.0"
    assert package["contributors"][0]["email"] == "open@example.org"


def spend(mechanism: str, epsilon: Fraction, sensitivity: int = 1) -> Spend:
    """A charge whose scale proves its cost."""
    if mechanism == LAPLACE:
        return Spend("counts", mechanism, epsilon, sensitivity, sensitivity / epsilon)
    return Spend("counts", mechanism, epsilon, sensitivity, sensitivity / (2 * epsilon), "zcdp")


@pytest.mark.parametrize("mechanism", [LAPLACE, GAUSSIAN])
@pytest.mark.parametrize("epsilon", [Fraction(1, 50), Fraction(1, 4), Fraction(2)])
@pytest.mark.parametrize("factor", [Fraction(1), Fraction(5, 4)], ids=["paid", "too small"])
def test_draws_show_the_loss_of_their_noise(mechanism: str, epsilon: Fraction, factor: Fraction):
    """A false alarm: once in 10^9 seeds."""
    loss = measure_loss(spend(mechanism, epsilon), CheaperNoise(SeededNoise(seed=1), factor))
    assert loss is not None
    assert loss.is_violated == (factor > 1)
    assert loss.seen >= 0.95 * loss.claimed


def test_the_evidence_of_a_folder_is_shown_and_measured(tmp_path: Path):
    folder = exported(tmp_path / "out", published("table"))
    shown = CliRunner().invoke(main, ["evidence", str(folder)])
    assert shown.exit_code == 0, shown.output
    assert "100 % of its fields are filled" in shown.output
    assert "no evidence of violation" in shown.output
    assert all(path in shown.output for path in TITLES)
    document = json.loads(CliRunner().invoke(main, ["evidence", str(folder), "--json"]).output)
    assert not any(loss["violated"] for loss in document["losses"])
    for path in (RELEASE, next(iter(TITLES))):
        (folder / path).write_text("{", encoding="utf-8")
        damaged = CliRunner().invoke(main, ["evidence", str(folder)])
        assert damaged.exit_code == 1
        assert damaged.output.endswith(
            f"{path} is not as it was exported: fetch the export again\n"
        )


def test_a_folder_without_evidence_is_refused_in_a_line(tmp_path: Path):
    refused = CliRunner().invoke(main, ["evidence", str(tmp_path)])
    assert refused.exit_code == 2
    assert refused.output.count("\n") == 1
