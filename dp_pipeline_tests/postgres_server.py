"""A real PostgreSQL server for tests: on loopback, in a new folder, gone at the end."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest

from dp_pipeline_tests.stack.processes import free_port

_USER = "steward"
_PASSWORD = "a p@ss/word:of%20tests"
"""Every letter that a careless URL would trip over."""
_QUOTED = "a%20p%40ss%2Fword%3Aof%2520tests"
_NUMBERS = count(1)


@dataclass
class PostgresServer:
    """One server over one folder; both go with the process that made them.

    binaries   folder of initdb and postgres
    folder     made by this class, belongs to the user that the server runs as
    """

    binaries: Path
    folder: Path
    port: int = 0
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def make(self) -> None:
        """An empty cluster with a password; forgets nothing at a crash."""
        account = _account()
        secret = self.folder / "password"
        secret.write_text(_PASSWORD, encoding="utf-8")
        for path in (self.folder, secret):
            os.chown(path, account.pw_uid, account.pw_gid)
        # A ledger connects for every question: SCRAM would hash each password 4,096 times.
        options = ["--auth=md5", f"--username={_USER}", f"--pwfile={secret}"]
        sizes = ["--wal-segsize=1", "--no-sync", "--locale=C.UTF-8", "--encoding=UTF8"]
        command = [str(self.binaries / "initdb"), "-D", str(self._data), *options, *sizes]
        made = subprocess.run(_as_server(command), capture_output=True, cwd="/", check=False)
        assert made.returncode == 0, made.stderr.decode()

    def start(self) -> None:
        """Start on the port of last time, or on a free one."""
        self.port = self.port or free_port()
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            "shared_buffers": "16MB",
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        command = [str(self.binaries / "postgres"), "-D", str(self._data), *options]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                _as_server(command), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/"
            )
        self._wait()

    def stop(self) -> None:
        """As if the power had gone; a later ``start`` recovers."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(60)
            self._process = None

    def new_database(self) -> str:
        name = f"tests_{next(_NUMBERS)}"
        self.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def new_schema(self) -> str:
        """The URL of an empty part of one database: a hundred times less to write than another."""
        name = f"tests_{next(_NUMBERS)}"
        self.execute(f"CREATE SCHEMA {name}")
        return f"{self.url()}?options=-csearch_path%3D{name}"

    def url(self, database: str = "postgres") -> str:
        """``postgresql://user:password@127.0.0.1:port/database``."""
        return f"postgresql://{_USER}:{_QUOTED}@127.0.0.1:{self.port}/{database}"

    @property
    def client_environment(self) -> dict[str, str]:
        """What psql and other programs of the server are told, in the words of its image."""
        user = {"POSTGRES_USER": _USER, "PGPASSWORD": _PASSWORD}
        return {**user, "PGHOST": "127.0.0.1", "PGPORT": str(self.port)}

    def execute(self, statement: str, *, url: str | None = None) -> list[tuple[object, ...]]:
        """One statement as the superuser, outside a transaction; the rows that it gives."""
        import psycopg2

        connection = psycopg2.connect(url or self.url())
        try:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(statement)
                return cursor.fetchall() if cursor.description else []
        finally:
            connection.close()

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _wait(self) -> None:
        import psycopg2

        assert self._process is not None
        deadline = time.monotonic() + 60
        while True:
            try:
                psycopg2.connect(self.url()).close()
                return
            except psycopg2.OperationalError:
                log = (self.folder / "log").read_text(encoding="utf-8", errors="replace")
                assert self._process.poll() is None, log
                assert time.monotonic() < deadline, log
                time.sleep(0.05)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One server a test process: nothing is shared between workers."""
    pytest.importorskip("psycopg2", reason="psycopg2 is not installed: dp-pipeline[postgresql]")
    binaries = _binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server here: apt-get install postgresql")
    if shutil.which("setpriv") is None:
        pytest.skip("no setpriv here: the server could outlive the tests")
    # Beside pytest's own folder, in memory where that is: nobody but its owner may enter that one.
    beside = os.environ.get("PYTEST_DEBUG_TEMPROOT")
    folder = tempfile.mkdtemp(prefix="dp-pipeline-postgres-", dir=beside)
    server = PostgresServer(binaries, Path(folder))
    try:
        server.make()
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(server.folder, ignore_errors=True)


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> str:
    """A database of its own, empty; the user may do everything, the password needs quoting."""
    return postgres_server.new_database()


def _binaries() -> Path | None:
    """Where initdb and postgres lie; Debian keeps them out of the path, by version."""
    on_path = shutil.which("postgres")
    folders = [Path(on_path).resolve().parent] if on_path else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((one for one in folders if (one / "initdb").is_file()), None)


def _account() -> pwd.struct_passwd:
    """Who runs the server: it refuses to run as root."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid())
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        pytest.skip("no user postgres here: the server refuses to run as root")


def _as_server(command: list[str]) -> list[str]:
    """The command as that user; it ends with the process that started it, however that ends."""
    prefix = ["setpriv", "--pdeathsig", "QUIT"]
    if os.geteuid() == 0:
        account = _account()
        prefix += [f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]
    return [*prefix, "--", *command]
