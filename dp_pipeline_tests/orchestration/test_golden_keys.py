"""A change of the code changes no key of a release that was paid for, and no number under a seed.

The numbers are not kept, for another machine or NumPy may round the last digit otherwise: write
them before and after a change of structure, and compare. Data sets whose files are not there are
left out.
    python -m dp_pipeline_tests.orchestration.test_golden_keys FILE
"""

import hashlib
import sys
import tempfile
from collections.abc import Iterable, Iterator
from datetime import date
from fractions import Fraction
from importlib import resources
from pathlib import Path

from dp_pipeline.anonymity import METHODS
from dp_pipeline.anonymity.coded_rows import KAnonymityGuarantee, TooFewRows
from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import PipelineError
from dp_pipeline.config.parameters import texts_of
from dp_pipeline.config.parser import load_spec
from dp_pipeline.models import MODELS
from dp_pipeline.raw.counters import open_counter
from dp_pipeline.raw.ingest import ingest
from dp_pipeline.raw.prepare import prepare
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.raw.validate import validate
from dp_pipeline.releases.epsilon_release import EpsilonRelease
from dp_pipeline.releases.home import Home, engine_name
from dp_pipeline.releases.k_anonymous_release import (
    KAnonymousRelease,
    coded_rows,
    declared_method,
)
from dp_pipeline.releases.k_anonymous_tables import k_anonymous_tables
from dp_pipeline.results.bundle import Tables, table_digest
from dp_pipeline.results.transcript import Transcript

FILE = Path(__file__).with_name("golden_keys.txt")
_NOWHERE = Path("/nowhere")
_KEY = bytes(32)


def built_in_specs() -> Iterator[DatasetSpec]:
    folder = Path(str(resources.files("dp_pipeline") / "datasets"))
    return map(load_spec, sorted(folder.glob("*.yaml")))


def golden_keys() -> Iterator[str]:
    """Yield a line a release of each built-in data set, and one a model or method by default."""
    home, snapshot = Home(_NOWHERE), Snapshot(_NOWHERE / "toy" / "2026-11-22", b"")
    for spec in built_in_specs():
        yield f"{spec.name} {spec.digest[:16]}"
        for name in sorted(spec.models):
            release = EpsilonRelease(spec, name, Fraction("0.5"), home, "opendp")
            key = release.key(snapshot)
            yield f"{spec.name}/{name} {key.digest[:16]}"
        for name in sorted(spec.k_anonymity.methods if spec.k_anonymity else ()):
            key_of_table = KAnonymousRelease(spec, name, 5, home).key(snapshot)
            yield f"{spec.name}/k_anonymous/{name} {key_of_table.digest[:16]}"
    for name, model in sorted({**MODELS, **METHODS}.items()):
        for measuring in (True, False):
            kind = "measuring" if measuring else "post-processing"
            yield f"{name}: {kind} {texts_of(model(), measuring=measuring)}"


ADVICE = """the keys of built-in releases are others than before.
What was paid for would be charged again. Where what is measured did change, or for a new data set,
model, method or parameter, write the file anew and say why:
    python -m dp_pipeline_tests.orchestration.test_golden_keys
"""


def test_every_built_in_release_has_the_key_that_it_always_had():
    before = FILE.read_text(encoding="utf-8").splitlines()
    changed = [f"  {line}" for line in sorted(set(before) ^ set(golden_keys()))]
    assert not changed, ADVICE + "\n".join(changed[:20])


def golden_numbers(folder: Path) -> Iterator[str]:
    """Yield a line a release at the smallest ε or K of each built-in data set that is here."""
    declared = set[str]()
    for spec in built_in_specs():
        if spec.windows is not None:
            spec = spec.at_window(spec.windows.first)  # noqa: PLW2901
        try:
            snapshot = ingest(spec, folder, key=_KEY, snapshot_id="golden", today=date.min)
        except PipelineError as error:
            yield f"{spec.name}: left out: {type(error).__name__}"
            continue
        validate(spec, snapshot)
        prepare(spec, snapshot)
        methods = METHODS if spec.k_anonymity else ()
        declared |= {*spec.models, *methods}
        for name in sorted(spec.models):
            yield _private(spec, name, snapshot, Home(folder))
        for name in sorted(methods):
            yield _k_anonymous(spec, name, snapshot)
    yield f"declared by none: {sorted({*MODELS, *METHODS} - declared)}"


def _private(spec: DatasetSpec, name: str, snapshot: Snapshot, home: Home) -> str:
    release = EpsilonRelease(spec, name, spec.partitions[0], home, "seeded:14")
    transcript = Transcript()
    counter = open_counter(spec, snapshot, engine_name())
    resolved = release.resolve(release.key(snapshot))
    bundle = release.draw_bundle(resolved, counter, transcript, release.noise)
    quality = sorted((metric, number.value) for metric, number in bundle.quality.items())
    name_and_chain = f"{spec.name}/{name} {epsilon_text(release.epsilon)} {transcript.chain[:16]}"
    return f"{name_and_chain} {_digest(bundle.tables)} {sum(bundle.costs, Fraction(0))} {quality}"


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
    return f"{release_name} {_digest(k_anonymous_tables(rows, recoding, promise, **options))}"


def _digest(tables: Tables) -> str:
    of = " ".join(f"{name} {table_digest(table)}" for name, table in sorted(tables.items()))
    return hashlib.sha256(of.encode()).hexdigest()[:16]


def write(file: Path, lines: Iterable[str]) -> None:
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            write(Path(sys.argv[1]), golden_numbers(Path(folder)))
    else:
        write(FILE, golden_keys())
