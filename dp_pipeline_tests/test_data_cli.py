"""`dp-pipeline data`: drafting a data set file, and checking one."""

import json
import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from dp_pipeline.cli import main
from dp_pipeline.config import parameters
from dp_pipeline.config.catalogue import available_datasets
from dp_pipeline.config.draft import SCHEMA_FILE
from dp_pipeline.config.parser import load_spec
from dp_pipeline.ledger import Ledger
from dp_pipeline.releases.account import declared_account
from dp_pipeline_tests.config.declarations import assert_no_name_twice, declaration, written
from dp_pipeline_tests.ledger.population import account, charge

SECRET = "1902107770713359"

ROWS = f"Rider,lat,lon,bike\nann,47.1,8.5,{SECRET}\nbob,47.2,8.4,city\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder of its own that is also the folder of data sets; no project around it."""
    for name in ("DP_PIPELINE_HOME", "DP_PIPELINE_DATA", "DP_PIPELINE_LEDGER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DP_PIPELINE_DATASETS", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rides.csv").write_text(ROWS)
    return tmp_path


def data(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["data", *arguments])


def succeeded(*arguments: str) -> str:
    """Return what a command prints that says nothing on stderr."""
    result = data(*arguments)
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return result.stdout


def assert_refused(result: Result, code: int, *words: str) -> None:
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("dp-pipeline: ")
    assert result.stderr.count("\n") == 1
    for word in words:
        assert word in result.stderr
    assert SECRET not in result.stderr
    assert_no_name_twice(result.stderr)


def test_a_sensitive_draft_holds_no_value_and_cannot_run(folder: Path) -> None:
    output = succeeded("init", "rides", "--from", "rides.csv")
    assert "decide every TODO in it" in output
    text = (folder / "rides.yaml").read_text()
    assert "source: {kind: csv, path: rides.csv}\n" in text
    assert text.startswith(f"# yaml-language-server: $schema={SCHEMA_FILE}\n")
    for value in (SECRET, "ann", "47.1", "city"):
        assert value not in text + output
    assert_refused(data("check", "rides.yaml"), 2, "rides.yaml:", "protection.unit", "got TODO")
    for command in ("run", "plan"):
        refused = CliRunner().invoke(main, [command, "rides"])
        assert_refused(refused, 2, "protection.unit", "`dp-pipeline data check`")


def line_with(mark: str) -> str:
    """Return the one line of the list of data sets that has this mark."""
    (line,) = [line for line in succeeded("list").splitlines() if mark in line]
    return line.rstrip()


def test_a_draft_hides_no_other_data_set_from_the_list(folder: Path) -> None:
    succeeded("init", "rides", "--from", "rides.csv")
    written(folder, declaration())
    assert line_with(" toy ").startswith(" toy ")
    line = line_with("rides.yaml:")
    assert line.startswith("invalid declaration: ")
    assert "protection.unit: expected one_row | rows_of_person | group, got TODO: " in line


def test_the_list_marks_downloads_without_the_network(folder: Path) -> None:
    download = "download: {url: 'https://example.org/a', at_most_mb: 1, sha256: " + "ab" * 32 + "}"
    written(folder, declaration(source=f"source: {{kind: csv, path: toy.csv, {download}}}"))
    assert line_with(" toy ").endswith(" by download")
    assert line_with(" nltcs ").endswith(" needs DP_PIPELINE_DATA")
    (folder / "toy.csv").write_text("x\n")
    assert line_with(" toy ").endswith(" yes")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_draft_depends_on_no_row(kind: str, folder: Path) -> None:
    """A draft that depended on a row could not be sent to anybody."""
    texts = set()
    for rows in ([0.5, 99.0], [], [7.0] * 50):
        towns = pa.array([f"t{x}" for x in rows], pa.string())
        table = pa.table({"age": pa.array(rows, pa.float64()), "town": towns})
        write_table = pa.csv.write_csv if kind == "csv" else pq.write_table
        write_table(table, folder / f"rows.{kind}")
        succeeded("init", "people", "--from", f"rows.{kind}")
        texts.add((folder / "people.yaml").read_text())
        (folder / "people.yaml").unlink()
    assert len(texts) == 1


def test_the_person_is_protected_and_no_attribute(folder: Path) -> None:
    succeeded("init", "rides", "--from", "rides.csv", "--person", "Rider")
    text = (folder / "rides.yaml").read_text()
    assert "protection: {unit: rows_of_person, column: Rider, at_most: TODO}\n" in text
    assert "\n  rider:" not in text
    assert_refused(data("check", "rides.yaml"), 2, "protection.at_most", "got TODO")
    refused = data("init", "walks", "--from", "rides.csv", "--person", "walker")
    assert_refused(refused, 2, "for persons: name one of its columns")


@pytest.mark.parametrize("kind", [pa.float64(), pa.bool_(), pa.date32()])
def test_a_column_that_is_no_id_is_refused_before_a_draft(folder: Path, kind: pa.DataType) -> None:
    rows = pa.table({"rider": pa.nulls(1, kind), "lat": [47.1]})
    pq.write_table(rows, folder / "walks.parquet")
    refused = data("init", "walks", "--from", "walks.parquet", "--person", "rider")
    assert_refused(refused, 2, "must hold text or whole numbers, not the type")
    assert not (folder / "walks.yaml").exists()


def test_a_draft_overwrites_nothing(folder: Path) -> None:
    (folder / SCHEMA_FILE).write_text("mine")
    succeeded("init", "rides", "--from", "rides.csv")
    before = (folder / "rides.yaml").read_text()
    assert_refused(data("init", "rides", "--from", "rides.csv"), 2, "has this name already")
    assert_refused(data("init", "trips", "--from", "rides.csv"), 2, "has this name already")
    assert (folder / "rides.yaml").read_text() == before
    assert (folder / SCHEMA_FILE).read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        ("Rides --from rides.csv", 2, "the name must have a-z"),
        ("../rides --from rides.csv", 2, "the name must have a-z"),
        ("walks --from walks.csv", 1, "No such file"),
        ("walks --from rides.csv --query 'SELECT 1'", 2, "only a database has --query"),
        ("walks --from sqlite:///a.db", 2, "needs --query"),
        ("walks --from sqlite:///a.db --query 'DROP TABLE a'", 2, "one SELECT"),
        ("walks --from $NO_DATABASE --query 'SELECT 1'", 2, "NO_DATABASE must hold"),
        ("walks --from a.parquet --header a,b", 2, "only a CSV file has --header"),
        ("walks --from rides.csv --delimiter ab", 2, "delimiter"),
    ],
)
def test_a_refused_draft_writes_nothing(arguments, code: int, word: str, folder: Path) -> None:
    assert_refused(data("init", *shlex.split(arguments)), code, word)
    assert [path.name for path in folder.iterdir()] == ["rides.csv"]


