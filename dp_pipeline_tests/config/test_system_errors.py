"""What the operating system refuses is one line: its reason, the file, what to do; never a row."""

import errno
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError

import dp_pipeline
from dp_pipeline.cli import OneLineErrors, main
from dp_pipeline.config.errors import PipelineError
from dp_pipeline.config.system_errors import bounded_bytes, follow_links, system_error
from dp_pipeline.ledger.head import Head

PACKAGE = Path(dp_pipeline.__file__).parent
SECRET = "90210777"
NAMES = "ENOSPC EDQUOT EACCES EPERM EROFS ENAMETOOLONG EMFILE EIO ENOENT EISDIR ELOOP"


MAKE: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "endless": lambda path: path.symlink_to("/dev/zero"),
    "huge": lambda path: (path.touch(), os.truncate(path, 1 << 30)),
    "folder": Path.mkdir,
    "circle": lambda path: path.symlink_to(path),
    "binary": lambda path: path.write_bytes(bytes(range(256))),
    "deep": lambda path: path.write_text("[" * 4000),
}
ODD = {
    "pipe": "a device or a pipe",
    "endless": "a device or a pipe",
    "huge": "more than",
    "folder": "Is a directory",
    "circle": "Too many levels of symbolic links",
}


@pytest.mark.parametrize("name", NAMES.split())
def test_a_system_error_is_its_reason_and_a_remedy(name):
    number = getattr(errno, name)
    places = {
        "/srv/rides.csv": "/srv/rides.csv cannot be used",
        None: "the operating system refuses",
    }
    for path, place in places.items():
        line = str(system_error(OSError(number, SECRET, path)))
        reason, _, remedy = line.partition("; ")
        assert reason == f"{place}: {os.strerror(number)}"
        assert remedy.startswith("free some space") or name != "ENOSPC"
        assert remedy
        assert SECRET not in line
        assert "\n" not in line


@pytest.mark.parametrize(
    "error", [OSError(SECRET), ValueError(SECRET), BrokenPipeError(errno.EPIPE, "gone"), KeyError()]
)
def test_what_is_no_refusal_of_the_system_is_none(error):
    assert system_error(error) is None


def test_a_damaged_database_is_named_behind_other_errors(tmp_path):
    path = tmp_path / "runs.db"
    damage = "Dagster's run history: it is damaged ({}); move its folder"
    connection = sqlite3.connect(path)
    with pytest.raises(sqlite3.OperationalError) as raised:
        connection.execute("SELECT 1 FROM runs")
    connection.close()
    assert str(system_error(raised.value)).startswith(damage.format("SQLITE_ERROR"))
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(DBAPIError) as raised:
        create_engine(f"sqlite:///{path}").connect().execute(text(f"SELECT '{SECRET}' FROM runs"))
    wrapped = RuntimeError(SECRET)
    wrapped.__cause__ = raised.value
    line = str(system_error(wrapped))
    assert line.startswith(damage.format("SQLITE_NOTADB"))
    assert SECRET not in line


WRONG = {
    "closed": lambda connection: (connection.close(), connection.execute("SELECT 1")),
    "twice": lambda connection: connection.execute("INSERT INTO runs VALUES (1), (1)"),
    "unbound": lambda connection: connection.execute("SELECT ?"),
    "too big": lambda connection: connection.execute("SELECT zeroblob(2000000000)"),
}


@pytest.mark.parametrize("fails", WRONG.values(), ids=WRONG)
def test_a_wrong_query_is_not_called_a_damaged_database(fails, tmp_path):
    connection = sqlite3.connect(tmp_path / "runs.db")
    connection.execute("CREATE TABLE runs (id UNIQUE)")
    with pytest.raises(sqlite3.Error) as raised:
        fails(connection)
    assert system_error(raised.value) is None


def test_the_error_of_a_full_disk_names_the_disk(tmp_path):
    connection = sqlite3.connect(tmp_path / "runs.db")
    connection.execute("PRAGMA max_page_count = 1")
    with pytest.raises(sqlite3.OperationalError) as raised:
        connection.execute("CREATE TABLE runs (id)")
    assert str(system_error(raised.value)).startswith("a database file: the disk is full (")


def test_only_an_error_of_the_system_is_one_line_of_a_command():
    @click.command()
    @click.argument("name")
    def work(name: str) -> None:
        raise {"ours": KeyError(name), "system": OSError(errno.ENOSPC, SECRET, "/srv/data")}[name]

    program = OneLineErrors(commands=[work])
    run = CliRunner().invoke(program, ["work", "system"])
    assert run.exit_code == 1
    assert run.output.startswith("dp-pipeline: /srv/data cannot be used: No space left on device; ")
    assert len(run.output.splitlines()) == 1
    assert isinstance(CliRunner().invoke(program, ["work", "ours"]).exception, KeyError)


@pytest.mark.parametrize("kind", ODD)
def test_no_more_is_read_of_an_odd_file_than_of_a_good_one(kind, tmp_path):
    MAKE[kind](tmp_path / "odd")
    with pytest.raises(OSError, match=ODD[kind]):
        bounded_bytes(tmp_path / "odd", max_bytes=100)
    (tmp_path / "file").write_bytes(b"x" * 100)
    assert bounded_bytes(tmp_path / "file", max_bytes=100) == b"x" * 100


def check(path: object, *codes: int) -> str:
    run = CliRunner().invoke(main, ["data", "check", str(path)])
    assert run.exit_code in codes
    (line,) = run.output.splitlines()
    return line


@pytest.mark.parametrize("kind", [*ODD, "binary"])
def test_an_odd_data_set_file_is_refused_in_one_line(kind, tmp_path):
    MAKE[kind](tmp_path / "rides.yaml")
    assert ODD.get(kind, "not UTF-8 text") in check(tmp_path / "rides.yaml", 2)
    for name in ("x" * 300 + ".yaml", "y/" * 3000 + "rides.yaml"):
        assert os.strerror(errno.ENAMETOOLONG) in check(tmp_path / name, 1, 2)


@pytest.mark.parametrize("kind", [*ODD, "binary", "deep"])
def test_an_odd_head_of_a_ledger_is_refused_in_one_line(kind, tmp_path):
    MAKE[kind](tmp_path / "ledger.head")
    with pytest.raises(PipelineError) as refused:
        Head(tmp_path / "ledger.head").read()
    assert ODD.get(kind, "must hold the number and hash of a row, but it does not") in str(
        refused.value
    )
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("make", [MAKE["circle"], lambda path: path.symlink_to(path / "below")])
def test_links_in_a_circle_are_followed_without_an_error(make, tmp_path):
    make(tmp_path / "link")
    assert follow_links(tmp_path / "link").name in ("link", "below")
    users = [path for path in PACKAGE.rglob("*.py") if ".resolve()" in path.read_text()]
    assert not users, "Path.resolve of Python before 3.13 ends with a RuntimeError"
