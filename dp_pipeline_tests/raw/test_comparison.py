import json
import math
import stat
import warnings

import numpy as np
import pyarrow as pa
import pytest
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_info, threadpool_limits

from dp_pipeline.config.errors import BoundaryViolation, Damaged, DeclarationError, NotPrepared
from dp_pipeline.raw import evaluate
from dp_pipeline.raw.counters import open_counter
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.raw.evaluate import clustering_quality, custodian_facts
from dp_pipeline.raw.prepare import prepare
from dp_pipeline.raw.snapshot import Snapshot, mark_validated
from dp_pipeline_tests.raw.written import ingested, prepared_snapshot, written_spec

PLACES = "{x: {bounds: [0, 16], bins: 2}, y: {bounds: [-8, 8]}, sex: {levels: [f, m]}}"
FOUR = {"x": [0, 2, 14, 99], "y": [0, 0, 0, 0], "sex": ["f", "f", "m", "m"]}
XY = ("x", "y")


@pytest.fixture
def spec(tmp_path):
    return written_spec(tmp_path, PLACES)


def test_quality_is_measured_on_clipped_rows_in_data_units(spec, tmp_path):
    snapshot = prepared_snapshot(spec, tmp_path, FOUR)
    quality = clustering_quality(spec, snapshot, XY, np.array([[0.0, 0.0], [16.0, 0.0]]))
    agreement = {"f_kmeans": 1.0, "ari_kmeans": 1.0}
    assert quality == {"nicv": 2.0, "nicv_floor": 1.0, "nicv_ratio": 2.0} | agreement


def test_clusters_are_compared_with_kmeans_and_label(tmp_path):
    spec = written_spec(tmp_path, PLACES, more="label: sex")
    snapshot = prepared_snapshot(spec, tmp_path, FOUR | {"sex": ["f", "m", "m", "m"]})
    # KMeans: {0, 2} and {14, 16}; released: {0} and the rest, which are the sexes.
    quality = clustering_quality(spec, snapshot, XY, np.array([[0.0, 0.0], [3.0, 0.0]]))
    assert quality["f_kmeans"] == pytest.approx((2 * (2 / 3) + 2 * (4 / 5)) / 4)
    assert quality["ari_kmeans"] == pytest.approx(0.0)
    assert (quality["f_label"], quality["ari_label"]) == (1.0, 1.0)


def test_kmeans_centres_are_computed_once_and_private(spec, tmp_path, monkeypatch):
    snapshot = prepared_snapshot(spec, tmp_path, FOUR)
    centres = np.array([[1.0, 0.0], [15.0, 0.0]])
    first = clustering_quality(spec, snapshot, XY, centres)
    (file,) = (snapshot.folder / "kmeans").iterdir()
    file.write_bytes(b"{")
    assert clustering_quality(spec, snapshot, XY, centres) == first, "they are computed again"
    monkeypatch.setattr(evaluate, "reference_kmeans", None)
    assert clustering_quality(spec, snapshot, XY, centres) == first
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with pytest.raises(TypeError):  # another k has other centres
        clustering_quality(spec, snapshot, XY, centres[:1])
    with pytest.raises(TypeError):  # and so have other columns
        clustering_quality(spec, snapshot, ("x",), np.array([[1.0], [2.0]]))


def test_kmeans_starts_on_a_sample_and_goes_on_over_all_rows(monkeypatch):
    rng = np.random.default_rng(0)
    middles = np.array([[0.0, 0.0], [50.0, 0.0], [0.0, 50.0]])
    points = np.repeat(middles, 400, axis=0) + rng.normal(0, 1, size=(1200, 2))
    centres = evaluate.reference_kmeans(points, 3)
    monkeypatch.setattr(evaluate, "STARTED_ROWS", 60)
    sampled = evaluate.reference_kmeans(points, 3)
    # Every middle is the mean of all of its rows again, as it would not be of 20 of them.
    assert np.allclose(sorted(sampled.tolist()), sorted(centres.tolist()), atol=1e-9)
    assert sampled.tolist() == evaluate.reference_kmeans(points, 3).tolist(), "the seed is fixed"
    monkeypatch.setattr(evaluate, "MAX_REFINED_ROWS", 300)
    refined = evaluate.reference_kmeans(points, 3)
    # The mean of about 100 rows is off by 0.1 in each direction: 0.5 is five of those.
    assert 0 < np.abs(np.sort(refined, axis=0) - np.sort(centres, axis=0)).max() < 0.5


def test_kmeans_uses_one_thread(monkeypatch):
    threads, fit = set[int](), KMeans.fit

    def counting(*asked):
        threads.update(library["num_threads"] for library in threadpool_info())
        return fit(*asked)

    monkeypatch.setattr(KMeans, "fit", counting)
    with threadpool_limits(2):
        evaluate.reference_kmeans(np.array([[0.0], [1.0], [9.0], [10.0]]), 2)
    assert threads == {1}