def test_a_file_is_named_so_that_both_may_be_moved(folder: Path, monkeypatch) -> None:
    def path_of(name: str, *options: str) -> str:
        succeeded("init", name, "--from", "rides.csv", *options)
        draft = next(folder.rglob(f"{name}.yaml")).read_text()
        return draft.partition("path: ")[2].partition("}")[0]

    assert path_of("first") == "rides.csv"
    assert path_of("second", "--folder", "sets") == str(folder / "rides.csv")
    monkeypatch.setenv("DP_PIPELINE_DATA", str(folder))
    assert path_of("third", "--folder", "sets") == "$DP_PIPELINE_DATA/rides.csv"


def test_the_schema_is_printed_and_lies_beside_a_draft(folder: Path) -> None:
    printed = succeeded("schema")
    assert json.loads(printed)["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    succeeded("init", "rides", "--from", "rides.csv")
    assert (folder / SCHEMA_FILE).read_text(encoding="utf-8") == printed


def warnings(folder: Path, **changes: str) -> list[str]:
    lines = succeeded("check", str(written(folder, declaration(**changes)))).splitlines()
    return [line.removeprefix("warning: ") for line in lines if line.startswith("warning: ")]


@pytest.fixture
def ledger(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    monkeypatch.setenv("DP_PIPELINE_HOME", str(folder / "home"))
    (folder / "toy.csv").write_text("x\n")
    return Ledger(folder / "home" / "ledger")


def claim(ledger: Ledger, purpose: str, source: str) -> None:
    """Let the population others hold a source, as rows to release or as a benchmark."""
    ceiling = "1" if purpose == "release" else None
    ledger.open_account(account("others", purpose=purpose, ceiling=ceiling))
    ledger.claim_source("others", source)


@pytest.mark.parametrize("is_held", [False, True])
def test_a_draft_of_public_rows_is_a_good_declaration(is_held, folder: Path, ledger: Ledger):
    (folder / "rides.csv").write_text(ROWS + "cid,47.15,8.45,city\n")
    if is_held:
        claim(ledger, "benchmark", f"file:{folder / 'rides.csv'}")
    succeeded("init", "rides", "--from", "rides.csv", "--public")
    spec = load_spec(folder / "rides.yaml")
    assert (spec.purpose, spec.nominal_rows) == ("benchmark", 3)
    assert list(spec.models) == ["htree_kmeans", "one_shot"]
    assert "rides" in [dataset.name for dataset in available_datasets()]
    if not is_held:
        assert "the declaration is valid" in succeeded("check", "rides.yaml")


def test_protected_rows_are_not_looked_at_under_any_name(folder: Path, ledger: Ledger) -> None:
    rows = folder / "rides.csv"
    claim(ledger, "release", f"file:{rows}")
    Path("linked.csv").hardlink_to(rows)
    Path("parts").mkdir()
    Path("parts/may.parquet").symlink_to(rows)
    for origin in ("rides.csv", "linked.csv", "parts", "/proc/self/cwd/rides.csv"):
        refused = data("init", "again", "--from", origin, "--public")
        assert_refused(refused, 2, "is protected by population others", "`purpose: release`")
    assert not Path("again.yaml").exists()
    # Names and types of columns alone may be drafted still.
    succeeded("init", "again", "--from", "rides.csv")


@pytest.mark.usefixtures("ledger")
def test_a_source_that_is_not_there_is_a_warning(folder: Path) -> None:
    (folder / "toy.csv").unlink()
    assert warnings(folder) == [f"the source {folder / 'toy.csv'} is not there"]
    (folder / "toy.csv").write_text("x\n")
    assert warnings(folder) == []


def test_without_a_project_a_warning_names_the_variable(folder: Path) -> None:
    (folder / "toy.csv").write_text("x\n")
    (warning,) = warnings(folder)
    assert "`export DP_PIPELINE_HOME=FOLDER`" in warning


def test_a_variable_that_is_not_set_is_refused_as_by_plan(folder: Path) -> None:
    for source, end in (
        ("{kind: csv, path: $DP_PIPELINE_DATA/toy.csv}", "`export DP_PIPELINE_DATA=FOLDER`\n"),
        ("{kind: sql, database: $RIDES, query: SELECT x FROM toy}", "`export RIDES=URL`\n"),
    ):
        assert refused_as_by_plan(folder, source=f"source: {source}").endswith(end)


def refused_as_by_plan(folder: Path, *, code: int = 2, **changes: str) -> str:
    """The refusal of a check, which `plan` must say alike."""
    path = written(folder, declaration(**changes))
    planned = CliRunner().invoke(main, ["plan", "toy"])
    assert planned.exit_code == code
    assert_refused(data("check", str(path)), code, planned.stderr)
    return planned.stderr


@pytest.mark.usefixtures("ledger")
@pytest.mark.parametrize(
    ("models", "unreleased"),
    [
        ("{one_shot: }", ["x"]),
        ("{one_shot: , htree_kmeans: {k: 2, columns: z}}", ["x"]),
        ("{one_shot: , htree_kmeans: {k: 2}}", []),
        ("{htree_kmeans: {k: 2, columns: z}}", []),
    ],
)
def test_a_number_that_no_table_can_have_is_a_warning(models, unreleased, folder: Path) -> None:
    lines = warnings(
        folder,
        attributes="attributes: {x: {bounds: [0, 9]}, z: {bounds: [0, 9], bins: 3}}",
        models=f"models: {models}",
    )
    advice = "declare `bins` or `edges`, without which no table has it"
    assert lines == [f"no model releases {name}: {advice}" for name in unreleased]


@pytest.mark.usefixtures("ledger")
def test_a_folder_that_no_command_looks_into_is_a_warning(folder: Path, monkeypatch) -> None:
    monkeypatch.setenv("DP_PIPELINE_DATASETS", str(folder / ".."))
    assert warnings(folder) == [
        f"commands and Dagster look for it with DP_PIPELINE_DATASETS={folder} alone"
    ]


PROTECT = "`population: others` and `purpose: release`"
PUBLIC = {"purpose": "purpose: benchmark", "population": "population: gardens"}


@pytest.mark.parametrize(
    ("holder", "changes", "refused"),
    [
        ("release", {}, ("belongs to population others", "distinct_population: REASON")),
        ("benchmark", {}, ("belongs to population others", "distinct_population: REASON")),
        ("release", {"distinct": "distinct_population: other persons"}, ()),
        ("release", PUBLIC, ("is protected by population others", PROTECT)),
        ("benchmark", PUBLIC, ()),
    ],
)
def test_a_source_of_another_population_is_refused_unclaimed(
    holder: str, changes, refused: tuple[str, ...], folder: Path, ledger: Ledger
) -> None:
    claim(ledger, holder, f"file:{folder / 'toy.csv'}")
    before = ledger.entries()
    if refused:
        checked = data("check", str(written(folder, declaration(**changes))))
        assert_refused(checked, 2, *refused)
    else:
        assert warnings(folder, **changes) == []
    assert ledger.entries() == before


def test_the_first_holder_of_a_source_is_not_refused(folder: Path, ledger: Ledger) -> None:
    declared = load_spec(written(folder, declaration()))
    ledger.open_account(declared_account(declared))
    (source,) = declared.source.identities
    ledger.claim_source("people", source)
    ledger.open_account(account("others"))
    ledger.claim_source("others", source, distinct_population="drivers, not riders")
    assert warnings(folder) == []


def test_another_account_is_refused_as_by_plan(folder: Path, ledger: Ledger) -> None:
    assert warnings(folder) == []
    assert not ledger.folder.exists(), "a check makes no ledger"
    ledger.open_account(account("people", ceiling="4"))
    refusal = refused_as_by_plan(folder)
    assert "population people: the account was opened with unit 'one row'" in refusal


def test_a_budget_that_is_too_small_is_refused_as_by_plan(folder: Path, ledger: Ledger) -> None:
    declared = load_spec(written(folder, declaration()))
    ledger.open_account(declared_account(declared))
    with ledger.reserve(charge(population="people", epsilon=str(declared.ceiling))) as spent:
        spent.die("a fit that ended")
    refusal = refused_as_by_plan(folder, code=3)
    assert "`dp-pipeline budget raise toy --total … --reason …`" in refusal


def test_seeded_noise_is_refused_as_by_plan(folder: Path, ledger: Ledger, monkeypatch) -> None:
    monkeypatch.setenv("DP_PIPELINE_NOISE", "seeded:7")
    refusal = refused_as_by_plan(folder)
    assert "must be drawn without a seed" in refusal
    assert "unset the variable DP_PIPELINE_NOISE" in refusal
    assert not ledger.folder.exists()


@pytest.mark.usefixtures("ledger")
def test_a_name_that_another_file_has_is_refused(folder: Path) -> None:
    path = written(folder, declaration())
    (folder / "drafts").mkdir()
    copied = folder / "drafts" / "toy.yaml"
    copied.write_text(path.read_text())
    assert_refused(data("check", str(copied)), 2, f"{path} has the same")
    succeeded("check", str(path))


def test_every_parameter_of_a_model_can_be_checked_alone() -> None:
    """What ``require_buildable`` rests on: no parameter needs another one to be there."""
    from dp_pipeline.anonymity import METHODS
    from dp_pipeline.models import MODELS

    for model in (*MODELS.values(), *METHODS.values()):
        assert parameters.from_text(model, {}, of="toy") is not None


AGE = "\n  age: {bounds: [16, 99], bins: 5, nullable: true}"
ATTRIBUTES = """\
attributes:
  day: {type: date, bounds: [2026-10-01, 2026-10-31], every: week, format: "%d.%m.%Y"}
  fare: {bounds: [0, 50], bins: 5, decimal: ","}
  bike: {levels: [city, cargo], nullable: true}
  hour: {levels: 0..23, nullable: true}"""


def parsed(**changes: str) -> str:
    """A declaration of messy rows."""
    own = {
        "protection": "protection: {unit: one_row}",
        "source": "source: {kind: csv, path: messy.csv, delimiter: ;}",
        "attributes": ATTRIBUTES + AGE,
        "derive": "derive: {hour: {hour: at}}",
        "models": "models: {one_shot: }",
    }
    return declaration(**{**own, **changes})


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dp_pipeline.cli.data.is_terminal", lambda: True)


@pytest.fixture
def messy(folder: Path) -> Path:
    lines = [
        "day;fare;age;bike;at",
        "05.10.2026;6,38;;city;2026-10-05T14:30",
        f"31.2.2026;6.38;{SECRET};{SECRET};?",
        "05.11.2026;-1;old;;2026-10-05",
        "ignored;ignored;ignored;ignored;ignored",
    ]
    (folder / "messy.csv").write_text("\n".join(lines) + "\n")
    return written(folder, parsed())


@pytest.mark.usefixtures("terminal")
def test_a_sample_counts_how_rows_parse_and_shows_no_value(messy: Path) -> None:
    before = sorted(messy.parent.rglob("*"))
    output = succeeded("check", str(messy), "--sample", "3")
    table = "day 1 0 1 1, fare 1 0 1 1, bike 1 1 0 1, hour 2 1 0 0, age 0 1 1 1"
    assert [line.split() for line in output.splitlines()[-6:-1]] == [
        line.split() for line in table.split(", ")
    ]
    assert "for the custodian alone" in output
    assert SECRET not in output
    assert sorted(messy.parent.rglob("*")) == before


@pytest.mark.usefixtures("terminal")
def test_a_sample_says_how_many_rows_are_in_no_window(messy: Path) -> None:
    unit = "{unit: rows_of_person, column: age, at_most: 2, within: window}"
    text = parsed(
        ceiling="ceiling: {each_window: 1}",
        protection=f"protection: {unit}",
        attributes=ATTRIBUTES,
        windows="windows: {column: at, every: week, first: 2026-W30}",
        publish="publish: {model: one_shot, epsilon: 1}",
    )
    messy.write_text(text)
    output = succeeded("check", str(messy), "--sample", "3")
    assert "How the first 3 rows parse" in output
    assert "  rows without a time in 'at', which are in no window: 1\n" in output
    assert output.endswith("  rows that would be left out: 1 of 3, because of age (1)\n")


@pytest.mark.usefixtures("terminal")
def test_a_sample_says_how_many_rows_break_a_constraint(messy: Path) -> None:
    constraints = 'constraints: {never: {fare: "[0, 10)", bike: [city, missing]}}\n'
    messy.write_text(parsed() + constraints)
    lines = succeeded("check", str(messy), "--sample", "3").splitlines()
    assert "  1 rows break the constraint: never fare [0, 10) with bike city or missing" in lines


def test_a_sample_is_refused_where_its_numbers_could_be_kept(messy: Path) -> None:
    refused = data("check", str(messy), "--sample", "3")
    assert_refused(refused, 2, "exact numbers must not be stored, so --sample")
    as_json = data("check", str(messy), "--sample", "3", "--json")
    assert (as_json.exit_code, as_json.stdout) == (2, "")
    assert "exact numbers must not be stored, so --json cannot" in as_json.stderr
    # Without a sample no row is read.
    (messy.parent / "messy.csv").write_bytes(b"\xff\xfe")
    succeeded("check", str(messy))


def test_a_check_tells_a_program_the_price_and_the_warnings(folder: Path):
    path = written(folder, declaration())
    document = json.loads(succeeded("check", str(path), "--json"))
    expected = {"format": 1, "file": str(path), "dataset": "toy", "currency": "pure"}
    expected |= {"price_is_of": "everything", "without_epsilon": []}
    assert expected.items() <= document.items()
    shown = succeeded("check", str(path))
    assert f"all models at all ε cost {document['price']}" in shown
    assert all(f"warning: {warning}" in shown for warning in document["warnings"])
