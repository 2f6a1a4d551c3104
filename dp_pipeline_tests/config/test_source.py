"""Where rows come from, as a data set file declares it: never opened, never with a password."""

import socket
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.config import url
from dp_pipeline.config.database import EXPECTED_DATABASE, database_name, database_url, server_names
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.source import Sample, Source, dataset_name, file_name, first_overlap
from dp_pipeline.config.url import host_names, is_allowed_url, is_host, redact_url, url_names
from dp_pipeline.ledger.postgres import address_label, parse_postgres_url
from dp_pipeline_tests.config.declarations import loaded

SHA256 = "0123456789abcdef" * 4
REMOTE = f"url: https://example.org/toy.csv, sha256: {SHA256}, at_most_mb: 5"


def source_of(folder: Path, text: str, purpose: str = "release") -> Source:
    return loaded(folder, source=f"source: {{{text}}}", purpose=f"purpose: {purpose}").source


def test_urls_are_a_source_that_needs_nothing(tmp_path):
    source = source_of(tmp_path, f'kind: csv, {REMOTE}, delimiter: "\\t", header: [x, y]')
    assert (source.is_remote, source.needs, source.download) == (True, None, None)
    assert (source.delimiter, source.header) == ("\t", ("x", "y"))
    assert source.sha256 == {"https://example.org/toy.csv": SHA256}
    assert source.identities == ("https://example.org/toy.csv", f"sha256:{SHA256}")
    urls = "urls: ['https://example.org/a.csv?key=s3cret', https://example.org/b.csv]"
    other = SHA256[::-1]
    source = source_of(tmp_path, f"kind: csv, {urls}, sha256: [{SHA256}, {other}], at_most_mb: 5")
    assert list(source.sha256.values()) == [SHA256, other]
    assert source.identity == "https://example.org/a.csv + https://example.org/b.csv"
    public = "kind: csv, url: https://example.org/toy.csv, at_most_mb: 5"
    assert source_of(tmp_path, public, "benchmark").sha256 == {}


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
    assert redact_url("https://Me:w@Example.org:1/A?k=s#t") == "https://example.org:1/A"


@pytest.mark.parametrize("delimiter", ["::", "", '\\"', "\\n", "§"])
def test_impossible_delimiter_is_refused(tmp_path, delimiter):
    with pytest.raises(DeclarationError, match=r"source\.delimiter: expected one character or"):
        source_of(tmp_path, f'kind: csv, path: a.csv, delimiter: "{delimiter}"')


def test_a_download_has_a_form_and_a_name_of_its_own(tmp_path):
    form = "header: [a, b], comment: '#', delimiter: ;"
    more = f"download: {{{REMOTE}, delimiter: whitespace, header: [b, c]}}"
    source = source_of(tmp_path, f"kind: csv, path: $DP_PIPELINE_DATA/a.csv, {form}, {more}")
    forms = [(each.header, each.delimiter, each.comment) for each in (source, source.download)]
    assert forms == [(("a", "b"), ";", "#"), (("b", "c"), "whitespace", "#")]
    assert (source.needs, source.download.needs) == (None, None)
    source = source_of(tmp_path, f"kind: csv, path: a.csv, download: {{{REMOTE}}}")
    url = "https://example.org/toy.csv"
    assert source.identities == (f"file:{tmp_path}/a.csv", url, f"sha256:{SHA256}")
    assert [each.identity for each in source.alternatives] == [f"csv:{tmp_path}/a.csv", url]


def test_file_and_download_are_sampled_alike(tmp_path):
    sample = "sample: {rows: 5, by: colour, seed: 3}"
    text = f"kind: csv, path: a.csv, {sample}, download: {{{REMOTE}}}"
    source = source_of(tmp_path, text, "benchmark")
    assert source.sample == Sample(5, "colour", 3)
    assert {each.sample for each in source.alternatives} == {source.sample}
    for each in source.alternatives:
        assert each.identity.endswith(": 5 rows by colour, seed 3")
    assert loaded(tmp_path).source.sample is None


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


ONE_DATABASE = [
    *("postgresql+psycopg2://ana@127.0.0.1:5432/rides", "postgresql://bo:word@[::1]/rides"),
    "postgresql://LOCALHOST/rides?connect_timeout=3",
    *("postgresql://[::ffff:127.0.0.1]/Rides", f"postgresql://{socket.gethostname()}/rides"),
]


