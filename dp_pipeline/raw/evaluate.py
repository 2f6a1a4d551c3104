"""Exact quality of releases on the rows, for the data custodian alone: nothing here is private.

Numbers of benchmarks may be shown. Those of release data go to a 0600 file of the raw store, and
metadata record only that it exists. Released centres are compared with k-means without privacy,
tables by their marginals and by classifiers that learn from them, class tables by their AUC.
"""

import hashlib
import hmac
import json
import re
import warnings
from collections.abc import Callable, Mapping

import numpy as np

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.domain import SIZE, Domain
from dp_pipeline.config.encoding import Codes, FloatArray, IntArray
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.files import write_private
from dp_pipeline.metrics.auc import ClassAuc, adjusted_rand, class_table, f_measure
from dp_pipeline.metrics.classification import Method, misclassification, train
from dp_pipeline.metrics.clustering import nicv
from dp_pipeline.metrics.marginals import attribute_sets
from dp_pipeline.raw.closest_record import distance_to_closest_record
from dp_pipeline.raw.comparison import EstimatedDistance, distances_of_table, estimated_distances
from dp_pipeline.raw.snapshot import Snapshot, require_prepared, stored_object
from dp_pipeline.raw.stages import prepared_codes, read_stage
from dp_pipeline.results.class_table import ClassTable
from dp_pipeline.results.clusters import nearest_centres
from dp_pipeline.threads import one_thread

COMPARED_SIZES = (2, 3, 5, 6)  # Attributes of the compared marginals, as in the papers
SAMPLING_ERROR = "sampling_error/"  # Prefix of the name of a number's error, for sampled rows
METHODS: tuple[Method, ...] = ("svm", "logistic")


def table_quality(
    spec: DatasetSpec, snapshot: Snapshot, released: Codes, *, classify: bool = True
) -> dict[str, float]:
    """Return quality numbers of a released table, by name, measured exactly on the prepared rows.

    released   synthetic codes of some declared attributes, at least one
    classify   whether classifiers learn the declared targets, which takes seconds each

    ``avd_k``: mean variation distance of the marginals of k attributes, k = 2, 3, 5, 6, without
    those of more attributes than are released (of a single attribute ``avd_2`` is its own). Where
    units have parts instead ``avd_units``, ``avd_parts``, ``avd_pairs``, ``avd_unit_part`` and
    ``avd_size``, without those of no table. Of more rows than ``MOST_COMPARED`` these are distances
    of a seeded sample, and ``sampling_error/avd_k`` bounds the expected error.
    ``misclassified_svm/<attribute>`` and ``misclassified_logistic/<attribute>`` of every released
    target: share of the prepared rows that a classifier of the released rows gets wrong. ``dcr``:
    distance to the closest record. All are NaN without prepared rows.

    NotPrepared unless the snapshot is prepared; DeclarationError for no codes, and for codes or
    attributes that are not declared.
    """
    domain = spec.domain
    if not released:
        raise DeclarationError(
            f"{spec.name}: a table to compare with the rows must have one or more attributes, but "
            "it has none: release some"
        )
    for name, codes in released.items():
        last = domain[name].size - 1
        if len(codes) and not 0 <= codes.min() <= codes.max() <= last:
            raise DeclarationError(
                f"{spec.name}: the codes of attribute {name} in a released table must be from 0 to "
                f"{last}, but some are not: report this fault"
            )
    real = prepared_codes(spec, snapshot, tuple(released))
    distances = (_distances if domain.parts is None else _unit_distances)(domain, real, released)
    quality = {name: distance.value for name, distance in distances.items()}
    errors = {SAMPLING_ERROR + name: distance.error for name, distance in distances.items()}
    quality |= {name: error for name, error in errors.items() if error is not None}
    for target in spec.targets if classify else ():
        if target.attribute in released:
            features, labels = target.classification_task(released, domain)
            tested = target.classification_task(real, domain)
            sizes = {name: domain[name].size for name in features}
            for method in METHODS:
                classifier = train(method, features, labels, sizes)
                name = f"misclassified_{method}/{target.attribute}"
                quality[name] = misclassification(classifier, *tested)
    return {**quality, "dcr": distance_to_closest_record(real, released)}


def _distances(domain: Domain, real: Codes, released: Codes) -> dict[str, EstimatedDistance]:
    names = tuple(released)
    marginals = {
        f"avd_{k}": attribute_sets(names, min(k, len(names)) if k == 2 else k)
        for k in COMPARED_SIZES
    }
    marginals = {name: listed for name, listed in marginals.items() if listed}
    sizes = {name: domain[name].size for name in names}
    return estimated_distances(real, released, sizes, marginals)


