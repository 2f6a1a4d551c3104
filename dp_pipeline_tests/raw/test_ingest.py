"""A source is read once, from its file or its download; a snapshot is whole or not there."""

import gzip
import hashlib
import json
import socket
import ssl
import stat
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import Damaged, DeclarationError, NotPrepared, SourceError
from dp_pipeline.config.source import Source
from dp_pipeline.files import write_private
from dp_pipeline.raw import download
from dp_pipeline.raw import ingest as ingest_module
from dp_pipeline.raw.download import Download
from dp_pipeline.raw.ingest import DOWNLOADS, ingest
from dp_pipeline.raw.snapshot import Snapshot, current_snapshot
from dp_pipeline.raw.stages import read_stage
from dp_pipeline_tests.raw.file_server import file_server
from dp_pipeline_tests.raw.written import KEY, spec_of

MONDAY, TUESDAY = date(2026, 1, 5), date(2026, 1, 6)


@pytest.fixture
def source(tmp_path):
    (tmp_path / "city.csv").write_text("user,x\nWaltraud,1\nOtto,2\n")
    return tmp_path / "city.csv"


@pytest.fixture
def spec(source):
    return spec_of(Source("csv", str(source)), "x", person="user")


@pytest.fixture
def store(tmp_path):
    return tmp_path / "raw"


@pytest.fixture
def ingest_city(spec, store):
    def call(snapshot_id=None, *, today=MONDAY, of=spec, key=KEY):
        return ingest(of, store, key=key, snapshot_id=snapshot_id, today=today)

    return call


def names_of_snapshots(store: Path) -> set[str]:
    return {path.name for path in (store / "city").iterdir() if path.is_dir()}


def test_first_snapshot_is_named_by_the_calendar_and_read_once(ingest_city, source):
    first = ingest_city()
    assert first.id == "2026-01-05"
    rows = {"x": ["1", "2"], "user": ["Waltraud", "Otto"]}
    assert read_stage(first, "ingested").to_pydict() == rows
    metadata = pq.ParquetFile(first.table_path("ingested")).metadata
    assert metadata.row_group(0).column(0).compression == "ZSTD"
    # Without a name nothing is read, of fewer columns either.
    source.unlink()
    assert ingest_city(today=TUESDAY) == first
    assert ingest_city(of=spec_of(Source("csv", str(source)), "x")) == first
    # An empty population is a snapshot like any other.
    source.write_text("user,x\n")
    table = read_stage(ingest_city("empty"), "ingested")
    assert (table.num_rows, table.column_names) == (0, ["x", "user"])


def test_a_new_name_reads_the_source_again_and_becomes_current(ingest_city, source, store):
    first = ingest_city("one")
    stored = first.table_path("ingested").read_bytes()
    source.write_text("user,x\nOtto,3\n")
    second = ingest_city("after_fix", today=TUESDAY)
    assert read_stage(second, "ingested").num_rows == 1
    assert current_snapshot(store, "city", KEY) == second
    # An old name becomes current and is never read again.
    assert ingest_city("one") == first
    assert current_snapshot(store, "city", KEY) == first
    assert first.table_path("ingested").read_bytes() == stored
    assert read_stage(first, "ingested").num_rows == 2


FACTS = {
    *("format", "id", "population", "dataset", "source", "claimed", "downloaded", "columns"),
    *("types", "ingested_at", "read_at", "versions", "fingerprints"),
}


def test_the_manifest_has_facts_but_no_rows_or_counts(ingest_city, spec):
    manifest = ingest_city().manifest
    assert manifest.keys() == FACTS
    assert (manifest["dataset"], manifest["population"]) == ("city", spec.population)
    assert (manifest["source"], manifest["columns"]) == (spec.source.identity, ["x", "user"])
    assert manifest["ingested_at"].endswith("+00:00")
    assert set(manifest["versions"]) == {"dp_pipeline", "python", "pyarrow", "numpy"}
    assert "Waltraud" not in json.dumps(manifest)


