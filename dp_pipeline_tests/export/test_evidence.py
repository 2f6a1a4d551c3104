"""What an exported folder proves of itself: evidence, README.txt, and the loss of its noise."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from dp_pipeline.cli import main
from dp_pipeline.config.about import AboutSection
from dp_pipeline.export.evidence import MISSING, TITLES, filled_share, registry_entry
from dp_pipeline.export.folder import RELEASE
from dp_pipeline.gate.measured_loss import measure_loss
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.results.accountant import GAUSSIAN, LAPLACE, Spend
from dp_pipeline_tests.export.samples import exported, gaussian_release, map_release, table_release
from dp_pipeline_tests.instruments import CheaperNoise
from dp_pipeline_tests.reporting.samples import SEEDED

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
EXPORTS = {"table": table_release, "map": map_release, "gaussian": gaussian_release}


def published(kind: str):
    release = EXPORTS[kind]()
    return replace(release, spec=replace(release.spec, about=ABOUT))


@pytest.mark.parametrize("kind", EXPORTS)
def test_a_registry_entry_has_every_field_of_tier_3(kind: str):
    entry = registry_entry(published(kind), "2026-11-27")
    deployment = entry["deployment"]
    sections = "basic dp_variant privacy_loss deployment_model implementation administrative"
    assert set(deployment) == set(sections.split())
    variant = deployment["dp_variant"]["variant_name"]
    assert variant == ("Zero-concentrated DP" if kind == "gaussian" else "Pure DP")
    assert ("delta" in deployment["privacy_loss"]["privacy_parameters"]) == (kind == "gaussian")
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


@pytest.mark.parametrize("kind", EXPORTS)
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