def _unit_distances(domain: Domain, real: Codes, released: Codes) -> dict[str, EstimatedDistance]:
    """Return the mean variation distance by kind of table, where units have parts.

    ``avd_units``: pairs of attributes of units, with their size. ``avd_parts``: pairs of attributes
    of one part. ``avd_pairs``: an attribute of two parts of one unit. ``avd_unit_part``: an
    attribute of a unit with one of its parts. ``avd_size``: the size. The first two are of single
    attributes where there is no pair. Kinds without any table are left out.
    """
    assert domain.parts is not None
    by_kind: dict[str, list[EstimatedDistance]] = {}
    distances = distances_of_table(domain, real, released)
    for names, distance in distances.items():
        of_parts = sum(name in domain.parts.attributes for name in names)
        kind = ("units", "unit_part", "parts")[of_parts * 2 // len(names)]
        if len({*names}) < len(names):
            kind = "pairs"
        elif len(names) == 1:
            kind = f"single {kind}"
        by_kind.setdefault(kind, []).append(distance)
    for kind in ("units", "parts"):
        by_kind.setdefault(kind, by_kind.get(f"single {kind}", []))
    means = {
        f"avd_{kind}": by_kind[kind]
        for kind in ("units", "parts", "pairs", "unit_part")
        if by_kind.get(kind)
    }
    means["avd_size"] = [distances[(SIZE,)]]
    mean_distances = {}
    for name, listed in means.items():
        errors = [distance.error for distance in listed if distance.error is not None]
        value = float(np.mean([distance.value for distance in listed]))
        mean_error = float(np.mean(errors)) if errors else None
        mean_distances[name] = EstimatedDistance(value, mean_error)
    return mean_distances


def class_quality(spec: DatasetSpec, snapshot: Snapshot, table: ClassTable) -> dict[str, float]:
    """Return quality numbers of a released class table, by name, measured on the prepared rows.

    ``auc_class_rate/<label>``: AUC of the published classes' rates against the true labels, where
    rows of other classes have the rates of all published ones together; of more than two labels the
    mean over each against the rest. ``withheld``: share of the rows whose class is not published.
    NaN without prepared rows. NotPrepared unless the snapshot is prepared.
    """
    codes = prepared_codes(spec, snapshot, [*table.classes.groups, table.label])
    labels = codes[table.label].astype(np.int64)
    rates = table.rates
    counts = class_table(table.places_of(codes), labels, shape=rates.shape)
    rows = int(counts.sum())
    return {
        f"auc_class_rate/{table.label}": ClassAuc.of(counts, rates).value,
        "withheld": int(counts[-1].sum()) / rows if rows else float("nan"),
    }


STARTED_ROWS = 20_000  # Rows of ten starts of plain k-means, at most; of more, a seeded sample
ROUNDS = 10  # Rounds over all rows that follow the best start on a sample
MAX_REFINED_ROWS = 1_000_000  # Rows of those rounds, at most; of more, a seeded sample


def reference_centres(
    spec: DatasetSpec, snapshot: Snapshot, columns: tuple[str, ...], points: FloatArray, *, k: int
) -> FloatArray:
    """Return the m ≤ k centres (m, d) of k-means without privacy, in data units; store them.

    points   the prepared rows on ``columns``, (N, d), N ≥ 1

    They are those of ``reference_kmeans``, or of the file in which an equal call stored them.
    """
    fingerprints = [member.fingerprint("normalized") for member in snapshot.members]
    rows = fingerprints[0] if len(fingerprints) == 1 else fingerprints
    algorithm = [STARTED_ROWS, ROUNDS, MAX_REFINED_ROWS]
    inputs = json.dumps([columns, k, spec.digest, rows, algorithm])
    path = snapshot.folder / "kmeans" / f"{hashlib.sha256(inputs.encode()).hexdigest()[:32]}.json"
    stored = stored_object(path) if path.is_file() else None
    if stored is None:
        stored = {"centres": reference_kmeans(points, k).tolist()}
        write_private(path, json.dumps(stored).encode())
    return np.array(stored["centres"], dtype=np.float64)


@one_thread(with_sklearn=True)
def reference_kmeans(points: FloatArray, k: int) -> FloatArray:
    """Return the k-means centres (m, d) of points (N, d), to compare private centres with.

    They are those of scikit-learn's KMeans(k, n_init=10, random_state=0), m = k; with fewer rows
    than k every different row is a centre. Of more rows than ``STARTED_ROWS`` the ten starts use a
    seeded sample, and the best goes on for ``ROUNDS`` rounds over all rows, or over a sample of
    ``MAX_REFINED_ROWS``: over the built-in data sets the mean NICV is 1.0003 times that of ten
    starts on all rows. One thread: several would mostly wait for other work on the machine.
    """
    if len(points) < k:
        return np.unique(points, axis=0)
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    started = _sample_points(points, STARTED_ROWS)
    with warnings.catch_warnings():
        # Fewer different rows than k are fine here, and the warning would reveal their number.
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = KMeans(k, n_init=10, random_state=0).fit(started)
        if len(started) < len(points):
            refined = KMeans(k, init=fitted.cluster_centers_, n_init=1, max_iter=ROUNDS)
            fitted = refined.fit(_sample_points(points, MAX_REFINED_ROWS))
    return np.asarray(fitted.cluster_centers_, dtype=np.float64)


def _sample_points(points: FloatArray, limit: int) -> FloatArray:
    if len(points) <= limit:
        return points
    chosen = np.random.default_rng(0).choice(len(points), size=limit, replace=False)
    return points[np.sort(chosen)]


def exact_points(spec: DatasetSpec, snapshot: Snapshot, columns: tuple[str, ...]) -> FloatArray:
    """Return the prepared rows in data units (N, d), clipped and rounded to fixed-point numbers.

    NotPrepared unless the snapshot is prepared, Damaged if its rows are not as they were stored;
    DeclarationError for an attribute without bounds.
    """
    require_prepared(spec, snapshot)
    box = spec.domain.box(columns)
    table = read_stage(snapshot, "normalized", columns)
    points = np.empty((table.num_rows, len(columns)))
    for axis, (name, interval) in enumerate(zip(columns, box, strict=True)):
        points[:, axis] = interval.decode(table.column(name).to_numpy().astype(np.float64))
    return points


def clustering_quality(
    spec: DatasetSpec, snapshot: Snapshot, columns: tuple[str, ...], centres: FloatArray
) -> dict[str, float]:
    """Return quality numbers of released centres, by name, on the prepared rows.

    columns   d numeric attributes
    centres   (k, d) in data units

    ``nicv``, that of ``reference_centres`` as ``nicv_floor``, and ``nicv_ratio``; ``f_kmeans`` and
    ``ari_kmeans``, the agreement with the clusters of the reference; with a declared label
    ``f_label`` and ``ari_label``, that with its levels. With fewer rows than k the floor is 0 and
    the ratio NaN; without rows all are NaN. It raises what ``exact_points`` does.
    """
    points = exact_points(spec, snapshot, columns)
    if len(points) == 0:
        truths = ("kmeans",) if spec.label is None else ("kmeans", "label")
        names = [f"{metric}_{truth}" for truth in truths for metric in ("f", "ari")]
        return dict.fromkeys(["nicv", "nicv_floor", "nicv_ratio", *names], float("nan"))
    centres = np.asarray(centres, dtype=np.float64)
    best = reference_centres(spec, snapshot, columns, points, k=len(centres))
    clusters, classes = nearest_centres(points, centres), nearest_centres(points, best)
    quality, floor = nicv(points, centres, clusters), nicv(points, best, classes)
    tables = {"kmeans": _cross_table(classes, clusters)}
    if spec.label is not None:
        labels = read_stage(snapshot, "discretized", [spec.label]).column(spec.label).to_numpy()
        tables["label"] = _cross_table(labels.astype(np.int64), clusters)
    return {
        "nicv": quality,
        "nicv_floor": floor,
        "nicv_ratio": quality / floor if floor > 0 else float("nan"),
        **{f"f_{truth}": f_measure(table) for truth, table in tables.items()},
        **{f"ari_{truth}": adjusted_rand(table) for truth, table in tables.items()},
    }


def _cross_table(classes: IntArray, clusters: IntArray) -> IntArray:
    shape = (int(classes.max()) + 1, int(clusters.max()) + 1)
    return class_table(classes, clusters, shape=shape)


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def custodian_facts(
    snapshot: Snapshot, name: str, compute: Callable[[], Mapping[str, float]]
) -> dict[str, float]:
    """Return exact facts about a release: those of a file of the snapshot, or else ``compute()``.

    What is computed is written to the file, so a later evaluation of a settled release reads no
    row. The file is sealed with the population's key: after any change it is computed again.
    DeclarationError unless ``name`` is a safe file name.
    """
    if not _NAME.fullmatch(name):
        raise DeclarationError(
            "The name of a file of facts must have letters, digits, dots, _ and - alone, not "
            f"{name!r}: report this fault"
        )
    path = snapshot.folder / "custodian" / f"{name}.json"
    stored = (stored_object(path) if path.is_file() else None) or {}
    if stored.get("seal") != _seal(snapshot, name, stored.get("facts", {})):
        facts = dict(compute())
        stored = {"facts": facts, "seal": _seal(snapshot, name, facts)}
        write_private(path, json.dumps(stored, indent=1, sort_keys=True).encode())
    return dict(stored["facts"])


def _seal(snapshot: Snapshot, name: str, facts: Mapping[str, float]) -> str:
    text = json.dumps([name, facts], sort_keys=True)
    return hmac.new(snapshot.key, text.encode(), "sha256").hexdigest()
