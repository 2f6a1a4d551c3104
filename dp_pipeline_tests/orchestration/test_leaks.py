"""On release data no exact number and no value of a row leaves the raw store."""

import json
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.orchestration import dataset
from dp_pipeline.raw.counters import open_counter
from dp_pipeline.raw.evaluate import exact_points
from dp_pipeline.releases import outcome
from dp_pipeline.releases.outcome import report_path
from dp_pipeline.releases.run_result import ReleaseResult
from dp_pipeline.reporting.metrics import QualityRow
from dp_pipeline_tests.instruments import exact_tables
from dp_pipeline_tests.orchestration.events import entries, materializations, refusal
from dp_pipeline_tests.orchestration.projects import HOMES, PLANTS, PUBLIC, RIDES, Project

RAW_STAGES = ("ingested", "validated", "normalized", "discretized")
RAW_KEYS = {"snapshot", "source", "stage"}
NOISY_COUNT = "dagster/row_count"
SECRET = "1902107770713359"
ROWS, KEPT = 1237, 1234
"""617 riders have two rides each, three of them a third one, which is not kept."""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Project, DatasetSpec]]:
    """A release by every model, over a number of rows that nothing else is equal to."""
    project = Project(tmp_path_factory.mktemp("leaks"))
    x, y = {"bounds": ["0", "8"], "bins": "4"}, {"bounds": ["0", "4"], "bins": "2"}
    models = {"dpqt_kmeans": {"k": "3"}, "eug_kmeans": {"k": "3"}, "independent": {}}
    changes = {"attributes": {"x": x, "y": y}, "models": models, "ceiling": {"total": "9"}}
    spec = project.declare("rides", RIDES, **changes)
    rows = [f"rider{n % 617},{n % 83 / 11:.5f},{n % 89 / 23:.5f}" for n in range(ROWS)]
    project.write_rows("rides.csv", ["rider,x,y", *rows])
    assert len(project.run(spec)) == 6
    return project, spec


