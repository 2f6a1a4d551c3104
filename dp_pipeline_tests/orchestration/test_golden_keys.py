"""A change of the code changes no key of a release that was paid for."""

from __future__ import annotations

from dp_pipeline_tests.orchestration.golden_keys import FILE, golden_keys

ADVICE = """the keys of built-in releases are others than before.
What was paid for would be charged again. Where what is measured did change, or for a new data set,
model, method or parameter, write the file anew and say why:
    python -m dp_pipeline_tests.orchestration.golden_keys
"""


def test_every_built_in_release_has_the_key_that_it_always_had():
    before = FILE.read_text(encoding="utf-8").splitlines()
    changed = [f"  {line}" for line in sorted(set(before) ^ set(golden_keys()))]
    assert not changed, ADVICE + "\n".join(changed[:20])
