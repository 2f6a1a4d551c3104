from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.sections import Target
from dp_pipeline_tests.config.declarations import loaded


def with_targets(lines: str) -> dict[str, str]:
    return {"targets": f"targets: {{{lines}}}"}


def test_targets_are_read_in_the_order_of_the_file(tmp_path: Path) -> None:
    lines = "colour: {positive: [green, red], without: [age]}"
    spec = loaded(tmp_path, **with_targets(lines))
    assert spec.targets == (Target("colour", ("green", "red"), ("age",)),)
    assert spec.targets[0].codes(spec.domain) == (0, 1)
    assert loaded(tmp_path).targets == ()
    assert loaded(tmp_path, targets="targets:").targets == ()


def test_a_missing_value_may_be_the_target(tmp_path: Path) -> None:
    attributes = "attributes:\n  job: {levels: [a, b], nullable: true}"
    spec = loaded(tmp_path, attributes=attributes, **with_targets("job: {positive: [missing]}"))
    assert spec.targets[0].codes(spec.domain) == (2,)


def test_a_target_hides_itself_and_what_gives_it_away(tmp_path: Path) -> None:
    spec = loaded(tmp_path)
    target = Target("colour", ("red",), without=("age",))
    codes = {"colour": np.array([0, 2]), "age": np.array([1, 3])}
    features, answers = target.classification_task(codes, spec.domain)
    assert features == {}
    assert answers.tolist() == [True, False]
    assert list(Target("colour", ("red",)).classification_task(codes, spec.domain)[0]) == ["age"]
    with pytest.raises(
        DeclarationError, match="The positive levels of target 'colour' must be levels of that"
    ):
        Target("colour", ("pink",)).codes(spec.domain)
