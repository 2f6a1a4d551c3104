"""The house rules as checks: who may import whom, and where randomness may come from.

Every contract is also shown to fail: a violation is planted in a copy of the package.
"""

import ast
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.selection import ScoreSession
from dp_pipeline.gate.table_curator import TableCurator
from dp_pipeline.gate.trees import SplitSession, TreeSession
from dp_pipeline_tests import structure
from dp_pipeline_tests.mutants import planted, read_mutants

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "dp_pipeline"

PLANTED = [
    ("layers", "results/planted.py", "import dp_pipeline.models"),
    ("layers", "planted.py", ""),
    ("rows", "reporting/planted.py", "import dp_pipeline.raw.snapshot"),
    ("export", "export/planted.py", "import dp_pipeline.gate.curator"),
    ("exporting", "releases/export.py", "import dp_pipeline.raw.snapshot"),
    ("dagster", "raw/planted.py", "import dagster"),
    ("noise", "models/planted.py", "import opendp.measurements"),
    ("engines", "gate/planted.py", "import pandas"),
]


def run_code(code: str, folder: Path = ROOT, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run code in a new interpreter, with no variable but these."""
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={"PYTHONPATH": str(folder), "PATH": "", **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def lint_imports(folder: Path, *contracts: str) -> subprocess.CompletedProcess[str]:
    options = [argument for contract in contracts for argument in ("--contract", contract)]
    words = ["lint-imports", "--no-cache", *options]
    program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    return run_code(f"import sys; sys.argv = {words}; {program}", folder)


def test_the_import_contracts_hold() -> None:
    result = lint_imports(ROOT)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(("contract", "file", "violation"), PLANTED)
def test_a_planted_violation_breaks_its_contract(contract, file, violation, tmp_path: Path) -> None:
    package = tmp_path / "dp_pipeline"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (package / file).write_text(violation + "\n")
    result = lint_imports(tmp_path, contract)
    assert result.returncode == 1, result.stdout
    assert "BROKEN" in result.stdout


PLUG_INS = ("anonymity/", "models/clustering/", "models/tables/", "raw/generators/", "cli/")
"""Folders where a file is one model, method, generator or group of commands, however small."""
FEW_LINES = 100


def scattered(root: Path) -> set[str]:
    """Small files with one importer, beside them: they belong into that importer."""
    modules = structure.modules(root)
    return {
        str(path.relative_to(root / "dp_pipeline"))
        for path, text, _ in map(modules.get, structure.with_one_sibling_importer(modules))
        if len(text.splitlines()) < FEW_LINES
    }


def test_what_one_file_beside_it_needs_is_in_that_file() -> None:
    assert {file for file in scattered(ROOT) if not file.startswith(PLUG_INS)} == set()


def test_a_small_file_for_one_other_is_seen(tmp_path: Path) -> None:
    metrics = tmp_path / "dp_pipeline/metrics"
    metrics.mkdir(parents=True)
    (metrics / "planted.py").write_text("ONE = 1\n")
    (metrics / "auc.py").write_text("from dp_pipeline.metrics.planted import ONE\n")
    assert scattered(tmp_path) == {"metrics/planted.py"}


def test_no_files_import_each_other() -> None:
    assert structure.import_circles(structure.modules(ROOT)) == []


def test_a_circle_of_late_imports_is_seen(tmp_path: Path) -> None:
    metrics = tmp_path / "dp_pipeline/metrics"
    metrics.mkdir(parents=True)
    (metrics / "auc.py").write_text("import dp_pipeline.metrics.planted\n")
    (metrics / "planted.py").write_text("def f():\n    from dp_pipeline.metrics import auc\n")
    circle = {"dp_pipeline.metrics.auc", "dp_pipeline.metrics.planted"}
    assert structure.import_circles(structure.modules(tmp_path)) == [circle]


PARTICIPLES = (
    "told tells said says unsaid asked answered begun beside nobody telling such found kept drawn "
    "made named placed joined wanted turned judged known alone worth behind doubt ward town left "
    "held taken given"
)
PRONOUNS = "one ones more rest others which what who"
VAGUE = {"definition": set(PARTICIPLES.split())}
VAGUE["parameter"] = VAGUE["variable"] = {*PARTICIPLES.split(), *PRONOUNS.split()}
"""Words that say nothing of what a name holds."""
OF_THE_FIELD = {"left_join", "known_levels"}
MOST_VAGUE = 5
"""Names with such a word, for each thousand of a kind."""


def names_by_kind(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the kind of every name that a file gives, and the name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield "definition", node.name
        elif isinstance(node, ast.arg):
            yield "parameter", node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield "variable", node.id


def is_vague(kind: str, name: str) -> bool:
    """Return whether a definition has a vague word, or a value is called by nothing else."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_").split("_")
    parts = words if kind == "definition" else [name.strip("_")]
    return name not in OF_THE_FIELD and not VAGUE[kind].isdisjoint(parts)


