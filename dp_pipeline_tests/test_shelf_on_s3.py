"""The newest cleared release in a bucket of an S3 server: moto's, by the driver of a user."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dp_pipeline.config.parser import load_spec
from dp_pipeline.releases.home import PUBLISHED_VARIABLE
from dp_pipeline_tests.orchestration.events import refusal
from dp_pipeline_tests.orchestration.projects import RIDES, Project
from dp_pipeline_tests.test_export import published

s3fs: Any = pytest.importorskip("s3fs", reason="s3fs is not installed: dp-pipeline[s3]")
moto: Any = pytest.importorskip("moto.server", reason="moto is not installed: dp-pipeline[s3]")
boto3: Any = pytest.importorskip("boto3")

pytestmark = [pytest.mark.chain, pytest.mark.usefixtures("forgotten_disk", "blank_pictures")]

COPY = "city/rides/dpqt_kmeans/"
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
    variables = {
        "AWS_ENDPOINT_URL": server,
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "hush",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_CONFIG_FILE": "/nowhere",
        "AWS_SHARED_CREDENTIALS_FILE": "/nowhere",
        "AWS_EC2_METADATA_DISABLED": "true",
        PUBLISHED_VARIABLE: "s3://open/city",
    }
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    # A driver is kept as long as the process runs, with the key and the server of its first use.
    s3fs.S3FileSystem.clear_instance_cache()
    bucket = boto3.resource("s3").Bucket("open")
    bucket.create()
    yield bucket
    bucket.objects.delete()
    bucket.delete()
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp("shelf"))
    project.declare("rides", RIDES)
    project.command("run", "rides", "--epsilon", "0.5", "--quiet")
    return project


def refused(project: Project) -> str:
    return refusal(project.launch(load_spec(project.datasets / "rides.yaml"), "published"))


def files_of(bucket: Any) -> set[str]:
    """Names below the published copy, which holds all that is in the bucket."""
    keys = [item.key for item in bucket.objects.all()]
    assert all(key.startswith(COPY) for key in keys)
    return {key.removeprefix(COPY) for key in keys}


def current(bucket: Any) -> dict[str, Any]:
    content: dict[str, Any] = json.load(bucket.Object(COPY + "current.json").get()["Body"])
    return content


def verify_copy(project: Project, bucket: Any, version: str, folder: Path) -> str:
    """What `dp-pipeline verify` prints of a version that a reader has copied out of the bucket."""
    for item in bucket.objects.filter(Prefix=f"{COPY}{version}/"):
        path = folder / item.key.removeprefix(f"{COPY}{version}/")
        path.parent.mkdir(parents=True, exist_ok=True)
        bucket.download_file(item.key, str(path))
    return project.command("verify", str(folder), DP_PIPELINE_HOME=str(folder / "nowhere"))


def test_a_reader_of_a_bucket_verifies_the_newest_release(released: Project, bucket, tmp_path):
    shown = published(released, "rides")
    assert shown["dpqt_kmeans/location"] == "s3://open/city/rides/dpqt_kmeans"
    newest = current(bucket)
    version = f"versions/{shown['dpqt_kmeans/version']}"
    assert newest["version"] == version
    assert files_of(bucket) == {"current.json", *(f"{version}/{name}" for name in newest["files"])}
    printed = verify_copy(released, bucket, version, tmp_path / "copy")
    assert f"digest: {newest['digest']}" in printed
    assert not (released.home.root / "published").exists()


def test_a_browser_is_told_that_the_card_is_a_page(released: Project, bucket: Any):
    published(released, "rides")
    version = current(bucket)["version"]
    kinds = {"card.html": "text/html", "card.json": "application/json", "centres.csv": "text/csv"}
    for name, kind in kinds.items():
        assert bucket.Object(f"{COPY}{version}/{name}").content_type == kind


def test_an_interrupted_copy_is_unnamed_and_completed_next_time(
    released: Project, bucket: Any, monkeypatch, tmp_path: Path
):
    put = s3fs.S3FileSystem.put_file

    def put_until_unplugged(self: Any, file: str, path: str, **options: Any) -> Any:
        if path.endswith("SHA256SUMS"):
            raise ConnectionResetError("the words of the driver: hush")
        return put(self, file, path, **options)

    with monkeypatch.context() as patched:
        patched.setattr(s3fs.S3FileSystem, "put_file", put_until_unplugged)
        assert refused(released) == f"{LINE}s3://open/{COPY[:-1]}: ConnectionResetError{CHECK}"
    half = files_of(bucket)
    assert len(half) > 1
    assert "current.json" not in half
    published(released, "rides")
    assert verify_copy(released, bucket, current(bucket)["version"], tmp_path / "copy")


def test_a_mistyped_bucket_is_refused_and_none_is_made(released: Project, bucket, monkeypatch):
    monkeypatch.setenv(PUBLISHED_VARIABLE, "s3://oepn/city")
    assert refused(released) == (
        f"{LINE}s3://oepn/{COPY[:-1]}: FileNotFoundError: no such bucket or folder; "
        "none is made: make it, or correct the address"
    )
    buckets = bucket.meta.client.list_buckets()["Buckets"]
    assert [item["Name"] for item in buckets] == ["open"]


@pytest.mark.usefixtures("bucket")
def test_without_a_key_it_is_refused_in_one_line(released: Project, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    assert refused(released) == f"{LINE}s3://open/{COPY[:-1]}: NoCredentialsError{CHECK}"


def test_a_password_in_an_address_is_not_shown(released: Project, monkeypatch):
    monkeypatch.setenv(PUBLISHED_VARIABLE, "memory://ana:hush@bucket/open")
    location = published(released, "rides")["dpqt_kmeans/location"]
    assert location == "memory://ana@bucket/open/rides/dpqt_kmeans"