def test_fewer_rows_than_centres_have_no_ratio(spec, tmp_path):
    snapshot = prepared_snapshot(spec, tmp_path, FOUR)
    quality = clustering_quality(spec, snapshot, XY, np.zeros((5, 2)))
    assert quality["nicv_floor"] == 0.0
    assert math.isnan(quality["nicv_ratio"])
    # Four classes of one row each in one cluster: precision 1/4, recall 1.
    assert quality["f_kmeans"] == pytest.approx(2 / 5)
    rows = {"x": [1] * 5, "y": [1] * 5, "sex": ["f"] * 5}
    equal = prepared_snapshot(spec, tmp_path / "equal", rows)
    with warnings.catch_warnings():
        # Nor do they warn, with how many different ones there are.
        warnings.simplefilter("error")
        assert clustering_quality(spec, equal, XY, np.zeros((3, 2)))["nicv_floor"] == 0.0


@pytest.mark.parametrize("more", ["", "label: sex"], ids=["no label", "label"])
def test_no_rows_have_no_quality(more, tmp_path):
    spec = written_spec(tmp_path, PLACES, more=more)
    empty = pa.table({name: pa.array([], pa.string()) for name in FOUR})
    snapshot = prepared_snapshot(spec, tmp_path, empty)
    quality = clustering_quality(spec, snapshot, XY, np.zeros((2, 2)))
    assert len(quality) == (7 if more else 5)
    assert all(math.isnan(value) for value in quality.values())


def test_snapshot_not_prepared_as_declared_is_refused(spec, tmp_path):
    snapshot = ingested(tmp_path, FOUR)
    with pytest.raises(NotPrepared):
        open_counter(spec, snapshot)
    mark_validated(spec, snapshot, structural=True, refused=False)
    with pytest.raises(NotPrepared, match="prepared as people is declared now"):
        open_counter(spec, snapshot)
    prepare(spec, snapshot)
    open_counter(spec, snapshot)
    mark_validated(spec, snapshot, structural=True, refused=True)
    with pytest.raises(NotPrepared, match="its checks refused the snapshot: mend what"):
        clustering_quality(spec, snapshot, XY, np.zeros((1, 2)))
    other = written_spec(tmp_path, "{x: {bounds: [0, 17]}}")
    with pytest.raises(NotPrepared):
        open_counter(other, snapshot)


def test_the_counter_opens_what_preparation_stored(spec, tmp_path):
    counter = open_counter(spec, prepared_snapshot(spec, tmp_path, FOUR))
    rows, pair = counter.exact_tables([(), ("x", "sex")])
    assert rows == 4
    assert pair.tolist() == [[2, 0], [0, 2]]
    assert counter.grid(("y",), 2).open_at_the_gate().tolist() == [0, 4]
    with pytest.raises(BoundaryViolation):
        counter.count([("x", "x")])


def test_fingerprint_covers_tables_and_their_reading(spec, tmp_path):
    snapshot = prepared_snapshot(spec, tmp_path, FOUR)
    first = open_counter(spec, snapshot).fingerprint
    prepare(spec, snapshot)
    assert open_counter(spec, snapshot).fingerprint == first, "the same, prepared again"
    snapshot.record(read_at="2026-11-22T10:00:00.000001+00:00")
    read_again = open_counter(spec, snapshot).fingerprint
    three = {name: column[1:] for name, column in FOUR.items()}
    fewer = prepared_snapshot(spec, tmp_path / "fewer", three)
    assert len({first, read_again, open_counter(spec, fewer).fingerprint}) == 3


@pytest.mark.parametrize(
    "columns",
    [
        *({"codes": codes} for codes in ({"x": [0], "sex": [2]}, {"x": [0, 0], "sex": [1]})),
        *({"coordinates": {"x": x, "y": [0]}} for x in ([65537], [0.0])),
        {"rows": -1},
    ],
)
def test_columns_that_preparation_does_not_write_are_damaged(spec, columns):
    sound = {"coordinates": {"x": [0], "y": [0]}, "codes": {"x": [0], "sex": [1]}, "rows": 1}
    given = sound | columns
    for kind in ("coordinates", "codes"):
        given[kind] = {name: np.array(values) for name, values in given[kind].items()}
    with pytest.raises(Damaged, match="must have a whole number from"):
        MemoryCounter(spec.domain, **given)


def test_exact_facts_go_to_a_private_file(spec, tmp_path):
    snapshot = prepared_snapshot(spec, tmp_path, FOUR)
    before = snapshot.manifest
    assert custodian_facts(snapshot, "manifest", lambda: {"nicv": 1.5}) == {"nicv": 1.5}
    path = snapshot.folder / "custodian" / "manifest.json"
    assert json.loads(path.read_text())["facts"] == {"nicv": 1.5}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert snapshot.manifest == before
    with pytest.raises(DeclarationError, match="file of facts"):
        custodian_facts(snapshot, "../manifest", dict)


def test_exact_facts_are_computed_once_for_one_population(spec, tmp_path):
    snapshot = prepared_snapshot(spec, tmp_path, FOUR)
    custodian_facts(snapshot, "of-one-bundle", lambda: {"nicv": 1.5})
    assert custodian_facts(snapshot, "of-one-bundle", lambda: {"nicv": 2.5}) == {"nicv": 1.5}
    (snapshot.folder / "custodian" / "of-one-bundle.json").write_bytes(b"{")
    assert custodian_facts(snapshot, "of-one-bundle", lambda: {"nicv": 1.5}) == {"nicv": 1.5}
    other = Snapshot(snapshot.folder, b"another population's key")
    assert custodian_facts(other, "of-one-bundle", lambda: {"nicv": 2.5}) == {"nicv": 2.5}