@pytest.mark.parametrize("url", ONE_DATABASE)
def test_two_ways_to_one_database_are_one_source(url, tmp_path, monkeypatch):
    monkeypatch.setenv("RIDES", url)
    source = source_of(tmp_path, f"kind: sql, database: $RIDES, {QUERY}")
    assert "sql:postgresql://localhost:5432/rides" in source.identities


def test_queries_of_one_database_share_it_but_differ(tmp_path, monkeypatch):
    first, second = (
        source_of(tmp_path, f"kind: sql, database: sqlite:///a.db, query: SELECT {name} FROM a")
        for name in ("x", "y")
    )
    assert first.identities == second.identities == (f"file:{tmp_path}/a.db",)
    assert first.identity != second.identity
    assert first.identity.startswith(f"sql:sqlite:///{tmp_path}/a.db, query ")
    monkeypatch.setenv("DP_PIPELINE_DATA", str(tmp_path / "data"))
    there = source_of(tmp_path, f"kind: sql, database: sqlite:///$DP_PIPELINE_DATA/a.db, {QUERY}")
    assert there.location == f"sqlite:///{tmp_path}/data/a.db"
    assert there.needs == "DP_PIPELINE_DATA"


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
    with pytest.raises(DeclarationError) as refused:
        source_of(tmp_path, f"kind: sql, database: $RIDES, {QUERY}")
    assert str(refused.value).partition("toy.yaml:")[2].partition(": ")[2] == (
        f"source.database: expected {EXPECTED_DATABASE} in RIDES, got a text of another form"
    )


@pytest.mark.parametrize("password", ["pa@WORD", "p@a/WORD"])
def test_a_password_that_looks_like_a_host_is_refused(password):
    text = f"postgresql://ana:{password}@127.0.0.1/x"
    with pytest.raises(DeclarationError, match="an @ in the host or the name") as refusal:
        parse_postgres_url(text, of="DP_PIPELINE_LEDGER")
    assert "WORD" not in str(refusal.value)
    assert database_url(text) is None
    quoted = "postgresql://ana:pa%40WORD@127.0.0.1/x"
    assert address_label(parse_postgres_url(quoted, of="X")) == "postgresql://127.0.0.1/x"
    assert database_name(database_url(quoted)) == "postgresql://localhost:5432/x"


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
    urls = ("https://a.example/x.csv", "https://b.example/y.csv")
    first, second = (Source("csv", url, sha256={url: SHA256}).identities for url in urls)
    assert set(first) & set(second) == {f"sha256:{SHA256}"}


def overlap(name: str, other: str) -> bool:
    assert (first_overlap([name], [other]) is None) is (first_overlap([other], [name]) is None)
    return first_overlap([name], [other]) is not None


LABEL = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=8)
HOSTS = st.builds("{}.{}.example".format, LABEL, LABEL)
SEGMENT = st.text("abcXYZ019-._~ é&=+", min_size=1, max_size=6).filter(
    lambda text: text not in (".", "..")
)
PATHS = st.lists(SEGMENT, min_size=1, max_size=4).map(tuple)


def plain(host: str, path: tuple[str, ...]) -> str:
    return f"https://{host}/" + "/".join(quote(part, safe="") for part in path)


def _escaped(host: str, path: str) -> tuple[str, str]:
    first, slash, rest = path[1:].partition("/")
    if "%" not in first:
        first = "".join(f"%{ord(letter):02x}" for letter in first)
    return host, f"/{first}{slash}{rest}"


REWRITINGS: list[Callable[[str, str], tuple[str, str]]] = [
    lambda host, path: (host.upper(), path),
    lambda host, path: (host if host.endswith(".") else f"{host}.", path),
    lambda host, path: (host, path.replace("/", "//", 1)),
    lambda host, path: (host, f"/.{path}"),
    lambda host, path: (host, f"/x/..{path}"),
    lambda host, path: (host, f"/x/%2E%2e{path}"),
    lambda host, path: (host, f"/../..{path}"),
    lambda host, path: (host, path.replace("%C3", "%c3")),
    lambda host, path: (host, path[0] + path[1:].replace("/", "%2f", 1)),
    lambda host, path: (host, path.upper().replace("%2E", "%2e")),
    lambda host, path: (host, f"{path}/"),
    lambda host, path: (host, f"{path};version=1"),
    _escaped,
]
ENDS = st.sampled_from(["", "?x=2", "#part", "?token=1#part"])
PORTS = st.sampled_from(["", ":", ":443", ":0443"])


