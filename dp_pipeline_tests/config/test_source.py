"""Where rows come from, as a data set file declares it: never opened, never with a password."""

import socket
from pathlib import Path

import pytest

from dp_pipeline.config.database import EXPECTED_DATABASE, database_name, database_url
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.source import Sample, Source
from dp_pipeline.config.url import is_allowed_url, redact_url
from dp_pipeline.ledger.postgres import address_label, parse_postgres_url
from dp_pipeline_tests.config.declarations import loaded

SHA256 = "0123456789abcdef" * 4
REMOTE = f"url: https://example.org/toy.csv, sha256: {SHA256}, at_most_mb: 5"


def source_of(folder: Path, text: str, purpose: str = "release") -> Source:
    return loaded(folder, source=f"source: {{{text}}}", purpose=f"purpose: {purpose}").source


def complaint(folder: Path, text: str, purpose: str = "release") -> str:
    """What is said of a source, behind the file and the line."""
    with pytest.raises(DeclarationError) as refused:
        source_of(folder, text, purpose)
    return str(refused.value).partition("toy.yaml:")[2].partition(": ")[2]


def test_a_url_is_a_source_that_needs_nothing(tmp_path):
    source = source_of(tmp_path, f'kind: csv, {REMOTE}, delimiter: "\\t", header: [x, y]')
    assert (source.is_remote, source.needs, source.download) == (True, None, None)
    assert (source.delimiter, source.header) == ("\t", ("x", "y"))
    assert source.sha256 == {"https://example.org/toy.csv": SHA256}
    assert source.identities == ("https://example.org/toy.csv", f"sha256:{SHA256}")


def test_several_urls_have_a_hash_each(tmp_path):
    urls = "urls: ['https://example.org/a.csv?key=s3cret', https://example.org/b.csv]"
    other = SHA256[::-1]
    source = source_of(tmp_path, f"kind: csv, {urls}, sha256: [{SHA256}, {other}], at_most_mb: 5")
    assert list(source.sha256.values()) == [SHA256, other]
    assert source.identity == "https://example.org/a.csv + https://example.org/b.csv"


def test_the_hash_of_public_rows_may_be_left_open(tmp_path):
    text = "kind: csv, url: https://example.org/toy.csv, at_most_mb: 5"
    assert source_of(tmp_path, text, "benchmark").sha256 == {}


ALLOWED = [
    *("https://example.org/a.csv", "https://example.org:8443/a.csv?part=1"),
    *("http://localhost:8000/a.csv", "http://127.8.7.6/a.csv", "http://[::1]:8000/a.csv"),
]
NOT_ALLOWED = [
    *("http://example.org/a.csv", "http://127.0.0.1.example.org/a.csv", "http://10.0.0.1/a.csv"),
    *("http://127.0.0.1@example.org/a.csv", "https://me@example.org/a.csv", "https:///a.csv"),
    *("https://example.org:port/a.csv", "https://example.org/a b.csv", "https://example.org/ä.csv"),
    *("https://example.org/d\\a.csv", "https://example.org/a%.csv", "https://ex%61mple.org/a.csv"),
    *("https://-example.org/a.csv", "http://127.1/a.csv", "https://example.org/a\r\nHost: other"),
    *("file:///etc/passwd", "ftp://example.org/a.csv", "//example.org/a.csv", "a.csv"),
]


@pytest.mark.parametrize("url", [*ALLOWED, *NOT_ALLOWED])
def test_only_https_and_this_machine_may_be_asked(url):
    assert is_allowed_url(url) is (url in ALLOWED)


def test_a_url_is_shown_without_what_may_be_secret():
    assert redact_url("https://Me:w@Example.org:1/A?k=s#t") == "https://example.org:1/A"


def test_a_download_has_the_form_of_its_file_by_default(tmp_path):
    form = "header: [a, b], comment: '#', delimiter: ;"
    more = f"download: {{{REMOTE}, delimiter: whitespace, header: [b, c]}}"
    source = source_of(tmp_path, f"kind: csv, path: $DP_PIPELINE_DATA/a.csv, {form}, {more}")
    download = source.download
    forms = [(each.header, each.delimiter, each.comment) for each in (source, download)]
    assert forms == [(("a", "b"), ";", "#"), (("b", "c"), "whitespace", "#")]
    assert (source.needs, download.needs) == (None, None)


def test_the_ledger_knows_the_file_and_the_download_of_a_source(tmp_path):
    source = source_of(tmp_path, f"kind: csv, path: a.csv, download: {{{REMOTE}}}")
    url = "https://example.org/toy.csv"
    assert source.identities == (f"file:{tmp_path}/a.csv", url, f"sha256:{SHA256}")
    assert [each.identity for each in source.alternatives] == [f"csv:{tmp_path}/a.csv", url]


def test_file_and_download_are_sampled_alike(tmp_path):
    sample = "sample: {rows: 5, by: colour, seed: 3}"
    text = f"kind: csv, path: a.csv, {sample}, download: {{{REMOTE}}}"
    source = source_of(tmp_path, text, "benchmark")
    assert {each.sample for each in source.alternatives} == {source.sample}
    for each in source.alternatives:
        assert each.identity.endswith(": 5 rows by colour, seed 3")


QUERY = "query: SELECT x FROM rides"


