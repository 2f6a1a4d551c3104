"""A change of the code changes no key of a release that was paid for."""

from collections.abc import Iterator
from fractions import Fraction
from importlib import resources
from pathlib import Path

from dp_pipeline.anonymity import METHODS
from dp_pipeline.config.parameters import texts_of
from dp_pipeline.config.parser import load_spec
from dp_pipeline.models import MODELS
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.releases.epsilon_release import EpsilonRelease
from dp_pipeline.releases.home import Home
from dp_pipeline.releases.k_anonymous_release import KAnonymousRelease

FILE = Path(__file__).with_name("golden_keys.txt")
_NOWHERE = Path("/nowhere")


def golden_keys() -> Iterator[str]:
    """Yield a line a release of each built-in data set, and one a model or method by default."""
    home, snapshot = Home(_NOWHERE), Snapshot(_NOWHERE / "toy" / "2026-11-22", b"")
    folder = Path(str(resources.files("dp_pipeline") / "datasets"))
    for path in sorted(folder.glob("*.yaml")):
        spec = load_spec(path)
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


if __name__ == "__main__":
    FILE.write_text("".join(f"{line}\n" for line in golden_keys()), encoding="utf-8")
