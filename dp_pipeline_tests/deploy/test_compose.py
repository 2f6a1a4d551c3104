"""The files of deploy/: what they publish, who sees what, and that their commands exist."""

import importlib.metadata
import re
import tomllib
from pathlib import Path

import psycopg2
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from dp_pipeline.cli.web_guard import ORIGINS_VARIABLE, declared_origins
from dp_pipeline_tests.deploy.compose_file import FOLDER, composed, text, variables
from dp_pipeline_tests.postgres_server import PostgresServer

DIGESTS = ("PYTHON_DIGEST", "POSTGRES_DIGEST")
NAMES = ("POSTGRES_PASSWORD", "LEDGER_PASSWORD", "DAGSTER_PASSWORD", "DATASETS", *DIGESTS)
FILE = composed({name: f"<{name}>" for name in NAMES})
SERVICES = FILE["services"]
OURS = ("history", "code", "webserver", "daemon")


def mounts(service: str) -> dict[str, str]:
    volumes = [volume.split(":") for volume in SERVICES[service]["volumes"]]
    return {where: what for what, where, *_ in volumes}


def test_only_the_pages_are_published_and_only_on_this_computer():
    assert {name: one["ports"] for name, one in SERVICES.items() if "ports" in one} == {
        "webserver": ["127.0.0.1:3000:3000"]
    }


def test_server_of_databases_and_daemon_cannot_reach_outside():
    assert FILE["networks"]["inside"] == {"internal": True}
    reached = {name: one["networks"] for name, one in SERVICES.items()}
    assert reached["postgres"] == reached["history"] == reached["daemon"] == ["inside"]


def test_rows_ledger_and_its_keys_are_seen_by_code_server_alone():
    for what in ("data", "head", "<DATASETS>"):
        assert [name for name in SERVICES if what in mounts(name).values()] == ["code"]
    for name in ("history", "webserver", "daemon"):
        assert "LEDGER" not in str(SERVICES[name])
        assert "DP_PIPELINE_HOME" not in SERVICES[name]["environment"]


def test_the_pages_are_served_by_the_guarded_web_server_alone():
    commands = {name: str(service.get("command")) for name, service in SERVICES.items()}
    assert [name for name, text in commands.items() if "webserver" in text] == ["webserver"]
    assert SERVICES["webserver"]["command"][:2] == ["dp-pipeline", "webserver"]
    assert "dagster-webserver" not in str(commands)


def test_the_origin_of_a_proxy_is_reported_to_the_web_server(monkeypatch):
    proxy = "https://budget.example.org"
    named = composed({**dict.fromkeys(NAMES, "x"), ORIGINS_VARIABLE: proxy})
    for file, origins in ((FILE, ()), (named, (proxy,))):
        told = file["services"]["webserver"]["environment"][ORIGINS_VARIABLE]
        monkeypatch.setenv(ORIGINS_VARIABLE, told)
        assert declared_origins() == origins


def test_the_head_is_on_a_volume_of_its_own():
    environment, where = SERVICES["code"]["environment"], mounts("code")
    head = Path(environment["DP_PIPELINE_LEDGER_HEAD"])
    assert where[str(head.parent)] == "head"
    assert where[environment["DP_PIPELINE_HOME"]] == "data"
    assert set(FILE["volumes"]) == {"postgres", "data", "head", "history"}


def test_no_password_stands_in_file_and_example_names_all_needed():
    example = (FOLDER / "env.example").read_text(encoding="utf-8")
    assert set(re.findall(r"^(\w+)=$", example, re.MULTILINE)) == variables() == set(NAMES)
    said = re.compile(r"_PASSWORD *[:=] *['\"]?\w|://\w+:[^$@\s]+@")
    for path in FOLDER.iterdir():
        assert path.name == ".env" or not said.search(path.read_text(encoding="utf-8")), path
    assert text().count("_PASSWORD:?") == len(re.findall(r"\$\{\w+_PASSWORD", text()))


def test_settings_are_those_of_project_with_history_on_server():
    ours = yaml.safe_load((FOLDER.parent / "dagster.yaml").read_text(encoding="utf-8"))
    deployed = yaml.safe_load((FOLDER / "dagster.yaml").read_text(encoding="utf-8"))
    assert deployed.pop("storage") == {"postgres": {"postgres_url": {"env": "DP_PIPELINE_DAGSTER"}}}
    assert deployed == ours


def test_one_part_alone_makes_history_before_others_start():
    awaited = {name: SERVICES[name]["depends_on"] for name in OURS}
    completed = {"condition": "service_completed_successfully"}
    assert awaited["history"] == {"postgres": {"condition": "service_healthy"}}
    assert awaited["code"] == {**awaited["history"], "history": completed}
    assert awaited["webserver"] == awaited["daemon"] == {"code": {"condition": "service_healthy"}}
    # One that is started again when it has ended never lets the others start.
    assert SERVICES["history"]["restart"] == "no"