@given(HOSTS, PATHS, st.lists(st.sampled_from(REWRITINGS), max_size=6), PORTS, ENDS)
def test_every_spelling_of_a_url_has_the_same_names(host, path, chain, port, end):
    names = url_names(plain(host, path))
    assert [url_names(name) for name in names] == [(name,) for name in names]
    spelled = (host, plain(host, path).removeprefix(f"https://{host}"))
    for rewrite in chain:
        spelled = rewrite(*spelled)
    other = f"https://{spelled[0]}{port}{spelled[1]}{end}"
    assert is_allowed_url(other)
    assert url_names(other) == names


@pytest.mark.parametrize(
    ("path", "folder"),
    [("/d//..", "/d"), ("/d/%2e%2e", ""), ("/d%2fe/..", ""), ("/d%2f..", "")],
)
def test_dots_are_removed_as_a_client_does(path, folder):
    assert url_names(f"https://example.org{path}/a.csv") == (f"https://example.org{folder}/a.csv",)


@given(HOSTS, PATHS, HOSTS, PATHS, st.sampled_from(["", ":8443"]))
def test_another_host_port_or_path_is_another_source(host, path, second, other, port):
    paths = ["/".join(each).casefold() for each in (path, other)]
    is_same = host == second and not port and paths[0] == paths[1]
    assert overlap(plain(host, path), plain(f"{second}{port}", other)) is is_same


@pytest.mark.parametrize("port", ["", ":80", ":443", ":8443"])
def test_http_and_https_of_one_host_are_one_source(port):
    plain_url, safe_url = (f"{scheme}://localhost{port}/a.csv" for scheme in ("http", "https"))
    assert url_names(plain_url) == url_names(safe_url)
    assert overlap(plain_url, "https://localhost/a.csv") is (port != ":8443")


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "LocalHost.", "a.localhost", "127.1", "127.255.0.9", "0", "0.0.0.0"),
        *("2130706433", "0x7f000001", "0177.0.0.1", "::1", "::", "::ffff:127.0.0.1", "::1%lo"),
        *("127.0.0.1", "127.9.9.9", "0x7f.1", "017700000001", "::ffff:7f00:1"),
        *("0:0:0:0:0:0:0:1", socket.gethostname(), socket.gethostname().upper()),
        *("localhost.localdomain", "LocalHost.LocalDomain.", "a.localhost.localdomain"),
        *("_outbound", "_localdnsstub", "_localdnsproxy", f"{socket.gethostname()}.local"),
        # A zone names a network here: whether the address is this machine's on it nobody can say.
        *("fe80::1", "fe80::fc:ff:fe00:1%eth0", "febf::1%25eth0"),
    ],
)
def test_every_spelling_of_this_machine_is_recognised(host):
    assert is_host(host)
    assert "localhost" in host_names(host)
    in_url = f"[{host}]" if ":" in host else host
    assert "https://localhost/a.csv" in url_names(f"https://{in_url}/a.csv")
    assert "sql:postgresql://localhost:5432/rides" in server_names(
        f"postgresql://{host}:5432/rides"
    )


@pytest.mark.parametrize(
    "text",
    [
        *("", "a,b", "/run/postgresql", "a b", "-a", "a..b", "%6c", "@"),
        *("10.0.0.5%3a8443", "10.0.0.5%2eexample.org", "127.0.0.1%61", "[fe80::1%25lo]"),
        *("localho\N{LATIN SMALL LETTER LONG S}t", "\N{KELVIN SIGN}ing"),
    ],
)
def test_what_is_no_host_is_none(text):
    assert not is_host(text)
    assert not is_allowed_url(f"https://{text}/a.csv")


@pytest.mark.parametrize("host", ["example.org", "128.0.0.1", "192.0.2.77", "localhost.example"])
def test_another_machine_is_not_this_one(host, monkeypatch):
    assert host_names(host) == (host,)
    # But for the addresses that this machine listens on.
    monkeypatch.setattr(url, "_is_this_machine", lambda name: name == host)
    assert host_names(f"{host}.") == (host, "localhost")


