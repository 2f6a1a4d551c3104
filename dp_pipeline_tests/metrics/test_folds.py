import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.metrics.classification import stratified_folds

targets = st.lists(st.integers(0, 3), max_size=40).map(lambda labels: np.array(labels, dtype=int))


@given(targets, st.integers(2, 7), st.integers(0, 3))
def test_folds_are_of_one_size_and_have_every_class_in_its_ratio(target, folds, seed):
    numbers = stratified_folds(target, folds, seed=seed)
    assert np.ptp(np.bincount(numbers, minlength=folds)) <= 1
    for label in range(4):
        assert np.ptp(np.bincount(numbers[target == label], minlength=folds)) <= 1


@given(targets, st.integers(2, 7))
def test_every_row_is_in_one_fold_which_the_seed_decides(target, folds):
    numbers = stratified_folds(target, folds, seed=1)
    assert numbers.shape == target.shape
    assert set(numbers.tolist()) <= set(range(folds))
    np.testing.assert_array_equal(stratified_folds(target, folds, seed=1), numbers)


def test_another_seed_makes_other_folds():
    target = np.arange(40) % 2
    first, other = (stratified_folds(target, 5, seed=seed) for seed in (0, 1))
    assert (first != other).any()