def vague_per_thousand(root: Path) -> dict[str, float]:
    """Return how many of a thousand definitions, parameters and variables have a vague name."""
    trees = (ast.parse(path.read_bytes()) for path in root.rglob("*.py"))
    names = [pair for tree in trees for pair in names_by_kind(tree)]
    totals = Counter(kind for kind, _ in names)
    vague = Counter(kind for kind, name in names if is_vague(kind, name))
    return {kind: 1000 * vague[kind] / total for kind, total in totals.items()}


def test_names_say_what_they_hold() -> None:
    assert {k: v for k, v in vague_per_thousand(PACKAGE).items() if v > MOST_VAGUE} == {}


def test_vague_names_are_seen(tmp_path: Path) -> None:
    plain = "".join(f"def count_{i}(rows: int) -> None:\n    total = rows\n" for i in range(99))
    vague = "def said(what: int) -> None:\n    one = what\n"
    (tmp_path / "planted.py").write_text(plain)
    assert set(vague_per_thousand(tmp_path).values()) == {0}
    (tmp_path / "planted.py").write_text(plain + vague)
    assert set(vague_per_thousand(tmp_path).values()) == {10}


def entropy_calls(text: str) -> list[str]:
    """Calls and imports that bring randomness of the operating system into a file."""
    names = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and node.attr in ("urandom", "getrandom"):
            names.append(node.attr)
        if isinstance(node, ast.ImportFrom) and node.module in ("os", "random", "secrets"):
            names += [alias.name for alias in node.names if alias.name != "PathLike"]
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names if alias.name in ("random", "secrets")]
    return names


def files_where(holds: Callable[[str], object]) -> set[str]:
    return {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if holds(path.read_text(encoding="utf-8"))
    }


def test_entropy_enters_by_noise_and_population_keys_only() -> None:
    assert files_where(entropy_calls) == {"gate/noise.py", "ledger/head.py"}


@pytest.mark.parametrize("line", ["from os import urandom", "os.urandom(8)", "import secrets"])
def test_the_entropy_check_sees_a_planted_use(line: str) -> None:
    assert entropy_calls(line)


def test_exact_counts_are_opened_by_questions_of_the_gate_only() -> None:
    openers = files_where(lambda text: ".open_at_the_gate(" in text)
    names = ("charge", "parts", "selection", "table_curator", "trees")
    assert openers == {f"gate/{name}.py" for name in names}


ASKERS = ("models", "inference", "gate/quality.py", "gate/discovery.py", "gate/quantiles.py")
"""Models, evaluations and discoveries: who may ask the gate."""