def test_the_daemon_waits_for_a_code_server_that_is_away():
    told = SERVICES["daemon"]["environment"]
    assert told["DAGSTER_BACKFILL_RETRY_DEFINITION_CHANGED_ERROR"] == "1"
    assert told.items() >= SERVICES["history"]["environment"].items()


def test_the_code_server_is_found_on_the_inner_network_alone():
    code = SERVICES["code"]
    (location,) = yaml.safe_load((FOLDER / "workspace.yaml").read_text())["load_from"]
    host, port = location["grpc_server"]["host"], str(location["grpc_server"]["port"])
    for command in (code["command"], code["healthcheck"]["test"]):
        assert command[command.index("--host") + 1] == host
        assert command[command.index("--port") + 1] == port
    # A name of one network: that of the service means the part on each of its networks.
    assert code["networks"]["inside"] == {"aliases": [host]}
    assert host not in SERVICES
    shared = [set(service["networks"]) & {*code["networks"]} for service in SERVICES.values()]
    assert [names for names in shared if names != {"inside"}] == [set(code["networks"])]


def test_images_are_named_by_digests_that_have_to_be_said():
    first, second = (FOLDER / "Dockerfile").read_text(encoding="utf-8").splitlines()[:2]
    assert (first, second) == (f"ARG {DIGESTS[0]}", f"FROM python:3.11-slim@${{{DIGESTS[0]}}}")
    assert SERVICES["code"]["build"]["args"] == {DIGESTS[0]: f"<{DIGESTS[0]}>"}
    images = {name: service["image"] for name, service in SERVICES.items()}
    postgres = {"postgres": f"postgres:17@<{DIGESTS[1]}>"}
    assert images == postgres | dict.fromkeys(OURS, "dp-pipeline")


LOCKED = re.compile(
    r"^([^\s\[=]+)(\[\S+\])?==(\S+)( ; [^\\]+)?(?: \\\n    --hash=sha256:[0-9a-f]{64})+$",
    re.MULTILINE,
)


def requirements_of(name: str) -> list[Requirement]:
    """What a package of this environment wants; nothing of one that is not here."""
    try:
        requirements = map(Requirement, importlib.metadata.requires(name) or [])
    except importlib.metadata.PackageNotFoundError:
        return []
    return [r for r in requirements if r.marker is None or r.marker.evaluate({"extra": ""})]


def test_every_package_of_the_image_has_its_version_and_digests():
    text = (FOLDER / "requirements.txt").read_text(encoding="utf-8")
    assert LOCKED.sub("", text).strip() == "", "a line without a digest, or another option"
    assert len(text.encode()) < 1 << 20
    versions = {(found[1], found[3]) for found in LOCKED.finditer(text)}
    constrained = (FOLDER.parent / "constraints.txt").read_text(encoding="utf-8")
    known = set(re.findall(r"^([^\s=]+)==([^\s;]+)", constrained, re.MULTILINE))
    assert {one for one in versions if one[0] in dict(known)} <= known
    project = tomllib.loads((FOLDER.parent / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]["postgresql"]
    wanted = [*project["project"]["dependencies"], *extras, *project["build-system"]["requires"]]
    inner = [one for name, _ in versions for one in requirements_of(name)]
    for one in [*map(Requirement, wanted), *inner]:
        name = canonicalize_name(one.name)
        assert any(name == other and version in one.specifier for other, version in versions), one
        # pip wants those with extras by themselves.
        assert not one.extras or f"{name}[{','.join(sorted(one.extras))}]==" in text, one
    run = (FOLDER / "Dockerfile").read_text(encoding="utf-8")
    assert "--require-hashes --only-binary :all: --requirement requirements.txt" in run
    assert "--no-index --no-deps --no-build-isolation ." in run


def test_every_command_is_a_program_that_the_image_installs():
    scripts = {point.name for point in importlib.metadata.entry_points(group="console_scripts")}
    assert {SERVICES[service]["command"][0] for service in OURS} <= scripts


def test_image_is_made_of_what_project_ships_and_of_nothing_else():
    ignored = (FOLDER / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    kept = {line[1:] for line in ignored if line.startswith("!")}
    assert "*" in ignored
    copied = re.findall(r"^COPY (.+) \S+$", (FOLDER / "Dockerfile").read_text(), re.MULTILINE)
    assert {name for line in copied for name in line.split()} == kept
    assert all((FOLDER.parent / name).exists() for name in kept)
    assert SERVICES["code"]["build"]["dockerfile"] == "deploy/Dockerfile"


def test_each_database_has_an_owner_who_cannot_open_the_other(databases: PostgresServer):
    for name, other in (("ledger", "dagster"), ("dagster", "ledger")):
        at = {"host": "127.0.0.1", "port": databases.port, "user": name}
        with psycopg2.connect(dbname=name, password=f"of{name}", **at) as connection:
            connection.cursor().execute("CREATE TABLE tried (n integer)")
        with pytest.raises(psycopg2.OperationalError, match="permission denied"):
            psycopg2.connect(dbname=other, password=f"of{name}", **at)
        with pytest.raises(psycopg2.OperationalError, match="password"):
            psycopg2.connect(dbname=name, password="wrong", **at)