def test_a_name_of_the_hosts_file_is_also_its_address(monkeypatch, tmp_path):
    (tmp_path / "hosts").write_text("127.0.1.1 here # this one\n203.0.113.5  Db db.example\n\nx\n")
    monkeypatch.setattr(url, "_HOSTS", tmp_path / "hosts")
    url._hosts_file.cache_clear()
    try:
        assert host_names("here") == ("here", "localhost")
        assert set(host_names("db")) & set(host_names("203.0.113.5")) == {"203.0.113.5"}
    finally:
        url._hosts_file.cache_clear()


@pytest.fixture
def rides(tmp_path):
    folder = tmp_path / "d"
    folder.mkdir()
    (folder / "rides.csv").write_text("x\n1\n")
    return folder / "rides.csv"


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_file_is_one_source_as_whatever_it_is_read(rides, kind, tmp_path):
    assert Source("sql", f"sqlite:///{rides}").identities == (f"file:{rides}",)
    (tmp_path / "e").symlink_to(rides.parent)
    (tmp_path / "link.csv").symlink_to(tmp_path / "e/rides.csv")
    for path in (rides, tmp_path / "e/rides.csv", tmp_path / "link.csv", f"/proc/self/root{rides}"):
        assert Source(kind, str(path)).identities == (f"file:{rides}",)


@given(st.lists(st.sampled_from(["/.", "//", "/x/..", "/up"]), max_size=5))
def test_every_path_to_a_file_has_the_same_name(steps):
    path = "/data" + "".join(steps).replace("/up", "/y/../../data") + "/rides.csv"
    assert file_name(path) == "file:/data/rides.csv"