def attributes_in(path: Path) -> set[str]:
    """Names of attributes that a file, or a folder of files, looks up."""
    files = path.rglob("*.py") if path.is_dir() else [path]
    nodes = (node for file in files for node in ast.walk(ast.parse(file.read_bytes())))
    return {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def unused_questions(*kinds: type) -> set[str]:
    """Public names of what a model is handed that no model, evaluation or discovery looks up."""
    questions = {name for kind in kinds for name in vars(kind) if not name.startswith("_")}
    return questions.difference(*(attributes_in(PACKAGE / name) for name in ASKERS))


def test_the_gate_offers_no_question_that_nothing_asks() -> None:
    assert unused_questions(TableCurator, Curator, ScoreSession, TreeSession, SplitSession) == set()


def test_a_question_that_nothing_asks_is_seen() -> None:
    class Generous(ScoreSession):
        def measure_nobody(self) -> int:
            return 0

    assert unused_questions(Generous) == {"measure_nobody"}


HEAVY = {"dagster", "pandas", "sklearn", "great_expectations", "matplotlib", "jinja2", "PIL"}


def run_command(
    command: list[str], home: Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a command of ours that prints the modules it has imported on stderr."""
    code = (
        "import atexit, sys; from dp_pipeline.cli import main;"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr));"
        f"main({command}, prog_name='dp-pipeline')"
    )
    result = run_code(code, DP_PIPELINE_HOME=str(home), **variables)
    assert result.returncode == 0, result.stderr
    return result


def imported_by(command: list[str], home: Path) -> set[str]:
    return set(run_command(command, home).stderr.split())


MODELS = ("dp_pipeline.models.tables.", "dp_pipeline.models.clustering.")
SLOW = {"networkx", "scipy.special", "pyarrow", "sqlalchemy"}
IMPORTED: dict[str, tuple[str, set[str]]] = {
    "--help": ("click", {"sqlalchemy", "pydantic", "numpy"}),
    "budget": ("click", {"sqlalchemy"}),
    "plan census": ("pydantic", SLOW),
    "plan wdbc": ("dp_pipeline.anonymity.kjig", {"scipy"}),
    f"data check {PACKAGE / 'datasets' / 'trips.yaml'}": (
        "dp_pipeline.raw.sources",
        {"sqlalchemy"},
    ),
}
"""Command → a module that it imports, and modules that would make it wait."""


@pytest.mark.parametrize("command", IMPORTED)
def test_a_command_imports_what_it_needs_and_no_more(command: str, tmp_path: Path) -> None:
    imported = imported_by(command.split(), tmp_path)
    needed, unneeded = IMPORTED[command]
    assert needed in imported
    assert not imported & (HEAVY | unneeded)
    if command == "plan census":
        models = [name.split(".")[2:4] for name in imported if name.startswith(MODELS)]
        tables = {"base", "independent", "one_shot", "privbayes", "aim_like"}
        assert {name for folder, name in models if folder == "tables"} == tables
        assert "clustering" not in {folder for folder, _ in models}


def test_names_of_tests_are_short() -> None:
    text = "".join(
        p.read_text(encoding="utf-8") for p in (ROOT / "dp_pipeline_tests").rglob("*.py")
    )
    assert [name for name in re.findall(r"def (test_\w+)", text) if len(name) > 60] == []


def test_every_mutant_can_be_planted() -> None:
    for mutant in read_mutants():
        planted(mutant, (PACKAGE / mutant["file"]).read_text(encoding="utf-8"))


EXTRAS = re.compile(r"^(from|import) (playwright|dask|distributed|pyspark|s3fs|moto)\b", re.M)
"""Imports of packages that `make test` does not install, where they end a file's collection."""


def test_no_test_needs_an_extra_to_be_collected() -> None:
    files = (ROOT / "dp_pipeline_tests").rglob("*.py")
    assert [path.name for path in files if EXTRAS.search(path.read_text(encoding="utf-8"))] == []
    assert EXTRAS.search("import pytest\nfrom playwright.sync_api import expect\n")


SLOW_READER = """
import atexit, io, sys, time
import pyarrow as pa
from pyarrow import csv
from dp_pipeline.cli import run_process

class Slow(io.RawIOBase):
    reads = 0

    def readable(self):
        return True

    def read(self, size=-1):
        self.reads += 1
        if self.reads > 2:
            time.sleep(1)
        return b"1,2\\n" * 50_000

options = csv.ReadOptions(block_size=1 << 16)
reader = csv.open_csv(pa.PythonFile(Slow(), mode="r"), read_options=options)
atexit.register(print, "at the end")
"""
"""Starts a thread of Arrow that calls Python while a command ends."""


@pytest.mark.parametrize(("words", "code"), [(["--version"], 0), (["plan", "nothing"], 2)])
def test_a_thread_that_outlives_a_command_aborts_nothing(words, code: int, tmp_path: Path) -> None:
    command = f"sys.argv = {['dp-pipeline', *words]}; run_process()"
    done = run_code(SLOW_READER + command, DP_PIPELINE_HOME=str(tmp_path))
    assert (done.returncode, done.stdout.splitlines()[-1]) == (code, "at the end"), done.stderr


CLOSED = "dp-pipeline: the standard output must be open, but it is closed"


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        *(
            (f"{command} > /dev/full", 1, "No space left on device; free some space")
            for command in ("--version", "--help", "data --help", "budget export")
        ),
        *((f"{command} >&-", 1, CLOSED) for command in ("--version", "budget export", "data list")),
        ("data list >&- 2>&-", 1, ""),
        ("budget 2>&-", 0, ""),
    ],
)
def test_output_that_cannot_be_written_is_an_error(
    command: str, code: int, words: str, tmp_path: Path
):
    program = f"{sys.executable} -m dp_pipeline.cli {command}"
    environment = {"PYTHONPATH": str(ROOT), "DP_PIPELINE_HOME": str(tmp_path)}
    done = subprocess.run(
        ["sh", "-c", program], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == bool(words)
