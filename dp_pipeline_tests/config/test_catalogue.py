"""The built-in data sets, and those of a folder of the user's."""

import socket
from pathlib import Path

import pytest

from dp_pipeline.config.catalogue import available_datasets, dataset_files, find_spec
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.parser import load_spec
from dp_pipeline_tests.config.declarations import declaration, written

NEEDS_DATA = ("adult", "adult_replace", "nltcs", "nltcs_replace", "unbalance")
DOWNLOADED = (
    *("adult_2000", "adult_raw", "birch3", "breast_cancer_wisconsin", "checkin"),
    "checkin_events",
)
MADE = (
    *("birch3_like", "census", "mixture4", "mixture6", "mixture8", "pytest2d"),
    *("rides_stream", "tic_like", "trips", "unbalance_like", "wdbc"),
)
WITHOUT_DATA = tuple(sorted((*DOWNLOADED, *MADE)))
BUILT_IN = tuple(sorted((*NEEDS_DATA, *WITHOUT_DATA)))


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    for variable in ("DP_PIPELINE_DATASETS", "DP_PIPELINE_DATA", "DP_PIPELINE_SHOWN"):
        monkeypatch.delenv(variable, raising=False)


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_built_in_data_set_loads_with_any_data_folder(name, tmp_path, monkeypatch):
    monkeypatch.setenv("DP_PIPELINE_DATA", str(tmp_path))
    spec = find_spec(name)
    assert spec.name == name
    assert spec.publish is not None or spec.publications
    assert spec.ceiling is not None or spec.each_window is not None or not spec.is_release
    if name in (*NEEDS_DATA, *DOWNLOADED):
        assert {Path(location).parent for location in spec.source.locations} == {tmp_path}


def test_the_built_in_data_sets_are_the_ones_we_know(tmp_path, monkeypatch):
    monkeypatch.setenv("DP_PIPELINE_DATA", str(tmp_path))
    assert tuple(spec.name for spec in available_datasets()) == tuple(dataset_files()) == BUILT_IN
    with pytest.raises(DeclarationError, match=r"data set 'nope' \(`dp-pipeline data list` shows"):
        find_spec("nope")


@pytest.mark.parametrize("name", ["adult_2000", "breast_cancer_wisconsin", "wdbc"])
def test_benchmarks_of_k_anonymity_are_public_with_a_label(name):
    spec = load_spec(dataset_files()[name])
    declared = spec.k_anonymity
    assert next(iter(declared.methods)) == "kjig"
    assert declared.partition_keys == ("0", "2", "5", "10", "20", "50")
    assert {*declared.attributes, spec.label} == set(spec.domain.names)
    assert (spec.is_release, spec.allow_not_dp, spec.distance) == (False, False, 1)


@pytest.mark.parametrize("value", [None, ""])
def test_sets_that_need_an_unset_data_folder_are_left_out(value, monkeypatch):
    if value is not None:
        monkeypatch.setenv("DP_PIPELINE_DATA", value)
    assert tuple(spec.name for spec in available_datasets()) == WITHOUT_DATA
    with pytest.raises(DeclarationError, match="nltcs: the variable DP_PIPELINE_DATA must hold"):
        find_spec("nltcs")
    for path in dataset_files().values():
        load_spec(path)


@pytest.mark.parametrize("name", DOWNLOADED)
def test_a_download_is_available_without_opening_it(name, monkeypatch):
    def refused(*_, **__):
        raise AssertionError("a connection")

    def read_numbers(host, port, *, flags):
        # A spelled address is read without asking anybody.
        return look_up(host, port, flags=flags) if flags == socket.AI_NUMERICHOST else refused()

    look_up = socket.getaddrinfo
    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setattr(socket, "getaddrinfo", read_numbers)
    spec = find_spec(name)
    assert spec in available_datasets()
    assert spec.source.needs is None
    # A path that nothing names is no source that the ledger could know.
    kinds = {identity.partition(":")[0] for identity in spec.source.identities}
    assert kinds <= {"https", "sha256"}
    own, download = spec.source.alternatives
    assert (own.is_resolved, download.is_remote, download.at_most_mb > 0) == (False, True, True)
    assert set(spec.columns) <= set(download.header)


def test_dagster_shows_only_the_users_own_data_sets(tmp_path, monkeypatch):
    monkeypatch.setenv("DP_PIPELINE_DATASETS", str(tmp_path))
    assert tuple(spec.name for spec in available_datasets()) == WITHOUT_DATA
    written(tmp_path, declaration())
    assert [spec.name for spec in available_datasets()] == ["toy"]
    assert find_spec("toy").title == "toy"
    assert find_spec("trips").name == "trips"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DP_PIPELINE_DATASETS", "")
    assert "toy" not in dataset_files()


def test_a_repeated_name_or_an_absent_folder_is_refused(tmp_path, monkeypatch):
    written(tmp_path, declaration(name="name: trips"), name="trips")
    for folder, words in (
        (tmp_path, "has the same: rename your file"),
        (tmp_path / "absent", "`export DP_PIPELINE_DATASETS=FOLDER`, or unset it"),
    ):
        monkeypatch.setenv("DP_PIPELINE_DATASETS", str(folder))
        with pytest.raises(DeclarationError, match=words):
            available_datasets()


def test_dagster_reads_only_the_named_data_sets(tmp_path, monkeypatch):
    (tmp_path / "draft.yaml").write_text("name: TODO\n", encoding="utf-8")
    monkeypatch.setenv("DP_PIPELINE_DATASETS", str(tmp_path))
    monkeypatch.setenv("DP_PIPELINE_SHOWN", "trips  census")
    assert [spec.name for spec in available_datasets()] == ["census", "trips"]
    monkeypatch.setenv("DP_PIPELINE_SHOWN", "trips strips")
    with pytest.raises(DeclarationError, match="DP_PIPELINE_SHOWN must list names of data sets"):
        available_datasets()