def test_a_hard_link_is_the_same_file_while_both_are_there(rides, tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    (folder / "notes.txt").write_text("not a part")
    part, name = folder / "may.parquet", file_name(str(rides))
    for link in (part.symlink_to, part.hardlink_to):
        link(rides)
        assert overlap(file_name(str(folder)), name)
        assert overlap(file_name(str(part)), name)
        part.unlink()
    assert not overlap(file_name(str(folder)), name)
    part.hardlink_to(rides)
    rides.unlink()
    # Numbers of files are used again: what is gone is known by its path alone.
    assert not overlap(name, file_name(str(part)))


def test_a_folder_under_a_second_path_holds_what_lies_in_it(rides, monkeypatch):
    # As with a bind mount, or a file system that does not tell capital letters apart.
    folder, twin = rides.parent, rides.parent.parent / "D"
    real = Path.stat

    def stat(path, **options):
        return real(Path(str(path).replace(str(twin), str(folder))), **options)

    monkeypatch.setattr(Path, "stat", stat)
    assert overlap(f"file:{twin}", f"file:{rides}")
    assert overlap(f"file:{twin / 'rides.csv'}", f"file:{folder}")
    assert overlap(f"file:{twin / 'rides.csv'}", f"file:{rides}")
    assert not overlap(f"file:{twin / 'rides.csv'}", f"file:{folder.parent / 'other.csv'}")


def test_siblings_and_invisible_files_do_not_overlap(rides):
    (rides.parent / "other.csv").write_text("x\n1\n")
    others = [f"file:{rides.parent / 'other.csv'}", f"file:/{'a' * 5000}"]
    for stored in (*others, "inode:", "inode:1", "inode:a:b", "inode:1:2:3"):
        assert not overlap(stored, file_name(str(rides)))


def current(source: Source) -> set[str]:
    return set(source.current_identities)


def test_a_week_that_is_a_link_has_the_name_of_where_it_is(rides, tmp_path):
    weeks = tmp_path / "w"
    weeks.mkdir()
    (weeks / "2026-W01.csv").symlink_to(rides)
    (weeks / "2026-W02.csv").write_text("x\n1\n")
    (weeks / "2026-W03").symlink_to(rides.parent)
    every = Source("csv", str(weeks / "{window}.csv"))
    first, second = (every.of_window(week, 0, 1) for week in ("2026-W01", "2026-W02"))
    assert first.identities == every.identities == (f"file:{weeks}",)
    assert current(first) == {f"file:{weeks}", f"file:{rides}"}
    assert current(second) == {f"file:{weeks}"}
    (weeks / "2026-W01.csv").unlink()
    assert current(first) == {f"file:{weeks}"}
    folder = Source("parquet", str(weeks / "{window}")).of_window("2026-W03", 0, 1)
    assert current(folder) == {f"file:{weeks}", f"file:{rides.parent}"}


@pytest.mark.parametrize("template", [False, True])
def test_links_in_a_folder_of_parts_are_names_too(template, tmp_path):
    lake, weeks = tmp_path / "lake", tmp_path / "weeks"
    folder = weeks / "2026-W01"
    lake.mkdir()
    (folder / "deep").mkdir(parents=True)
    for name in ("a", "b"):
        (lake / name).write_text(name)
        (folder / "deep" / f"{name}.parquet").symlink_to(lake / name)
    (folder / "own.parquet").write_text("own")
    source = Source("parquet", str(weeks / "{window}" if template else folder))
    read = source.of_window("2026-W01", 0, 1) if template else source
    own = weeks if template else folder
    assert current(read) == {f"file:{own}", f"file:{lake / 'a'}", f"file:{lake / 'b'}"}


def test_a_number_is_a_name_only_of_a_file_with_two_links(rides, tmp_path):
    source, folder = Source("csv", str(rides)), Source("parquet", str(rides.parent))
    assert current(source) == {f"file:{rides}"}
    assert current(folder) == {f"file:{rides.parent}"}
    (tmp_path / "other.csv").hardlink_to(rides)
    state = rides.stat()
    inode = f"inode:{state.st_dev}:{state.st_ino}"
    assert current(source) == current(Source("sql", f"sqlite:///{rides}"))
    assert current(source) == {f"file:{rides}", inode}
    assert current(folder) == {f"file:{rides.parent}", inode}
    rides.unlink()
    # The name says which file it was, after its path is gone.
    assert overlap(inode, f"file:{tmp_path / 'other.csv'}")
    assert overlap(inode, f"file:{tmp_path}")
    both = [f"file:{tmp_path}/other.csv", inode]
    assert first_overlap(both, [inode]) == (both[0], inode), "a message shows the path"


@pytest.mark.parametrize("name", ["iris", "trips_like"])
def test_a_built_in_set_is_not_looked_up_as_a_file(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text("x")
    (tmp_path / "twin").hardlink_to(tmp_path / name)
    source = Source("sklearn", name)
    assert source.current_identities == source.identities == (f"sklearn:{name}",)


LOCAL = "sql:postgresql://localhost:5432/rides"
FOLDER, EXAMPLE = "file:/data/rides", "https://example.org/d/a.csv"
# Stored URLs without a canonical form are compared as they are.
STORED = [
    *("https://xn--a.com/a.csv", "https://x.example:port/a.csv", "https://[::1/a.csv"),
    f"https://{'a' * 70}.example/a.csv",
]
ONE_SOURCE = [
    ("https://example.org:443/d/./a.csv", EXAMPLE),
    *((f"sql:postgresql://{host}:5432/Rides", LOCAL) for host in ("127.1", "::ffff:127.0.0.1")),
    *((name, name) for name in ("generator:trips_like?seed=7", dataset_name("rides"), *STORED)),
    (FOLDER, f"{FOLDER}/2026/may.parquet"),
]
TWO_SOURCES = [
    (dataset_name("rides"), dataset_name("rides_2")),
    *(("sql:postgresql://db:5432/a", f"sql:postgresql://db:{end}") for end in ("5433/a", "5432/b")),
    *(("sql:$RIDES", "sql:$TRIPS"), ("sklearn:wdbc", "generator:wdbc"), ("file:/a", "sha256:/a")),
    *((FOLDER, f"{FOLDER}_2/may.parquet"), (FOLDER, f"{FOLDER}_2.csv")),
    *((EXAMPLE, other) for other in (f"{EXAMPLE}/b.csv", *STORED)),
    (LOCAL, f"{LOCAL}/b"),
]


@pytest.mark.parametrize(("name", "other"), [*ONE_SOURCE, *TWO_SOURCES])
def test_names_are_compared_in_their_canonical_form(name, other):
    assert overlap(name, other) is ((name, other) in ONE_SOURCE)
    assert first_overlap([name], [name]) == (name, name)


def test_a_source_has_the_names_of_its_parts(tmp_path):
    paths = [tmp_path / "homes.csv", tmp_path / "persons.csv"]
    source = Source("csv", str(paths[0]), parts=Source("csv", str(paths[1])))
    for names in (source.identities, source.current_identities):
        assert names == tuple(f"file:{path}" for path in paths)
    assert source.identity == f"csv:{paths[0]}, with parts of csv:{paths[1]}"
