"""A project in a temporary folder: data sets, rows written by hand, and what runs there."""

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from click.testing import CliRunner

from dp_pipeline.cli import main
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.parser import load_spec
from dp_pipeline.ledger import Charge, Ledger
from dp_pipeline.orchestration import instance
from dp_pipeline.orchestration.common import Pipeline
from dp_pipeline.orchestration.dataset import pipeline_definitions
from dp_pipeline.orchestration.instance import dagster_instance
from dp_pipeline.orchestration.runner import execute
from dp_pipeline.raw.ingest import ingest
from dp_pipeline.raw.prepare import prepare
from dp_pipeline.raw.snapshot import Snapshot, current_snapshot, mark_validated
from dp_pipeline.releases.account import open_population
from dp_pipeline.releases.epsilon_release import EpsilonRelease
from dp_pipeline.releases.home import Home
from dp_pipeline.releases.publish import PublishedBundle, publish
from dp_pipeline.releases.run_options import RunOptions
from dp_pipeline.releases.run_result import ReleaseResult
from dp_pipeline_tests.orchestration.warm import OURS, Result, command, ended, start

Declaration = Mapping[str, Any]

TODAY = date(2026, 11, 22)
"""The day that names the first snapshot."""

PLANTS: Declaration = {
    "description": "Plants of one garden: public.",
    "population": "garden",
    "purpose": "benchmark",
    "protection": {"unit": "one_row"},
    "source": {"kind": "csv", "path": "plants.csv"},
    "one_hot": "true",
    "attributes": {
        "height": {"bounds": ["0", "8"], "bins": "4"},
        "width": {"bounds": ["0", "4"], "bins": "2"},
        "colour": {"levels": ["red", "green"]},
    },
    "partitions": ["0.5", "1"],
    "models": {"eug_kmeans": {"k": "2"}, "independent": {}},
    "publish": {"model": "independent", "epsilon": "0.5"},
}
"""A benchmark with every stage."""

RIDES: Declaration = {
    "description": "Where rides end: sensitive.",
    "population": "riders",
    "purpose": "release",
    "protection": {"unit": "rows_of_person", "column": "rider", "at_most": "2"},
    "ceiling": {"total": "3"},
    "source": {"kind": "csv", "path": "rides.csv"},
    "attributes": {"x": {"bounds": ["0", "8"]}, "y": {"bounds": ["0", "4"]}},
    "partitions": ["0.1", "0.5"],
    "models": {"dpqt_kmeans": {"k": "3", "nominal_rows": "40"}},
    "publish": {"model": "dpqt_kmeans", "epsilon": "0.5"},
    "evaluation": {"epsilon": "0.05"},
}
"""A release of places, several rows a person; nothing to discretise."""

PUBLIC: Declaration = {"purpose": "benchmark", "ceiling": None, "evaluation": None}
"""What changes in RIDES if they were public."""

HOMES: Declaration = {
    "description": "Homes of one town: sensitive.",
    "population": "town",
    "purpose": "release",
    "protection": {"unit": "one_row"},
    "ceiling": {"total": "10"},
    "source": {"kind": "csv", "path": "homes.csv"},
    "attributes": {
        "rooms": {"bounds": ["0", "8"], "bins": "4"},
        "rent": {"bounds": ["0", "1000"], "bins": "2"},
        "tenure": {"levels": ["owner", "renter", "other"], "other": "other"},
    },
    "partitions": ["1"],
    "models": {
        "dpqt_kmeans": {"k": "3", "nominal_rows": "40"},
        "eug_kmeans": {"k": "3"},
        "independent": {},
    },
}
"""A release of a table, one row a person, by every model."""

FAMILIES: Declaration = {
    "description": "Families and their persons, in two files: sensitive.",
    "population": "valley",
    "purpose": "release",
    "protection": {"unit": "group", "key": "family"},
    "ceiling": {"total": "10"},
    "source": {"kind": "csv", "path": "families.csv"},
    "attributes": {"place": {"levels": ["hill", "river"]}},
    "parts": {
        "persons": {
            "at_most": "3",
            "source": {"kind": "csv", "path": "persons.csv"},
            "key": "home",
            "attributes": {"age": {"bounds": ["0", "90"], "bins": "3"}},
        }
    },
    "partitions": ["1"],
    "models": {"one_shot": {}},
}
"""A release of units, of which some have no part."""

