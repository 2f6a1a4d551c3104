"""The newest cleared release in a bucket of an S3 server, by the driver that a user installs: the
server is moto's, on this computer.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dp_pipeline.config.parser import load_spec
from dp_pipeline.releases.home import PUBLISHED_VARIABLE
from dp_pipeline_tests.orchestration.events import refusal
from dp_pipeline_tests.orchestration.projects import RIDES, Project

s3fs: Any = pytest.importorskip("s3fs", reason="s3fs is not installed: dp-pipeline[s3]")
moto: Any = pytest.importorskip("moto.server", reason="moto is not installed: dp-pipeline[s3]")
boto3: Any = pytest.importorskip("boto3")

pytestmark = [pytest.mark.chain, pytest.mark.usefixtures("forgotten_disk", "blank_pictures")]

SHELF = "city/rides/dpqt_kmeans/"
LINE = f"The store that {PUBLISHED_VARIABLE} names cannot take files at "
CHECK = ": check the address, the network and the driver's settings"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a server that keeps its buckets in memory."""
    running = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    yield f"http://{host}:{port}"
    running.stop()


@pytest.fixture
def bucket(server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A new, empty bucket called open, for whoever has the key of the environment."""
    for name, text in (
        ("AWS_ENDPOINT_URL", server),
        ("AWS_ACCESS_KEY_ID", "somebody"),
        ("AWS_SECRET_ACCESS_KEY", "hush"),
        ("AWS_DEFAULT_REGION", "us-east-1"),
        ("AWS_CONFIG_FILE", "/nowhere"),
        ("AWS_SHARED_CREDENTIALS_FILE", "/nowhere"),
        ("AWS_EC2_METADATA_DISABLED", "true"),
        (PUBLISHED_VARIABLE, "s3://open/city"),
    ):
        monkeypatch.setenv(name, text)
    # A driver is kept as long as the process runs, with the key and the server of its first use.
    s3fs.S3FileSystem.clear_instance_cache()
    made = boto3.resource("s3").Bucket("open")
    made.create()
    yield made
    made.objects.delete()
    made.delete()
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Rides at ε = 0.5."""
    project = Project(tmp_path_factory.mktemp("shelf"))
    project.declare("rides", RIDES)
    done = project.cli_here("run", "rides", "--epsilon", "0.5")
    assert done.code == 0, done.err
    return project


def published(project: Project) -> dict[str, str]:
    """What the page of the asset shows."""
    result = project.launch(load_spec(project.datasets / "rides.yaml"), "published")
    assert result.success
    (event,) = result.asset_materializations_for_node("rides__published")
    return {label: str(value.value) for label, value in event.metadata.items()}


def refused(project: Project) -> str:
    """The line of an asset that failed."""
    return refusal(project.launch(load_spec(project.datasets / "rides.yaml"), "published"))


def written(bucket: Any) -> dict[str, Any]:
    """Name below the shelf → when it was written, for all that is in the bucket."""
    found = {one.key: one.last_modified for one in bucket.objects.all()}
    assert all(key.startswith(SHELF) for key in found)
    return {key.removeprefix(SHELF): at for key, at in found.items()}


def told(bucket: Any) -> dict[str, Any]:
    """What a reader of ``current.json`` learns."""
    found: dict[str, Any] = json.load(bucket.Object(SHELF + "current.json").get()["Body"])
    return found


def verify_copy(project: Project, bucket: Any, version: str, folder: Path) -> str:
    """What `dp-pipeline verify` prints of a version that a reader has copied out of the bucket."""
    for one in bucket.objects.filter(Prefix=f"{SHELF}{version}/"):
        path = folder / one.key.removeprefix(f"{SHELF}{version}/")
        path.parent.mkdir(parents=True, exist_ok=True)
        bucket.download_file(one.key, str(path))
    done = project.cli_here("verify", str(folder), DP_PIPELINE_HOME=str(folder / "nowhere"))
    assert done.code == 0, done.out
    return done.out


def test_a_reader_of_a_bucket_verifies_the_newest_release(
    released: Project, bucket: Any, tmp_path: Path
):
    shown = published(released)
    assert shown["dpqt_kmeans/location"] == "s3://open/city/rides/dpqt_kmeans"
    current = told(bucket)
    assert current["version"] == f"versions/{shown['dpqt_kmeans/version']}"
    assert {f"{current['version']}/{name}" for name in current["files"]} | {"current.json"} == set(
        written(bucket)
    )
    printed = verify_copy(released, bucket, current["version"], tmp_path / "copy")
    assert f"digest: {current['digest']}" in printed
    assert not (released.home.root / "published").exists()


def test_a_browser_is_told_that_the_card_is_a_page(released: Project, bucket: Any):
    published(released)
    version = told(bucket)["version"]
    kinds = {
        name: bucket.Object(f"{SHELF}{version}/{name}").content_type
        for name in ("card.html", "card.json", "centres.csv")
    }
    assert kinds == {
        "card.html": "text/html", "card.json": "application/json", "centres.csv": "text/csv",
    }  # fmt: skip


def test_an_interrupted_copy_is_unnamed_and_completed_next_time(
    released: Project, bucket: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    with _unplugged_before("SHA256SUMS", monkeypatch):
        assert (
            refused(released) == f"{LINE}s3://open/{SHELF.rstrip('/')}: ConnectionResetError{CHECK}"
        )
    half = written(bucket)
    assert len(half) > 1
    assert "current.json" not in half
    published(released)
    assert verify_copy(released, bucket, told(bucket)["version"], tmp_path / "copy")


@contextmanager
def _unplugged_before(name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The connection is gone before a file of this name is put."""
    put = s3fs.S3FileSystem.put_file

    def unplugged(self: Any, file: str, path: str, **options: Any) -> Any:
        if path.endswith(name):
            raise ConnectionResetError("the words of the driver: hush")
        return put(self, file, path, **options)

    with monkeypatch.context() as patched:
        patched.setattr(s3fs.S3FileSystem, "put_file", unplugged)
        yield


def test_a_mistyped_bucket_is_refused_and_none_is_made(
    released: Project, bucket: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(PUBLISHED_VARIABLE, "s3://oepn/city")
    assert refused(released) == (
        f"{LINE}s3://oepn/{SHELF.rstrip('/')}: FileNotFoundError: no such bucket or folder; "
        "none is made: make it, or correct the address"
    )
    buckets = bucket.meta.client.list_buckets()["Buckets"]
    assert [one["Name"] for one in buckets] == ["open"]


@pytest.mark.usefixtures("bucket")
def test_without_a_key_it_is_refused_in_one_line(
    released: Project, monkeypatch: pytest.MonkeyPatch
):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    assert refused(released) == f"{LINE}s3://open/{SHELF.rstrip('/')}: NoCredentialsError{CHECK}"


def test_a_password_in_an_address_is_not_shown(released: Project, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(PUBLISHED_VARIABLE, "memory://ana:hush@bucket/open")
    assert (
        published(released)["dpqt_kmeans/location"] == "memory://ana@bucket/open/rides/dpqt_kmeans"
    )