def test_a_failed_read_leaves_no_snapshot_and_the_current_one(ingest_city, source, store):
    source.write_text("user,x\nOtto\n")
    with pytest.raises(SourceError):
        ingest_city()
    assert names_of_snapshots(store) == set()
    source.write_text("user,x\nOtto,1\n")
    first = ingest_city()
    source.write_text("user\nOtto\n")
    with pytest.raises(SourceError):
        ingest_city("next")
    assert names_of_snapshots(store) == {first.id}
    assert current_snapshot(store, "city", KEY) == first


@pytest.mark.parametrize("written", [1, 2, 3])
def test_a_crash_leaves_no_snapshot_that_looks_complete(ingest_city, store, monkeypatch, written):
    calls = []

    def crash(path, write):
        if len(calls) == written:
            raise KeyboardInterrupt
        calls.append(path)
        write_private(path, write)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr("dp_pipeline.raw.snapshot.write_private", crash)
        ingest_city()
    assert current_snapshot(store, "city", KEY) is None
    snapshot = ingest_city()
    assert current_snapshot(store, "city", KEY) == snapshot
    assert read_stage(snapshot, "ingested").num_rows == 2


def test_another_declaration_needs_a_new_name(ingest_city, spec, source):
    first = ingest_city()
    elsewhere = source.with_name("other.csv")
    elsewhere.write_text("user,x,y\nOtto,1,2\n")
    others = {
        r"other\.csv": replace(spec, source=Source("csv", str(elsewhere))),
        "its rows are those of population": replace(spec, population="others"),
        "it was read without the column 'y'": spec_of(spec.source, "x", "y", person="user"),
    }
    for reason, other in others.items():
        for name in (None, first.id):
            with pytest.raises(DeclarationError, match=f"{reason}.*name a new snapshot"):
                ingest_city(name, of=other)
    assert ingest_city("moved", of=others[r"other\.csv"]).id == "moved"


def test_a_damaged_snapshot_is_refused_and_not_read_again(ingest_city, store):
    with pytest.raises(DeclarationError, match="snapshot"):
        ingest_city("../elsewhere")
    assert not store.exists()
    snapshot = ingest_city("one")
    ingest_city("two")
    with pytest.raises(Damaged):
        ingest_city("one", key=b"another")
    snapshot.table_path("ingested").write_bytes(b"PAR1")
    with pytest.raises(Damaged):
        ingest_city("one")


def test_two_runs_at_once_read_the_source_once(ingest_city, monkeypatch):
    reads = []

    def counted(spec, files):
        reads.append(spec.name)
        return original(spec, files)

    original = ingest_module.source_tables
    monkeypatch.setattr(ingest_module, "source_tables", counted)
    with ThreadPoolExecutor(4) as threads:
        runs = [threads.submit(ingest_city, "one") for _ in range(4)]
    assert {run.result().id for run in runs} == {"one"}
    assert reads == ["city"]


def test_a_stage_that_is_no_parquet_is_damaged_and_not_quoted(ingest_city):
    snapshot = ingest_city()
    with pytest.raises(NotPrepared):
        read_stage(snapshot, "discretized")
    snapshot.store_table("odd", lambda file: file.write(b"Waltraud") and None)
    with pytest.raises(Damaged, match="'odd'") as caught:
        read_stage(snapshot, "odd")
    assert "Waltraud" not in str(caught.value)


ROWS = b"x,y\n1,2\n3,4\n"
SHA256 = hashlib.sha256(ROWS).hexdigest()


@pytest.fixture
def server():
    with file_server() as served:
        served.files["/a.csv"] = ROWS
        yield served


def refusal(path: Path, url: str, *, sha256: str | None = None, at_most_mb: int = 1) -> str:
    """The one line of a refused download, which leaves no file behind."""
    with pytest.raises(SourceError) as caught:
        Download("city", url, sha256, at_most_mb).to(path)
    assert not path.exists()
    assert list(path.parent.iterdir()) == []
    message = str(caught.value)
    assert message.startswith(f"city: {url.partition('?')[0]}: ")
    assert "\n" not in message
    return message