def exact_numbers(project: Project, spec: DatasetSpec, outcome: ReleaseResult) -> list[float]:
    snapshot, tables = project.snapshot(spec), outcome.bundle.tables
    if "centres" in tables:
        points = exact_points(spec, snapshot, ("x", "y"))
        centres = np.stack([tables["centres"]["x"], tables["centres"]["y"]], axis=1)
        squares = ((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
        return [float(squares.min(axis=1).mean())]
    (exact,) = exact_tables(open_counter(spec, snapshot), [("x", "y")])
    synthetic = np.zeros(exact.shape)
    np.add.at(synthetic, (tables["codes"]["x"], tables["codes"]["y"]), 1)
    return [float(np.abs(exact / exact.sum() - synthetic / synthetic.sum()).sum() / 2)]


def spelling(value: float) -> str:
    """The first ten significant digits, as they stand in any longer spelling."""
    text = repr(value)
    first = re.match(r"0\.0*", text)
    return text[: (first.end() if first else 1) + 10]


def shown(texts: Iterable[str], values: Iterable[float]) -> list[str]:
    """Exact numbers that stand in a text, whole or up to their tenth digit. Pictures are not
    read; what is rounded to fewer digits is the metadata, which is compared number by number.

    Ten digits of eleven values meet by chance in one of a thousand such numbers with probability
    below 10^-5.
    """
    document = "\n".join(re.sub(r"base64,[^\"')]+", "", text) for text in texts)
    spellings = {spelling(value) for value in values}
    return sorted(
        word for word in spellings if re.search(rf"(?<![\d.]){re.escape(word)}", document)
    )


def log_texts(instance: dg.DagsterInstance) -> list[str]:
    return [dg.serialize_value(entry) for entry in entries(instance)]


def numbers_in(metadata: Mapping[str, Any]) -> set[float]:
    text = " ".join(str(value.value) for value in metadata.values())
    return {float(word) for word in re.findall(r"(?<![\w.-])\d+(?:\.\d+)?(?![\w.-])", text)}


def steward_files(project: Project, spec: DatasetSpec) -> list[Path]:
    return sorted((project.snapshot(spec).folder / "custodian").glob("*.json"))


def test_exact_numbers_lie_in_private_files_of_raw_store_alone(ran):
    project, spec = ran
    files = steward_files(project, spec)
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    stored = [json.loads(path.read_text())["facts"] for path in files]
    stored_numbers = sorted(facts.get("nicv", facts.get("avd_2")) for facts in stored)
    computed = [v for outcome in project.run(spec) for v in exact_numbers(project, spec, outcome)]
    assert stored_numbers == pytest.approx(sorted(computed), rel=1e-9)
    exact = {
        value
        for facts in stored
        for value in facts.values()
        # Nothing and all, a distance to the closest record or the rows alike, have no own digits.
        if np.isfinite(value) and value not in (0, 1)
    }
    exact |= set(computed)
    assert len(exact) >= 11
    texts = log_texts(project.instance)
    texts += [path.read_text() for path in project.home.internal.rglob("*.json")]
    texts += [path.read_text() for path in project.home.released.rglob("*.json*")]
    texts += [report_path(project.request(spec)).read_text(encoding="utf-8")]
    assert len(texts) > 150
    assert shown(texts, exact) == []
    # A planted one is found.
    assert shown(['{"nicv": 3.14159265358}'], [3.141592653]) == ["3.141592653"]
    assert shown(["tvd 0.0271717447704"], [0.027171744770495783]) == ["0.02717174477"]
    assert shown(["1.09999643215, 1.1"], [1.09999643215]) == ["1.099996432"]
    assert shown(["13.141592653", "3.1416", "3.14"], [3.141592653]) == []


def test_metadata_holds_bought_numbers_and_no_count_of_rows(ran):
    project, spec = ran
    materialized = materializations(project, spec)[dg.AssetKey(["rides", "evaluation"])]
    for result in project.run(spec):
        (metadata, *_) = materialized[str(result.bundle.facts["epsilon"])]
        ((metric, bought),) = result.bundle.quality.items()
        shown_value = metadata[f"{result.release.name}/{metric}"].value
        assert shown_value == float(f"{bought.value:.4g}")
        assert len(metadata) == len(spec.models)
    for key, partitions in materializations(project, spec).items():
        for metadata in chain.from_iterable(partitions.values()):
            if key.path[-1] in RAW_STAGES:
                assert set(metadata) <= RAW_KEYS
                assert numbers_in(metadata) == set()
            # The number of synthetic rows is a noisy count of the kept ones: it may be theirs.
            values = {name: value for name, value in metadata.items() if name != NOISY_COUNT}
            assert not numbers_in(values) & {ROWS, KEPT}
    messages = [_OF_A_RUN.sub("", entry.user_message) for entry in entries(project.instance)]
    assert len(messages) > 100
    count = re.compile(rf"(?<![\w.-])({ROWS}|{KEPT})(?![\w.-])")
    assert not [message for message in messages if count.search(message)]
    planted = {"rows": dg.MetadataValue.int(ROWS), "note": dg.MetadataValue.text(f"{KEPT} kept")}
    assert numbers_in(planted) == {ROWS, KEPT}


def test_exact_number_that_reached_report_is_refused_there(project: Project, monkeypatch):
    spec = project.declare("rides", RIDES)
    planted = QualityRow("dpqt_kmeans", Fraction("0.1"), "nicv", 3.25, None, "share")
    bought = outcome.evaluate
    monkeypatch.setattr(outcome, "evaluate", lambda *args: [*bought(*args), planted])
    with pytest.raises(Exception, match="must not show exact numbers of sensitive rows, but it"):
        project.run(spec, epsilons=["0.1"])
    assert not report_path(project.request(spec)).exists()


def fail(*_: object, **__: object) -> None:
    raise ValueError(f"could not convert string to float: '{SECRET}'")


BEFORE = {"validated": (), "normalized": ("validated",), "evaluation": ("validated", "normalized")}


@pytest.mark.parametrize("stage", BEFORE)
def test_unexpected_error_on_release_data_is_redacted(stage: str, project: Project, monkeypatch):
    spec = project.declare("rides", RIDES)
    assert project.launch(spec, "ingested", *BEFORE[stage]).success
    partition = "0.1" if stage == "evaluation" else None
    if partition is not None:
        assert project.launch(spec, "dpqt_kmeans", partition=partition).success
    monkeypatch.setattr(dataset.validate, "validate", fail)
    monkeypatch.setattr(dataset.prepare, "prepare_stage", fail)
    monkeypatch.setattr(outcome, "evaluate", fail)
    line = refusal(project.launch(spec, stage, partition=partition))
    error = r"rides: an unexpected ValueError was raised at test_leaks.py:\d+: report it .*"
    assert re.fullmatch(error, line)
    assert SECRET not in "".join(log_texts(project.instance))


def test_unexpected_error_on_benchmark_is_told_with_its_words(project: Project, monkeypatch):
    spec = project.declare("plants", PLANTS)
    assert project.launch(spec, "ingested").success
    monkeypatch.setattr(dataset.validate, "validate", fail)
    assert not project.launch(spec, "validated").success
    assert SECRET in "".join(log_texts(project.instance)), "the search would not find a leak"


def test_two_populations_give_events_of_one_shape(project: Project):
    """What is logged of a release run depends on declarations: kinds of events and their keys."""
    shapes = []
    for name, rows in {
        "few": ["rooms,rent,tenure", "1,300,renter"],
        "bad": ["rooms,rent,tenure", *[f"{SECRET},word,{SECRET}"] * 9, ",,", "nan,inf,renter"],
    }.items():
        folder = Project(project.folder / name)
        spec = folder.declare("homes", HOMES, models={"independent": {}})
        folder.write_rows("homes.csv", rows)
        folder.run(spec)
        logged = [entry for entry in entries(folder.instance) if entry.dagster_event is not None]
        shapes.append(sorted((str(e.step_key), str(e.dagster_event_type)) for e in logged))
        assert SECRET not in "".join(log_texts(folder.instance))
    assert shapes[0] == shapes[1]


_OF_A_RUN = re.compile(
    r"[0-9a-f]{8}-[0-9a-f-]{27}"  # run ids
    r"|\b\d{4}-\d\d-\d\d\b"  # the day that names a snapshot
    r"|(\d+m)?\d+(\.\d+)?(e-\d+)?\s?(ms|s|seconds|minutes)\b"  # how long a step took
    r"|\(pid: \d+\)|pid\S* \d+"
    r"|/tmp/\S+"
)


_VERDICT = re.compile(r'passed|did not pass|"(passed|success)": (true|false)|with no issues')

RawLog = list[tuple[str, str, str]]


def raw_log_of(project: Project, last: str) -> RawLog:
    """(step, kind, all that an event says) of the raw chain of sixty homes and one more line."""
    spec = project.declare("homes", HOMES)
    rows = [f"{n % 7 + 1},{n * 7 % 900},owner" for n in range(60)]
    project.write_rows("homes.csv", ["rooms,rent,tenure", *rows, last])
    assert project.launch(spec, *RAW_STAGES).success
    lines = []
    for entry in entries(project.instance):
        event = entry.dagster_event
        if event is None or event.is_engine_event:
            continue
        data = event.event_specific_data
        text = "" if event.is_step_success else dg.serialize_value(data) if data else ""
        # Without moments and names that are drawn for every run.
        words = _OF_A_RUN.sub("…", f"{entry.user_message} {text}")
        words = re.sub(r'"(timestamp": [\d.]+|log_key": "\w+")', "", words)
        lines.append((str(entry.step_key), str(entry.dagster_event_type), words))
    assert len(lines) > 30
    return lines


@pytest.fixture(scope="module")
def sixty_one(tmp_path_factory: pytest.TempPathFactory) -> RawLog:
    return raw_log_of(Project(tmp_path_factory.mktemp("sixty_one")), "4,100,renter")


@pytest.mark.parametrize("last", ["7.5,999,owner", ""], ids=["another row", "a row less"])
def test_raw_log_is_same_with_another_row_or_less(last: str, sixty_one: RawLog, project: Project):
    assert raw_log_of(project, last) == sixty_one


def test_broken_row_changes_verdicts_and_nothing_else(sixty_one: RawLog, project: Project):
    """A verdict is a boolean for the steward: it stops nothing, and tells no row and no count."""
    broken = raw_log_of(project, f"{SECRET},word,{SECRET}")
    differing = [(a, b) for a, b in zip(sixty_one, broken, strict=True) if a != b]
    assert differing
    for good, bad in differing:
        assert bad[:2] == ("homes__validated", "DagsterEventType.ASSET_CHECK_EVALUATION")
        assert _VERDICT.sub("", bad[2]) == _VERDICT.sub("", good[2])
        assert SECRET not in bad[2]


def test_planted_count_makes_the_raw_side_differ(sixty_one: RawLog, project: Project, monkeypatch):
    def counting(snapshot: Any, **_: str) -> dict[str, dg.MetadataValue]:
        size = snapshot.table_path("ingested").stat().st_size
        return {"size": dg.MetadataValue.int(size)}

    monkeypatch.setattr(dataset, "raw_metadata", counting)
    log = raw_log_of(project, "4,100,renter")
    assert [a for a, b in zip(log, sixty_one, strict=True) if a != b]


@pytest.mark.parametrize("asset", ["evaluation", "validated", "normalized", "comparison"])
def test_declaring_rows_public_shows_no_exact_number(asset: str, released_rides: Project):
    public = released_rides.declare("rides", RIDES, **PUBLIC)
    partition = "0.5" if asset == "evaluation" else None
    before = released_rides.files("reports", "internal")
    assert "opened with" in refusal(released_rides.launch(public, asset, partition=partition))
    assert released_rides.files("reports", "internal") == before
