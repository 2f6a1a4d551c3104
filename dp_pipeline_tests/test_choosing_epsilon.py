"""docs/choosing_epsilon.md: its commands run, and its figures are what they say."""

import json
import math
import re
import shlex
from fractions import Fraction
from pathlib import Path

import pytest

from dp_pipeline_tests.orchestration.projects import PLANTS, RIDES, Project
from dp_pipeline_tests.results.test_measurement import moments

pytestmark = [pytest.mark.chain, pytest.mark.usefixtures("forgotten_disk", "blank_pictures")]

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "choosing_epsilon.md").read_text(encoding="utf-8")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "datasets").mkdir()
    return Project(tmp_path)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def cells(text: str) -> list[list[str]]:
    """Lines of a table by their words."""
    return [line.split() for line in text.splitlines() if line.startswith(" independent")]


def test_the_commands_of_the_page_run_and_print_what_it_shows(project: Project):
    shown, _ = blocks("text")
    outputs = []
    for line in "".join(blocks("bash")).splitlines():
        result = project.cli(*shlex.split(line)[1:])
        assert result.code == 0, (line, result.err)
        outputs.append(result.out)
    planned, _, refined, _ = outputs
    assert cells(planned) == cells(shown)
    assert len(cells(shown)) == 3
    assert "requested 0.45, spent 0.15, left 9.85, ceiling 10" in refined
    (account,) = json.loads(project.cli("budget", "census", "--json").out)["accounts"]
    assert account["spent"] == "0.6"


def test_pairs_of_page_are_what_plan_says_of_one_shot(project: Project):
    _, foreseen = blocks("text")
    planned = project.command("plan", "census", "--model", "one_shot", "--epsilon", "0.1")
    assert foreseen.strip() in planned


def test_the_factors_of_the_page_follow_from_their_epsilon():
    lines = re.findall(r"^\| ([\d.]+) \| ([\d.]+) \| ([\d.]+) % \|$", PAGE, re.MULTILINE)
    assert len(lines) == 5
    for epsilon, factor, share in lines:
        odds = math.exp(float(epsilon))
        assert float(factor) == float(f"{odds:.3g}")
        assert float(share) == round(100 * odds / (1 + odds), 1)


def discrete_laplace(scale: float) -> float:
    """Mean |x| of P(x) ∝ e^(−|x|/scale)."""
    return moments([math.exp(-x / scale) for x in range(1, int(60 * scale))])[0]


def noises(project: Project, name: str) -> dict[str, float]:
    document = json.loads(project.cli_here("plan", name, "--json").out)
    return {release["epsilon"]: release["noise_of_a_count"] for release in document["releases"]}


def test_the_noise_of_a_plan_is_that_of_the_declared_distance(project: Project):
    project.declare("rides", RIDES)
    assert noises(project, "rides") == {
        text: pytest.approx(discrete_laplace(2 / float(text))) for text in ("0.1", "0.5")
    }
    project.declare("plants", PLANTS, relation="replace_one", models={"independent": {}})
    assert noises(project, "plants")["1"] == pytest.approx(discrete_laplace(2))


def test_the_noise_of_a_plan_in_rho_is_gaussian(project: Project):
    project.declare("plants", PLANTS, delta="0.000001", models={"one_shot": {}}, publish=None)
    document = json.loads(project.cli_here("plan", "plants", "--epsilon", "1", "--json").out)
    (release,) = document["releases"]
    assert document["currency"] == "zcdp"
    rho = float(Fraction(release["cost"]))
    mean, _ = moments([math.exp(-(x**2) * rho) for x in range(1, 201)])
    assert release["noise_of_a_count"] == pytest.approx(mean, rel=1e-6)