ROWS: Mapping[str, list[str]] = {
    name: text.split()
    for name, text in {
        "families": "family,place 1,hill 2,river 3,river",
        "plants": "height,width,colour 1,1,red 2,1,red 1,2,green 7,3,green 6,3,red",
        "rides": "rider,x,y ann,1,1 ann,2,1 ann,7,3 bob,1,2 cid,6,3 dot,7,3 dot,6.5,3.5 eve,4,2",
        "homes": "rooms,rent,tenure 1,300,renter 2,400,renter 2,350,owner 5,900,owner 6,800,owner"
        " 4,100,squatter",
    }.items()
}


QUIET: dict[str, Any] = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@cache
def _instance(_: Path) -> dg.DagsterInstance:
    return dg.DagsterInstance.ephemeral()


def definitions_of(spec: DatasetSpec, home: Home, noise: str = "opendp") -> dg.Definitions:
    return pipeline_definitions((spec,), Pipeline(home, noise))


@dataclass(frozen=True)
class Project:
    """One project and its own Dagster home, all under ``folder``."""

    folder: Path

    @property
    def home(self) -> Home:
        return Home(self.folder / "data")

    @property
    def ledger(self) -> Ledger:
        return self.home.ledger

    @property
    def datasets(self) -> Path:
        return self.folder / "datasets"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "DP_PIPELINE_HOME": str(self.home.root),
            "DP_PIPELINE_DATASETS": str(self.datasets),
            "DAGSTER_HOME": str(self.folder / "dagster"),
        }

    def declare(self, name: str, base: Declaration, **changes: Any) -> DatasetSpec:
        """Write a data set file, a change of None leaving a field out, and its rows if missing."""
        path = self.write_declaration(name, base, **changes)
        source = Path(base["source"]["path"])
        if not (self.datasets / source).exists():
            self.write_rows(source.name, ROWS[source.stem])
        return load_spec(path)

    def write_declaration(self, name: str, base: Declaration, **changes: Any) -> Path:
        fields = {"name": name, **base, **changes}
        fields_with_values = {field: value for field, value in fields.items() if value is not None}
        self.datasets.mkdir(parents=True, exist_ok=True)
        path = self.datasets / f"{name}.yaml"
        path.write_text(yaml.safe_dump(fields_with_values, sort_keys=False), encoding="utf-8")
        return path

    def write_rows(self, name: str, lines: Iterable[str]) -> None:
        text = "".join(f"{line}\n" for line in lines)
        (self.datasets / name).write_text(text, encoding="utf-8")

    def request(
        self,
        spec: DatasetSpec,
        *,
        models: Sequence[str] = (),
        epsilons: Sequence[str] = (),
        noise: str = "opendp",
        **options: Any,
    ) -> RunOptions:
        chosen = tuple(models) or tuple(spec.models)
        levels = tuple(epsilons) or spec.partition_keys
        return RunOptions(spec, EpsilonRelease, chosen, levels, self.home, noise, **options)

    def run(self, spec: DatasetSpec, **options: Any) -> list[ReleaseResult]:
        """What ``dp-pipeline run`` does, in this process."""
        return self.execute(self.request(spec, **options))

    def execute(self, options: RunOptions) -> list[ReleaseResult]:
        """A run in this process, with Dagster's storage in memory."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(instance, "dagster_instance", lambda _: nullcontext(self.instance))
            return list(execute(options, lambda _: None))

    def prepare(self, spec: DatasetSpec, snapshot: str | None = None) -> Snapshot:
        """Rows read, and prepared as if validated, but where levels are left to be discovered."""
        key = open_population(spec, self.home).key(spec.population)
        read = ingest(spec, self.home.raw, key=key, snapshot_id=snapshot, today=TODAY)
        mark_validated(spec, read, structural=True, refused=False)
        if not spec.to_discover:
            prepare(spec, read)
        return read

    def launch(
        self,
        spec: DatasetSpec,
        *names: str,
        partition: str | None = None,
        config: Mapping[str, Any] | None = None,
        tags: Mapping[str, str] | None = None,
        noise: str = "opendp",
    ) -> dg.ExecuteInProcessResult:
        """Assets started by themselves through Dagster, as by a click; failures are returned."""
        definitions = definitions_of(spec, self.home, noise)
        ops = {f"{spec.name}__{name}": {"config": dict(config)} for name in names if config}
        return definitions.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=self.instance,
            asset_selection=[dg.AssetKey([spec.name, *name.split("/")]) for name in names],
            partition_key=partition,
            tags=dict(tags or {}),
            run_config={**QUIET, "ops": ops},
            raise_on_error=False,
        )

    @property
    def instance(self) -> dg.DagsterInstance:
        """Dagster's storage for what runs in this process: in memory, four times as fast."""
        return _instance(self.folder)

    @contextmanager
    def stored_instance(self) -> Iterator[dg.DagsterInstance]:
        """Dagster's storage for commands: the one that they have left on disk."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DAGSTER_HOME", self.environment["DAGSTER_HOME"])
            with dagster_instance(self.home) as instance:
                yield instance

    def release(
        self,
        spec: DatasetSpec,
        *,
        model: str = "dpqt_kmeans",
        epsilon: str = "0.5",
        noise: str = "opendp",
    ) -> EpsilonRelease:
        return EpsilonRelease(spec, model, Fraction(epsilon), self.home, noise)

    def publish(self, spec: DatasetSpec, *, new_draw: bool = False, **what: str) -> PublishedBundle:
        return publish(self.release(spec, **what), new_draw=new_draw)

    def run_job(
        self, spec: DatasetSpec, job: str, partition: str | None = None, **options: Any
    ) -> dg.ExecuteInProcessResult:
        """A job of the data set, as a backfill or a schedule starts it; failures are returned."""
        config = {**options.pop("run_config", {}), **QUIET}
        definition = definitions_of(spec, self.home).resolve_job_def(job)
        return definition.execute_in_process(
            instance=self.instance,
            partition_key=partition,
            run_config=config,
            raise_on_error=False,
            **options,
        )

    def spend(self, epsilon: str, population: str = "riders") -> None:
        """Leave so much less of what a population may spend."""
        nano = int(Fraction(epsilon) * 10**9)
        with self.ledger.reserve(Charge("e" * 64, population, "dp", nano, "earlier releases", {})):
            pass

    def snapshot(self, spec: DatasetSpec, window: str = "") -> Snapshot:
        key = self.ledger.key(spec.population)
        current = current_snapshot(self.home.raw, spec.name, key, window)
        assert current is not None
        return current

    def spent(self, spec: DatasetSpec) -> Fraction:
        return self.ledger.balance(spec.population).spent

    def cli(self, *arguments: str, **environment: str) -> Result:
        return self.begin_cli(*arguments, **environment)()

    def cli_here(self, *arguments: str, **environment: str) -> Result:
        """A command in this process, with Dagster's storage in memory."""
        with pytest.MonkeyPatch.context() as patch:
            for name in [name for name in os.environ if name.startswith(OURS)]:
                patch.delenv(name)
            for name, text in {**self.environment, **environment}.items():
                patch.setenv(name, text)
            patch.chdir(self.folder)
            patch.setattr(instance, "dagster_instance", lambda _: nullcontext(self.instance))
            result = CliRunner().invoke(main, list(arguments), prog_name="dp-pipeline")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Result.of(result.exit_code, result.stdout, result.stderr)

    def command(self, *arguments: str, **environment: str) -> str:
        """Return what a command prints that has to succeed without a word on stderr."""
        result = self.cli_here(*arguments, **environment)
        assert (result.code, result.err) == (0, ""), result
        return result.out

    def begin_cli(self, *arguments: str, **environment: str) -> Callable[[], Result]:
        """A command that runs already; call what is returned to wait for its end."""
        words = Path(tempfile.mkdtemp(prefix="words-", dir=self.folder))
        child = start(words, command, list(arguments), self.environment | environment, self.folder)
        return lambda: ended(child, words)

    def paths(self) -> set[Path]:
        """Everything in the project, but what commands said."""
        return {
            path
            for path in self.folder.rglob("*")
            if "words-" not in str(path.relative_to(self.folder))
        }

    def files(self, *below: str) -> dict[str, bytes]:
        """Path → content of every file under some of the project's folders, or all."""
        roots = [self.home.root / name for name in below] or [self.folder]
        return {
            str(path.relative_to(self.folder)): path.read_bytes()
            for root in roots
            for path in sorted(root.rglob("*"))
            if path.is_file()
        }