def test_the_password_of_a_database_variable_goes_nowhere(tmp_path, monkeypatch):
    text = f"kind: sql, database: $RIDES, {QUERY}"
    monkeypatch.delenv("RIDES", raising=False)
    without = source_of(tmp_path, text)
    assert (without.location, without.needs) == ("$RIDES", "RIDES")
    monkeypatch.setenv("RIDES", "postgresql://ana:s3cret@DB.example.org/rides?sslmode=require")
    source = source_of(tmp_path, text)
    assert source.identities == ("sql:postgresql://db.example.org:5432/rides",)
    assert source.needs == "RIDES"
    assert not any(word in repr(source) for word in ("ana", "s3cret", "sslmode"))


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg2://ana@127.0.0.1:5432/rides",
        "postgresql://bo:word@[::1]/rides",
        "postgresql://LOCALHOST/rides?connect_timeout=3",
        "postgresql://[::ffff:127.0.0.1]/Rides",
        f"postgresql://{socket.gethostname()}/rides",
    ],
)
def test_two_ways_to_one_database_are_one_source(url, tmp_path, monkeypatch):
    monkeypatch.setenv("RIDES", url)
    source = source_of(tmp_path, f"kind: sql, database: $RIDES, {QUERY}")
    assert "sql:postgresql://localhost:5432/rides" in source.identities


def test_queries_of_one_database_share_it_but_differ(tmp_path):
    first, second = (
        source_of(tmp_path, f"kind: sql, database: sqlite:///a.db, query: SELECT {name} FROM a")
        for name in ("x", "y")
    )
    assert first.identities == second.identities == (f"file:{tmp_path}/a.db",)
    assert first.identity != second.identity
    assert first.identity.startswith(f"sql:sqlite:///{tmp_path}/a.db, query ")


def test_a_file_of_sqlite_may_lie_in_the_data_folder(tmp_path, monkeypatch):
    text = f"kind: sql, database: sqlite:///$DP_PIPELINE_DATA/a.db, {QUERY}"
    monkeypatch.setenv("DP_PIPELINE_DATA", str(tmp_path / "data"))
    source = source_of(tmp_path, text)
    assert source.location == f"sqlite:///{tmp_path}/data/a.db"
    assert source.needs == "DP_PIPELINE_DATA"


SECRET_AT = "postgresql://ana:s3cret@"
NO_DATABASES = [
    *("mysql://ana:s3cret@localhost/rides", "postgresql+psycopg://ana:s3cret@localhost/rides"),
    *(f"{SECRET_AT}{rest}" for rest in ("/rides", "localhost", "localhost:port/rides")),
    *(f"{SECRET_AT}localhost/rides?{key}" for key in ("dbname=other", "host=s3cret.example.org")),
    *(f"{SECRET_AT}localhost/rides?{key}" for key in ("service=s3cret", "hostaddr=10.0.0.1")),
    *(f"{SECRET_AT}{host}/rides" for host in ("localhost,s3cret.example.org", "127.0.0.1%61")),
    *(f"{SECRET_AT}%2Fvar%2Frun%2Fpostgresql/rides", "postgresql:///rides?host=/var/run/s3cret"),
    f"{SECRET_AT}localhost/host=s3cret.example.org",
    f"{SECRET_AT}localhost/ride\N{LATIN SMALL LETTER LONG S}",
    f"{SECRET_AT}localho\N{LATIN SMALL LETTER LONG S}t/rides",
    *("sqlite:///relative/s3cret.db", "sqlite:////s3cret.db?mode=rw"),
    *("sqlite:///file:s3cret?uri=true", "sqlite://", "s3cret"),
]


@pytest.mark.parametrize("url", NO_DATABASES)
def test_another_database_is_refused_and_its_url_not_repeated(url, tmp_path, monkeypatch):
    monkeypatch.setenv("RIDES", url)
    message = complaint(tmp_path, f"kind: sql, database: $RIDES, {QUERY}")
    assert message == (
        f"source.database: expected {EXPECTED_DATABASE} in RIDES, got a text of another form"
    )


SPLIT = ["postgresql://ana:pa@WORD@127.0.0.1/x", "postgresql://ana:p@a/WORD@127.0.0.1/x"]


@pytest.mark.parametrize("text", SPLIT)
def test_a_password_that_looks_like_a_host_is_refused(text):
    with pytest.raises(DeclarationError, match="an @ in the host or the name") as refusal:
        parse_postgres_url(text, of="DP_PIPELINE_LEDGER")
    assert "WORD" not in str(refusal.value)
    assert database_url(text) is None


def test_a_quoted_at_is_a_part_of_the_password():
    text = "postgresql://ana:pa%40WORD@127.0.0.1/x"
    assert address_label(parse_postgres_url(text, of="X")) == "postgresql://127.0.0.1/x"
    url = database_url(text)
    assert url is not None
    assert database_name(url) == "postgresql://localhost:5432/x"


def test_a_sample_is_read(tmp_path):
    text = "kind: csv, paths: [a.csv, b.csv], sample: {rows: 20, by: colour, seed: 7}"
    assert source_of(tmp_path, text, "benchmark").sample == Sample(20, "colour", 7)
    assert loaded(tmp_path).source.sample is None


def test_another_sample_is_another_source_of_the_same_persons():
    samples = [(20, "job", 7), (21, "job", 7), (20, "sex", 7), (20, "job", 8)]
    sources = [
        Source("csv", "/a.csv", more=("/b.csv",), sample=sample)
        for sample in (None, *(Sample(*fields) for fields in samples))
    ]
    assert len({sampled.identity for sampled in sources}) == 5
    # The ledger keeps two populations apart by these: a sample must not slip by.
    assert {sampled.identities for sampled in sources} == {("file:/a.csv", "file:/b.csv")}
    assert sources[1].single_file("/b.csv").identity == "csv:/b.csv"
