"""What is added to a question leaves the digests of earlier questions as they were."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

from dp_pipeline.spec.domain import Attribute, Domain
from dp_pipeline.spec.formats import AS_BEFORE
from dp_pipeline.spec.parameters import from_text, integer, later, share, texts_of
from dp_pipeline_tests.spec.declarations import loaded


@dataclass(frozen=True)
class Model:
    rounds: int = integer(3, at_least=1, measuring=True)
    k: int = integer(8, at_least=1)


@dataclass(frozen=True)
class Upgraded(Model):
    """The next version: two parameters more, which by default do what was always done."""

    least: Fraction = later(share(Fraction("0.1")), as_before="1/10")
    starts: int = later(integer(10, at_least=1), as_before="10")


@dataclass(frozen=True)
class ChangedDefault(Upgraded):
    """The version after it: what was never said is done otherwise."""

    least: Fraction = later(share(Fraction("0.2")), as_before="1/10")


@dataclass(frozen=True)
class Careless(Model):
    least: Fraction = share(Fraction("0.1"))


def measuring(model: Model) -> dict[str, str]:
    return texts_of(model, measuring=True)


def test_a_new_parameter_leaves_what_was_declared_before_as_it_was() -> None:
    for texts in ({}, {"rounds": "5", "k": "2"}):
        old, new = (from_text(one, texts, of="toy") for one in (Model, Upgraded))
        assert texts_of(new, measuring=True) == texts_of(old, measuring=True)
        assert texts_of(new, measuring=False) == texts_of(old, measuring=False)


def test_a_new_parameter_without_that_word_would_be_charged_again() -> None:
    assert measuring(Careless()) != measuring(Model())


def test_declaring_a_new_parameter_as_it_always_was_is_not_another_release() -> None:
    assert measuring(from_text(Upgraded, {"least": "0.1"}, of="toy")) == measuring(Model())


def test_another_value_of_a_new_parameter_is_another_release() -> None:
    told = [measuring(replace(Upgraded(), least=Fraction(1, n))) for n in range(2, 20)]
    assert len({str(one) for one in told}) == len(told)


def test_a_default_that_changes_is_another_release_and_the_old_value_the_old_one() -> None:
    assert measuring(ChangedDefault()) == {"least": "1/5", "rounds": "3"}
    assert measuring(ChangedDefault(least=Fraction("0.1"))) == measuring(Model())


def test_the_order_of_parameters_says_nothing() -> None:
    @dataclass(frozen=True)
    class Reordered:
        k: int = integer(8, at_least=1, measuring=True)
        a: int = integer(1, at_least=1, measuring=True)

    assert list(texts_of(Reordered(), measuring=True)) == ["a", "k"]


@dataclass(frozen=True)
class Rounded(Attribute):
    """An attribute of a later version: its numbers may be rounded."""

    rounding: int = field(default=0, metadata={AS_BEFORE: 0})


def test_a_new_field_of_attributes_leaves_earlier_files_what_they_are(tmp_path: Path) -> None:
    spec = loaded(tmp_path)

    def digest(rounding: int) -> str:
        later = tuple(Rounded(**vars(one), rounding=rounding) for one in spec.domain)
        return replace(spec, domain=Domain(later)).digest

    assert digest(0) == spec.digest
    assert digest(1) != spec.digest