@pytest.mark.parametrize("fault", ["none", "chunked"])
@pytest.mark.parametrize("sha256", [SHA256, None])
def test_file_is_private_and_its_hash_returned(server, tmp_path, fault, sha256):
    server.fault = fault
    path = tmp_path / "folder" / "a"
    assert Download("city", server.url("/a.csv?part=1"), sha256, 1).to(path) == SHA256
    assert path.read_bytes() == ROWS
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert server.asked == ["/a.csv?part=1"]


def test_proxies_and_passwords_of_environment_are_ignored(server, tmp_path, monkeypatch, caplog):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1/")
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password word\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    Download("city", server.url(), None, 1).to(tmp_path / "folder" / "a")
    sent = {name.lower() for name in server.headers}
    assert not {"authorization", "cookie", "proxy-authorization"} & sent
    # And a secret of a URL is not logged.
    caplog.set_level("DEBUG")
    server.fault = "odd header"
    Download("city", server.url("/a.csv?token=s3cret"), SHA256, 1).to(tmp_path / "a")
    assert "s3cret" not in caplog.text


LARGE = bytes(1_000_001)
MISSING, LARGE_FILE = "the file is incomplete: run again", "more than 1 MB: raise at_most_mb"
OTHER_HASH = f"the file has SHA-256 {SHA256}, but {'0' * 64} is declared"
REFUSED = {
    "no length": ("endless", ROWS, "/a.csv", None, "does not send the length of the file"),
    "another file": ("none", ROWS, "/a.csv?token=s3cret", "0" * 64, OTHER_HASH),
    "cut short": ("short", ROWS, "/a.csv", None, MISSING),
    "hashed and cut short": ("short", ROWS, "/a.csv", SHA256, MISSING),
    "chunked and cut short": ("chunked short", ROWS, "/a.csv", None, MISSING),
    "too large": ("none", LARGE, "/a.csv", None, LARGE_FILE),
    "chunked and too large": ("chunked", LARGE, "/a.csv", None, LARGE_FILE),
    "absent": ("none", ROWS, "/b.csv", None, "the server sends status 404, and no file"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_another_file_than_declared_is_refused(server, tmp_path, name):
    server.fault, server.files["/a.csv"], path, sha256, reason = REFUSED[name]
    message = refusal(tmp_path / "a", server.url(path), sha256=sha256)
    assert reason in message
    assert "s3cret" not in message


@pytest.mark.parametrize(("fault", "size"), [("none", 10**6), ("chunked", 10**6), ("endless", 9)])
def test_a_file_at_the_limit_or_of_a_known_hash_is_written(server, tmp_path, fault, size):
    server.fault, server.files["/a.csv"] = fault, bytes(size)
    sha256 = hashlib.sha256(bytes(size)).hexdigest()
    assert Download("city", server.url(), sha256, 1).to(tmp_path / "a") == sha256


def test_a_refused_connection_differs_from_a_timeout(server, tmp_path, monkeypatch):
    with socket.socket() as free:
        # Nobody else gets the port meanwhile, and nobody listens at it.
        free.bind(("127.0.0.1", 0))
        refused = refusal(tmp_path / "a", f"http://127.0.0.1:{free.getsockname()[1]}/a.csv")
    assert refused.endswith("the server does not answer: correct `url`, or run again")
    # The first words of a stalled file come in 3 seconds on a busy computer too.
    for server.fault, seconds, words in (
        ("silent", 0.1, "the server does not answer for 0.1 seconds: run again"),
        ("stalled", 3, "the server sends nothing for 3 seconds: run again"),
    ):
        monkeypatch.setattr(download, "IDLE_SECONDS", seconds)
        assert refusal(tmp_path / "a", server.url()).endswith(words)


def test_dripping_server_does_not_hold_the_reader(server, tmp_path, monkeypatch):
    monkeypatch.setattr(download, "TOTAL_SECONDS", 0.2)
    # All of it takes more than 200 seconds.
    server.fault, server.files["/a.csv"] = "drip", bytes(10_000)
    start = time.monotonic()
    assert "takes more than 0 seconds" in refusal(tmp_path / "a", server.url())
    assert time.monotonic() - start < 100


def test_another_host_may_send_a_hashed_file_only(server, tmp_path):
    server.moved = {"/old": f"http://localhost:{server.port}/a.csv"}
    assert "another host" in refusal(tmp_path / "a", server.url("/old"))
    assert Download("city", server.url("/old"), SHA256, 1).to(tmp_path / "a") == SHA256
    # Redirections on one host are followed.
    server.asked.clear()
    server.moved = {"/old": "/older", "/older": server.url("/a.csv?part=1")}
    assert Download("city", server.url("/old"), None, 1).to(tmp_path / "b") == SHA256
    assert server.asked == ["/old", "/older", "/a.csv?part=1"]


def test_many_redirections_or_a_circle_are_refused(server, tmp_path):
    circle = {"/a.csv": "/b.csv", "/b.csv": "/a.csv"}
    many = {f"/{i}": f"/{i + 1}" for i in range(6)} | {"/6": "/a.csv"}
    for server.moved, first, words, asked in (
        (circle, "/a.csv", "redirects in a circle: declare another", ["/a.csv", "/b.csv"]),
        (many, "/0", "the server redirects more than 5 times", [f"/{i}" for i in range(6)]),
    ):
        server.asked.clear()
        assert words in refusal(tmp_path / "a", server.url(first))
        assert server.asked == asked


@pytest.mark.parametrize(
    "target",
    [
        *("http://example.org/a.csv", "https://example.org/a.csv", "//example.org/a.csv"),
        *("file:///etc/passwd", "ftp://127.0.0.1/a.csv", "http://127.0.0.1.example.org/a.csv"),
        *("http://me:word@127.0.0.1/a.csv", "http://[::1"),
    ],
)
@pytest.mark.parametrize("sha256", [SHA256, None])
def test_a_redirection_to_elsewhere_is_refused(server, tmp_path, target, sha256):
    server.moved = {"/a.csv": target}
    message = refusal(tmp_path / "a", server.url(), sha256=sha256)
    fault = "redirects from http to https" if target[:6] == "https:" else "but it does not"
    assert fault in message
    assert "example" not in message


def test_a_certificate_of_no_authority_is_refused(tmp_path):
    made = tmp_path / "made"
    made.mkdir()
    pair = [str(made / "key"), str(made / "certificate")]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"]
    try:
        command += ["-keyout", pair[0], "-out", pair[1]]
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no openssl here to make a certificate with")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair[1], pair[0])
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=_shake_hands, args=(listening, context))
        thread.start()
        url = f"https://localhost:{listening.getsockname()[1]}/a.csv"
        message = refusal(tmp_path / "folder" / "a", url)
        thread.join()
    assert message.endswith("the server has no trusted certificate: declare another `url`")


def _shake_hands(listening: socket.socket, context: ssl.SSLContext) -> None:
    connection, _ = listening.accept()
    try:
        context.wrap_socket(connection, server_side=True).close()
    except OSError:
        # The other side did not like it.
        connection.close()


def run(spec: DatasetSpec, store: Path, snapshot_id: str = "one") -> Snapshot:
    return ingest(spec, store, key=KEY, snapshot_id=snapshot_id, today=date(2026, 11, 21))


def rows_of(snapshot: Snapshot) -> list[dict[str, str | int]]:
    return read_stage(snapshot, "ingested").to_pylist()


def remote(url, *more, sha256=None, purpose="benchmark"):
    hashes = {} if sha256 is None else dict.fromkeys((url, *more), sha256)
    return spec_of(Source("csv", url, more=more, sha256=hashes, at_most_mb=1), "x", purpose=purpose)


def test_snapshot_records_its_downloads_and_hashes(server, tmp_path):
    server.files["/b.csv"] = b"x\n5\n"
    spec = remote(server.url("/a.csv?token=s3cret"), server.url("/b.csv"))
    snapshot = run(spec, tmp_path)
    assert rows_of(snapshot) == [{"x": "1"}, {"x": "3"}, {"x": "5"}]
    first, second = server.url(), server.url("/b.csv")
    assert snapshot.manifest["source"] == f"{first} + {second}" == spec.source.identity
    other = hashlib.sha256(b"x\n5\n").hexdigest()
    assert snapshot.manifest["downloaded"] == {first: SHA256, second: other}
    assert "s3cret" not in (snapshot.folder / "manifest.json").read_text()


def test_compressed_and_parquet_downloads_are_read(server, tmp_path):
    server.files["/a.txt.gz"] = gzip.compress(b" 1 \t2\n3 4\n")
    url = server.url("/a.txt.gz?x=1")
    form = Source("csv", url, delimiter="whitespace", header=("x", "y"), at_most_mb=1)
    assert rows_of(run(spec_of(form, "y"), tmp_path)) == [{"y": "2"}, {"y": "4"}]
    pq.write_table(pa.table({"y": [2, 4]}), tmp_path / "made")
    server.files["/a.parquet"] = (tmp_path / "made").read_bytes()
    table = Source("parquet", server.url("/a.parquet"), at_most_mb=1)
    assert rows_of(run(spec_of(table, "y"), tmp_path / "other")) == [{"y": 2}, {"y": 4}]


def test_only_downloads_of_benchmarks_are_kept(server, tmp_path):
    for purpose, asked in (("benchmark", 1), ("release", 2)):
        server.asked.clear()
        store = tmp_path / purpose
        spec = remote(server.url(), sha256=SHA256, purpose=purpose)
        for name in ("one", "two"):
            assert rows_of(run(spec, store, name)) == [{"x": "1"}, {"x": "3"}]
        assert len(server.asked) == asked
    downloads = [path for path in tmp_path.rglob("*.csv") if path.is_file()]
    assert [path.parent for path in downloads] == [tmp_path / "benchmark" / DOWNLOADS]
    assert [path.read_bytes() for path in downloads] == [ROWS]


def test_failed_download_leaves_nothing(server, tmp_path):
    spec = remote(server.url(), server.url("/b.csv"), sha256=SHA256, purpose="release")
    with pytest.raises(SourceError, match="the server sends status 404, and no file"):
        run(spec, tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file() and path.name != ".lock"] == []


def test_changed_download_needs_its_hash_declared(server, tmp_path):
    run(remote(server.url()), tmp_path)
    with pytest.raises(DeclarationError, match=r"its source is http"):
        run(remote(server.url("/b.csv")), tmp_path)
    (download_path,) = (tmp_path / DOWNLOADS).iterdir()
    # What was kept and changed is downloaded again.
    download_path.write_bytes(b"x\n8\n")
    assert rows_of(run(remote(server.url()), tmp_path, "again")) == [{"x": "1"}, {"x": "3"}]
    assert len(server.asked) == 2
    download_path.unlink()
    server.files["/a.csv"] = b"x\n9\n"
    for _ in range(2):
        with pytest.raises(SourceError, match=f"but {SHA256} in an earlier snapshot"):
            run(remote(server.url()), tmp_path, "two")
    now = hashlib.sha256(b"x\n9\n").hexdigest()
    assert rows_of(run(remote(server.url(), sha256=now), tmp_path, "two")) == [{"x": "9"}]
    assert rows_of(run(remote(server.url()), tmp_path, "three")) == [{"x": "9"}]


def test_local_file_is_read_before_its_download(server, tmp_path):
    path = tmp_path / "a.csv"
    # With other columns than its download.
    remote = Source("csv", server.url(), header=("x", "y"), comment="x", at_most_mb=1)
    spec = spec_of(Source("csv", str(path), download=remote), "x")
    downloaded = run(spec, tmp_path / "store")
    assert rows_of(downloaded) == [{"x": "1"}, {"x": "3"}]
    assert downloaded.manifest["source"] == server.url()
    path.write_text("x\n7\n")
    # What was stored stays what it is, wherever rows would be read from now.
    assert run(spec, tmp_path / "store").manifest == downloaded.manifest
    local = run(spec, tmp_path / "store", "two")
    assert rows_of(local) == [{"x": "7"}]
    assert local.manifest["source"] == f"csv:{path}"
    assert local.manifest["downloaded"] == {}
    assert len(server.asked) == 1
    # One file that is absent is enough.
    two = Source("csv", str(path), more=(str(tmp_path / "b.csv"),), download=remote)
    assert rows_of(run(spec_of(two, "x"), tmp_path / "other")) == [{"x": "1"}, {"x": "3"}]
