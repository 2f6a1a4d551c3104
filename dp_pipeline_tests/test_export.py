"""`dp-pipeline export` and `verify`: from a home into a folder, and checked without a home."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dp_pipeline.config.parser import load_spec
from dp_pipeline.export.folder import files_of
from dp_pipeline_tests.orchestration import patients, shops, streams
from dp_pipeline_tests.orchestration.events import refusal
from dp_pipeline_tests.orchestration.projects import PLANTS, RIDES, Project
from dp_pipeline_tests.orchestration.warm import Result, assert_refused

pytestmark = [pytest.mark.chain, pytest.mark.usefixtures("forgotten_disk", "blank_pictures")]

PUBLISHED = {"k": "2", "rounds": "2", "variant": "published"}
GARDEN = {
    **PLANTS,
    "one_hot": "false",
    "attributes": {"height": {"bounds": ["0", "8"]}, "width": {"bounds": ["0", "4"]}},
    "models": {"eug_kmeans": {"k": "2"}, "dp_kmeans": PUBLISHED},
    "publish": None,
    "partitions": ["0.5"],
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """All of it released once, and then every row taken away: what is left is what exports read."""
    project = Project(tmp_path_factory.mktemp("export"))
    project.declare("rides", RIDES)
    project.declare("plants", GARDEN)
    patients.declare(project)
    shops.shops(project)
    streams.stream(project, population="streamers")
    for command in (
        "run rides",
        "run shops --epsilon 0.5",
        "anonymize patients --k 2",
        "run stream --window 2026-W01..2026-W02",
        "run plants",
    ):
        noise = {"DP_PIPELINE_NOISE": "seeded:7"} if command == "run plants" else {}
        finished = project.cli_here(*command.split(), **noise)
        assert finished.code == 0, (command, finished.err)
    shutil.rmtree(project.home.raw)
    for rows in project.datasets.glob("*.csv"):
        rows.unlink()
    return project


@pytest.fixture
def project(ran: Project, tmp_path: Path) -> Project:
    """A copy of it that may be changed."""
    copy = Project(tmp_path / "copy")
    shutil.copytree(ran.folder, copy.folder, ignore=shutil.ignore_patterns("dagster"))
    return copy


def export(project: Project, *arguments: str, to: Path) -> Result:
    return project.cli_here("export", *arguments, "--to", str(to))


def exported(project: Project, *arguments: str, to: Path) -> dict[str, Any]:
    result = export(project, *arguments, "--json", to=to)
    assert result.code == 0, result.err
    document: dict[str, Any] = json.loads(result.out)
    return document


def verify_export(project: Project, folder: Path) -> Result:
    """Checked where there is no home."""
    nowhere = str(project.folder / "nowhere")
    places = {"DP_PIPELINE_HOME": nowhere, "DP_PIPELINE_DATASETS": nowhere}
    return project.cli_here("verify", str(folder), **places)


@pytest.mark.parametrize(
    ("arguments", "release", "file"),
    [
        ("rides", "rides/dpqt_kmeans at ε=0.5", "centres.csv"),
        ("rides --epsilon 0.1", "rides/dpqt_kmeans at ε=0.1", "centres.csv"),
        ("rides dpqt_kmeans", "rides/dpqt_kmeans at ε=0.5", "centres.csv"),
        ("shops", "shops/independent at ε=0.5", "synthetic.csv"),
        ("shops --format arrow", "shops/independent at ε=0.5", "synthetic.arrow"),
        ("shops --format parquet", "shops/independent at ε=0.5", "synthetic.parquet"),
        ("stream", "stream/htree_kmeans of 2026-W02 at ε=0.5", "synopsis.csv"),
        ("stream independent", "independent of 2026-W02 at ε=0.1", "synthetic.csv"),
        ("stream --window 2026-W01", "htree_kmeans of 2026-W01", "synopsis.csv"),
    ],
)
def test_an_export_reads_no_row_and_verifies_without_a_home(
    ran: Project, arguments: str, release: str, file: str, tmp_path: Path
) -> None:
    before = ran.files("released", "ledger")
    actual = exported(ran, *arguments.split(), to=tmp_path / "out")
    assert release in actual["release"]
    assert actual["standing"] == "DIFFERENTIALLY PRIVATE"
    assert file in actual["files"]
    assert ran.files("released", "ledger") == before, "nothing is charged or written"
    checked = verify_export(ran, tmp_path / "out")
    assert (checked.code, checked.err) == (0, ""), checked.out
    assert actual["digest"] in checked.out
    assert "BAD" not in checked.out


def test_no_secret_of_the_home_and_no_row_is_in_an_export(ran: Project, tmp_path: Path) -> None:
    outcome = exported(ran, "shops", to=tmp_path / "out")
    key = ran.ledger.key("members")
    (transcript,) = ran.home.released.glob(f"shops/independent/{outcome['key'][:32]}/*.jsonl")
    salt = json.loads(transcript.read_text(encoding="utf-8").splitlines()[0])["record"]["answer"]
    for name in files_of(tmp_path / "out"):
        content = (tmp_path / "out" / name).read_bytes()
        for secret in (key, key.hex().encode(), salt.encode(), b"hapaxlegomenon"):
            assert secret not in content, name


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ("patients kjig", "allow-not-dp exports it in spite of that, and its card says"),
        ("plants dp_kmeans", "not differentially private: the initial centres are rec"),
        ("plants eug_kmeans", "it was drawn from seeded:7 noise"),
    ],
)
def test_an_uncleared_release_is_refused_unless_requested(ran: Project, arguments, why, tmp_path):
    refused = export(ran, *arguments.split(), to=tmp_path / "out")
    assert_refused(refused, 2, why, "--allow-not-dp")
    assert not (tmp_path / "out").exists()
    actual = exported(ran, *arguments.split(), "--allow-not-dp", to=tmp_path / "out")
    assert actual["standing"].startswith("NOT ")
    card = json.loads((tmp_path / "out" / "card.json").read_text(encoding="utf-8"))
    assert card["guarantee"]["cleared"] is False
    assert (tmp_path / "out" / "card.md").read_text(encoding="utf-8").startswith("# NOT ")
    assert verify_export(ran, tmp_path / "out").code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ("plants", 2, "MODEL must be named, as the data set file publishes"),
        ("rides dpqt", 2, "rides: MODEL must be one of dpqt_kmeans, not 'dpqt'"),
        ("rides --epsilon 7", 2, "the ε of a release must be one of 0.1, 0.5, not 7"),
        ("rides dpqt_kmeans --k 2", 2, "rides: --k: the release of dpqt_kmeans"),
        ("patients kjig --epsilon 0.5", 2, "--epsilon: the release of kjig has a K"),
        ("rides --k 2", 2, "rides: --k: the release of dpqt_kmeans has an ε"),
        ("rides --window 2026-W01", 2, "has no windows, so none can be chosen"),
        ("nothing", 2, "nothing"),
        ("shops --epsilon 1", 1, "of this declaration exists at ε=1: `dp"),
        ("patients kjig --k 5", 1, "exists at K=5: `dp-pipeline anonymize patients --"),
    ],
)
def test_an_undeclared_or_unreleased_export_is_refused(ran, arguments: str, code, words, tmp_path):
    assert_refused(export(ran, *arguments.split(), to=tmp_path / "out"), code, words)
    assert not (tmp_path / "out").exists()


def test_only_an_earlier_export_is_replaced(ran: Project, tmp_path: Path) -> None:
    small, large = (
        exported(ran, "rides", "--epsilon", epsilon, to=tmp_path / "out")
        for epsilon in ("0.1", "0.5")
    )
    assert small["digest"] != large["digest"]
    refused = export(ran, "shops", to=tmp_path / "out")
    assert_refused(refused, 2, f"{tmp_path / 'out'} may only be an earlier export of shops/")
    assert verify_export(ran, tmp_path / "out").code == 0


def test_a_changed_export_is_bad_and_says_which_file(ran: Project, tmp_path: Path) -> None:
    exported(ran, "rides", to=tmp_path / "out")
    with (tmp_path / "out" / "centres.csv").open("ab") as file:
        file.write(b" ")
    checked = verify_export(ran, tmp_path / "out")
    assert checked.code == 1
    assert "BAD  centres.csv: the file has " in checked.out
    result = ran.cli_here("verify", str(tmp_path / "out"), "--json")
    actual = json.loads(result.out)
    assert (result.code, actual["good"]) == (1, False)
    assert [check["of"] for check in actual["checks"] if not check["good"]] == ["centres.csv"]
    assert_refused(verify_export(ran, tmp_path / "nothing"), 2)


def test_a_damaged_release_is_not_exported(project: Project, tmp_path: Path) -> None:
    for path in project.home.released.glob("rides/*/*/*/bundle.json"):
        path.write_bytes(path.read_bytes().replace(b'"0.5"', b'"0.1"'))
    assert_refused(export(project, "rides", to=tmp_path / "out"), 1, "not as it was stored")
    assert not (tmp_path / "out").exists()


def test_a_release_of_another_declaration_is_not_exported(project: Project, tmp_path: Path) -> None:
    wider = {"x": {"bounds": ["0", "9"]}, "y": {"bounds": ["0", "4"]}}
    project.write_declaration("rides", RIDES, attributes=wider)
    refused = export(project, "rides", to=tmp_path / "out")
    assert_refused(refused, 1, "of this declaration exists at ε=0.5: `dp")


def test_other_centres_of_the_same_answers_are_exported(tmp_path: Path) -> None:
    project = Project(tmp_path / "home")
    project.declare("rides", RIDES)
    assert project.cli_here("run", "rides", "--epsilon", "0.5").code == 0
    first = exported(project, "rides", to=tmp_path / "out")
    fewer = {"dpqt_kmeans": {"k": "2", "nominal_rows": "40"}}
    project.write_declaration("rides", RIDES, models=fewer)
    assert project.cli_here("run", "rides", "--epsilon", "0.5").code == 0
    again = exported(project, "rides", to=tmp_path / "out")
    assert again["key"] == first["key"], "no further look at the rows"
    lines = (tmp_path / "out" / "centres.csv").read_text(encoding="utf-8-sig").splitlines()
    assert len(lines) == 1 + 2
    assert verify_export(project, tmp_path / "out").code == 0
    assert np.isclose(float(project.spent(project.declare("rides", RIDES))), 0.55)


def published(project: Project, name: str) -> dict[str, Any]:
    """Materialize the published copy; return its metadata."""
    run = project.launch(load_spec(project.datasets / f"{name}.yaml"), "published")
    assert run.success
    (event,) = run.asset_materializations_for_node(f"{name}__published")
    return {label: value.value for label, value in event.metadata.items()}


def current_of(copy: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((copy / "current.json").read_text(encoding="utf-8"))
    return content


def test_published_holds_the_newest_cleared_release(project: Project) -> None:
    shown = published(project, "rides")
    copy = project.home.root / "published/rides/dpqt_kmeans"
    facts = json.loads((copy / "current" / "release.json").read_text(encoding="utf-8"))["facts"]
    assert shown["dpqt_kmeans"] == f"rides/dpqt_kmeans at ε=0.5, snapshot {facts['snapshot']}"
    assert verify_export(project, copy / "current").code == 0
    assert str((copy / "current").readlink()) == current_of(copy)["version"]
    assert [path.name for path in (copy / "versions").iterdir()] == [shown["dpqt_kmeans/version"]]
    assert sorted(path.name for path in copy.iterdir()) == ["current", "current.json", "versions"]


def test_a_new_draw_is_another_version_and_the_old_one_stays(tmp_path: Path) -> None:
    project = Project(tmp_path / "home")
    project.declare("rides", RIDES)
    run = ("run", "rides", "--epsilon", "0.5")
    copy = project.home.root / "published/rides/dpqt_kmeans"
    assert project.cli_here(*run).code == 0
    published(project, "rides")
    first, before = current_of(copy), (copy / "current").resolve()
    published(project, "rides")
    assert current_of(copy) == first, "the same release is the same version"
    assert project.cli_here(*run, "--new-draw").code == 0
    published(project, "rides")
    assert current_of(copy)["key"] != first["key"]
    assert (copy / "current").resolve() != before
    for version in (before, (copy / "current").resolve()):
        assert verify_export(project, version).code == 0


def test_what_is_not_cleared_is_never_published(project: Project) -> None:
    project.write_declaration("plants", GARDEN, publish={"model": "eug_kmeans", "epsilon": "0.5"})
    assert published(project, "plants") == {"eug_kmeans": "no releasable release was settled yet"}
    assert not (project.home.root / "published/plants/eug_kmeans").exists()


def test_the_newest_window_of_each_model_is_published(project: Project) -> None:
    shown = published(project, "stream")
    assert "of 2026-W02 at ε=0.5" in shown["htree_kmeans"]
    assert "of 2026-W02 at ε=0.1" in shown["independent"]


def test_an_object_store_gets_a_version_before_its_name(ran: Project, tmp_path, monkeypatch):
    fsspec = pytest.importorskip("fsspec")
    files, written = fsspec.filesystem("memory"), []
    put = type(files).put_file

    def put_and_record(self, file, path, *arguments, **options):
        written.append(path.partition("dpqt_kmeans/")[2])
        return put(self, file, path, *arguments, **options)

    monkeypatch.setattr(type(files), "put_file", put_and_record)
    monkeypatch.setenv("DP_PIPELINE_PUBLISHED", "memory://bucket/open/")
    shown = published(ran, "rides")
    assert shown["dpqt_kmeans/location"] == "memory://bucket/open/rides/dpqt_kmeans"
    version = f"versions/{shown['dpqt_kmeans/version']}"
    assert written[-2:] == [f"{version}/SHA256SUMS", "current.json"]
    assert not (ran.home.root / "published").exists()
    files.get("/bucket/open/rides/dpqt_kmeans/" + version, str(tmp_path / "got"), recursive=True)
    assert verify_export(ran, tmp_path / "got").code == 0
    written.clear()
    published(ran, "rides")
    assert written == ["current.json"], "a version is written once"


@pytest.mark.parametrize("address", ["nowhere://bucket", "gcs://bucket"])
def test_an_address_of_no_known_store_is_refused_in_one_line(address, ran: Project, monkeypatch):
    monkeypatch.setenv("DP_PIPELINE_PUBLISHED", address)
    line = refusal(ran.launch(load_spec(ran.datasets / "rides.yaml"), "published"))
    assert line.startswith("The variable DP_PIPELINE_PUBLISHED must name a folder or a store")


@pytest.mark.parametrize(
    ("words", "name"),
    [("export rides --to s3://open/rides", "--to"), ("verify s3://open", "FOLDER")],
)
def test_an_address_is_no_folder_and_none_of_that_name_is_made(
    words: str, name: str, ran: Project, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    line = f"{name}: the place must be a folder of this computer, not an address"
    assert_refused(ran.cli_here(*words.split()), 2, line)
    assert list(tmp_path.iterdir()) == []
