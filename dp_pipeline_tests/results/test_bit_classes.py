"""Bits are declared, and classes are the answers that a row can give to those that were kept."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.config.domain import Attribute, Domain
from dp_pipeline.config.encoding import Bins, Coordinate, Levels
from dp_pipeline.results.bit_classes import CLASS, BitClasses, DeclaredBit, bit_count, declared_bits

AGE = Attribute(
    "age", "age", "clip", Coordinate(0.0, 60.0), Bins((0.0, 20.0, 40.0, 60.0)), nullable=True
)
COLOUR = Attribute("colour", "colour", "drop", cells=Levels(("red", "green", "blue")))
SMOKES = Attribute("smokes", "smokes", "drop", cells=Levels(("no", "yes")))
PLANET = Attribute("planet", "planet", "drop", cells=Levels(("earth",)))
LIVES = Attribute("lives", "lives", "drop", cells=Levels(("yes",)), nullable=True)
PEOPLE = Domain((AGE, COLOUR, SMOKES, PLANET, LIVES))
BITS = declared_bits(PEOPLE, PEOPLE.names)


def test_bins_are_asked_for_thresholds_and_levels_one_by_one():
    assert [(bit.name, bit.codes) for bit in BITS] == [
        ("age>=[20, 40)", (1, 2)),
        ("age>=[40, 60]", (2,)),
        ("age=missing", (3,)),
        ("colour=red", (0,)),
        ("colour=green", (1,)),
        ("colour=blue", (2,)),
        ("smokes=yes", (1,)),
        ("lives=missing", (1,)),
    ]


@pytest.mark.parametrize("nullable", [False, True])
def test_bits_are_counted_without_making_them(nullable: bool):
    bins = [Bins.equal_width(0.0, 1.0, number) for number in (1, 2, 3, 9)]
    levels = [Levels(("a", "b", "c", "d")[:number]) for number in (1, 2, 3, 4)]
    for attribute in (*bins, *levels):
        box = Coordinate(0.0, 1.0) if isinstance(attribute, Bins) else None
        domain = Domain((Attribute("x", "x", "drop", box, attribute, nullable=nullable),))
        assert bit_count(domain, ("x",)) == len(declared_bits(domain, ("x",)))
    assert bit_count(PEOPLE, PEOPLE.names) == len(BITS)


def test_no_two_bits_say_the_same_or_the_contrary():
    for bit, other in itertools.combinations(BITS, 2):
        if bit.attribute == other.attribute:
            size = PEOPLE[bit.attribute].size
            contrary = tuple(1 - answer for answer in other.answers(size))
            assert bit.answers(size) not in (other.answers(size), contrary)
    alike = tuple(DeclaredBit("age>=20", "age", codes) for codes in ((1, 2), (2,), (3,)))
    for bits in (BITS, alike):
        assert len({bit.key for bit in bits}) == len(bits)


bits = st.lists(st.sampled_from(BITS), min_size=1, max_size=6, unique=True)


@given(bits, st.sampled_from(BITS))
def test_every_set_of_possible_answers_is_a_class(sample: list[DeclaredBit], other: DeclaredBit):
    classes = BitClasses(tuple(sample), PEOPLE)
    rows = itertools.product(*(range(size) for size in PEOPLE.shape(PEOPLE.names)))
    codes = dict(zip(PEOPLE.names, np.array(list(rows)).T, strict=True))
    class_numbers = classes.of(codes)
    answers = np.stack([np.isin(codes[bit.attribute], bit.codes) for bit in sample], axis=1)
    assert (classes.answers[class_numbers] == answers).all()
    assert sorted(set(class_numbers.tolist())) == list(range(classes.size))
    assert len({*map(tuple, answers.tolist())}) == classes.size <= 2 ** len(sample)
    # What is derived at the gate is the same class.
    groups = classes.derived_groups()
    assert classes.derived_class().keys() == {CLASS}
    (of_groups,) = classes.derived_class().values()
    finer = [
        np.array(groups[n].groups)[codes[groups[n].attributes[0]]] for n in of_groups.attributes
    ]
    cells = np.ravel_multi_index(finer, [groups[name].size for name in of_groups.attributes])
    assert np.array(of_groups.groups)[cells].tolist() == class_numbers.tolist()
    with_bit = BitClasses((*sample, other), PEOPLE)
    assert classes.are_split_by(other) == (with_bit.size > classes.size)


def test_the_last_level_is_decided_by_all_others():
    red, *others = declared_bits(PEOPLE, ("colour",))
    for left_out, remaining in ((red, others), (others[0], (red, others[1]))):
        classes = BitClasses(tuple(remaining), PEOPLE)
        assert not classes.are_split_by(left_out)
        assert classes.size == 3
    # Before there is a bit everybody is in one class.
    assert all(BitClasses((), PEOPLE).are_split_by(bit) for bit in BITS)
    assert BitClasses((), PEOPLE).size == 1
