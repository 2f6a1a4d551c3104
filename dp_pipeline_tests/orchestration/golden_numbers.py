"""Numbers of releases of the built-in data sets under a seed, as text: ``python -m
dp_pipeline_tests.orchestration.golden_numbers FILE`` writes one line a release.

A change of structure must not change them: write the file before and after it, and compare. They
are not kept in the project, for another machine or NumPy may round the last digit otherwise.
Data sets whose files are not there are left out.
"""

import hashlib
import sys
import tempfile
from collections.abc import Iterator
from datetime import date
from fractions import Fraction
from importlib import resources
from pathlib import Path

from dp_pipeline.anonymity import METHODS
from dp_pipeline.anonymity.coded_rows import KAnonymityGuarantee, TooFewRows
from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import PipelineError
from dp_pipeline.config.parser import load_spec
from dp_pipeline.models import MODELS
from dp_pipeline.raw.counters import open_counter
from dp_pipeline.raw.ingest import ingest
from dp_pipeline.raw.prepare import prepare
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.raw.validate import validate
from dp_pipeline.releases.epsilon_release import EpsilonRelease
from dp_pipeline.releases.home import Home, engine_name
from dp_pipeline.releases.k_anonymous_release import coded_rows, declared_method
from dp_pipeline.releases.k_anonymous_tables import k_anonymous_tables
from dp_pipeline.results.bundle import Tables, table_digest
from dp_pipeline.results.transcript import Transcript

_KEY = bytes(32)


def golden_numbers(folder: Path) -> Iterator[str]:
    """Yield a line a release at the smallest ε or K of each built-in data set that is here."""
    declared = set[str]()
    for path in sorted(Path(str(resources.files("dp_pipeline") / "datasets")).glob("*.yaml")):
        spec = load_spec(path)
        if spec.windows is not None:
            spec = spec.at_window(spec.windows.first)
        try:
            snapshot = ingest(spec, folder, key=_KEY, snapshot_id="golden", today=date.min)
        except PipelineError as error:
            yield f"{spec.name}: left out: {type(error).__name__}"
            continue
        validate(spec, snapshot)
        prepare(spec, snapshot)
        for name in sorted(spec.models):
            declared.add(name)
            yield _private(spec, name, snapshot, Home(folder))
        for name in sorted(METHODS if spec.k_anonymity else ()):
            declared.add(name)
            yield _k_anonymous(spec, name, snapshot)
    yield f"declared by none: {sorted({*MODELS, *METHODS} - declared)}"


def _private(spec: DatasetSpec, name: str, snapshot: Snapshot, home: Home) -> str:
    epsilon = spec.partitions[0]
    release = EpsilonRelease(spec, name, epsilon, home, "seeded:14")
    release_name, transcript = f"{spec.name}/{name} {epsilon_text(epsilon)}", Transcript()
    counter = open_counter(spec, snapshot, engine_name())
    resolved = release.resolve(release.key(snapshot))
    bundle = release.draw_bundle(resolved, counter, transcript, release.noise)
    quality = sorted((metric, number.value) for metric, number in bundle.quality.items())
    spent = sum(bundle.costs, Fraction(0))
    return f"{release_name} {transcript.chain[:16]} {_digest(bundle.tables)} {spent} {quality}"


def _k_anonymous(spec: DatasetSpec, name: str, snapshot: Snapshot) -> str:
    k = next(k for k in spec.k_anonymity.partitions if k >= 2)
    is_declared = name in spec.k_anonymity.methods
    method = declared_method(spec, name) if is_declared else METHODS[name]()
    release_name = f"{spec.name}/k_anonymous/{name} {k}"
    rows, promise = coded_rows(spec, snapshot), KAnonymityGuarantee(k, diversity=1)
    try:
        recoding = method.recode(rows, promise, seed=spec.k_anonymity.seed)
    except TooFewRows:
        return f"{release_name} too few rows"
    options = {"label": str(spec.label), "is_public": not spec.is_release}
    tables = k_anonymous_tables(rows, recoding, promise, **options)
    return f"{release_name} {_digest(tables)}"


def _digest(tables: Tables) -> str:
    of = " ".join(f"{name} {table_digest(table)}" for name, table in sorted(tables.items()))
    return hashlib.sha256(of.encode()).hexdigest()[:16]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, Path(sys.argv[1]).open("w") as file:
        for line in golden_numbers(Path(folder)):
            file.write(f"{line}\n")
            file.flush()
