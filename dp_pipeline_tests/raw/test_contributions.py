"""Which rows of a person are kept is her own affair: nobody else and no order changes it."""

import hmac
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.raw import contributions
from dp_pipeline.raw.contributions import PersonKeys, _persons, _row_digests, keep_at_most
from dp_pipeline.raw.siphash import LONGEST, of_texts, of_words
from dp_pipeline_tests.raw.written import KEY

Row = tuple[str, float | None, str]

ROWS = st.lists(
    st.tuples(
        st.sampled_from(["ann", "bob", "cem", "", " ", None]),
        st.sampled_from([0.0, 1.0, 2.5, None]),
        st.sampled_from(["a", "b", "1:a"]),
    ),
    max_size=14,
)
CONTRACT = settings(
    max_examples=60,
    database=None,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


def keep(table: pa.Table, *, at_most: int, column: str = "user", key: bytes = KEY) -> pa.Table:
    keys = PersonKeys.of(table.column_names, column, key)
    return keep_at_most(table, at_most=at_most, keys=keys)


def table_of(rows: list[Row]) -> pa.Table:
    person, x, note = zip(*rows, strict=True) if rows else ([], [], [])
    schema = pa.schema({"x": pa.float64(), "note": pa.string(), "user": pa.string()})
    return pa.table({"x": x, "note": note, "user": person}, schema=schema)


def samples(table: pa.Table, at_most: int) -> dict[str, Counter[tuple[Any, ...]]]:
    """What every person keeps, as a multiset."""
    rows_of_persons: dict[str, Counter[tuple[Any, ...]]] = {}
    for row in keep(table, at_most=at_most).to_pylist():
        rows_of_persons.setdefault(row["user"], Counter())[(row["x"], row["note"])] += 1
    return rows_of_persons


@pytest.mark.parametrize("part", [1, 3, 1 << 14])
@CONTRACT
@given(rows=ROWS, at_most=st.integers(1, 4), cut=st.integers(0, 14), data=st.data())
def test_the_contract_holds(part, rows, at_most, cut, data):
    """What every later sensitivity rests on, however many rows are hashed at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contributions, "_ROWS_A_BLOCK", part)
        assert_contract(rows, at_most, cut, data)


def assert_contract(rows: list[Row], at_most: int, cut: int, data: st.DataObject) -> None:
    table = table_of(rows)
    before = samples(table, at_most)
    people = {person for person, _, _ in rows if person and person.strip()}

    assert set(before) == people, "every person keeps something, no one else does"
    for person in people:
        stored = Counter((x, note) for who, x, note in rows if who == person)
        assert before[person].total() == min(stored.total(), at_most), "as many as she may keep"
        assert before[person] <= stored, "only rows she has"

    shuffled = data.draw(st.permutations(rows))
    assert samples(table_of(shuffled), at_most) == before, "order changes nothing"

    parts: list[list[Row]] = [[], []]
    for row in rows:
        parts[(row[0] or "").strip() < "b"].append(row)
    halves = [samples(table_of(part), at_most) for part in parts]
    assert halves[0] | halves[1] == before, "persons elsewhere change nothing"

    batches = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
    assert samples(batches, at_most) == before, "batches change nothing"

    for person in people:
        others = samples(table_of([row for row in rows if row[0] != person]), at_most)
        expected = {who: own for who, own in before.items() if who != person}
        assert others == expected, "a person who leaves changes no one else"

    newcomer: list[Row] = [("new", 1.0, "a")] * data.draw(st.integers(1, 6))
    place = data.draw(st.integers(0, len(rows)))
    after = samples(table_of(rows[:place] + newcomer + rows[place:]), at_most)
    assert after.pop("new").total() == min(len(newcomer), at_most), "as many as she may keep"
    assert after == before, "a person who comes changes no one else"


def test_copies_of_a_row_are_chosen_one_by_one():
    """Under this key; one in 10^28 other keys would keep 50 copies of one row."""
    rows: list[Row] = [("ann", float(n % 2), "a") for n in range(100)]
    actual = keep(table_of(rows), at_most=50)
    assert set(actual.column("x").to_pylist()) == {0.0, 1.0}


def test_kept_rows_stay_in_their_order_and_whole():
    rows = [("ann", float(n), "a") for n in range(100)]
    actual = keep(table_of(rows), at_most=4)
    x = actual.column("x").to_pylist()
    assert x == sorted(x)
    assert len(x) == 4
    assert actual.schema == table_of(rows).schema
    # Names of columns and the key decide the sample, the order of columns does not.
    reordered = table_of(rows).select(["user", "note", "x"])
    assert keep(reordered, at_most=4)["x"].to_pylist() == x
    renamed = table_of(rows).rename_columns(["y", "note", "user"])
    assert keep(renamed, at_most=4)["y"].to_pylist() != x
    assert keep(table_of(rows), at_most=4, key=b"2")["x"].to_pylist() != x


def test_the_sample_prefers_no_row():
    rows: list[Row] = [("ann", float(n), "a") for n in range(4)]
    chosen = Counter(
        keep(table_of(rows), at_most=1, key=b"%d" % n)["x"][0].as_py() for n in range(400)
    )
    # Binomial(400, 1/4) is inside 100 ± 52 with probability above 1 − 1e-8; the keys are fixed.
    assert all(48 <= chosen[x] <= 152 for x in (0.0, 1.0, 2.0, 3.0))


def test_kept_rows_are_those_of_the_documented_digest():
    """A released snapshot must be prepared again to the same rows: this may never change."""
    names = b'["user", "note", "x"]'
    secret = hmac.digest(KEY, b"contribution 2\0" + names, "sha512")
    rows_key, texts_key, copies_key = secret[:16], secret[16:32], secret[32:48]

    def words(*numbers):
        return b"".join(number.to_bytes(8, "little") for number in numbers)

    def digest(x, copy):
        # Person, then note and x by name; then their kinds: text, text and a whole number.
        texts = (by_hand(text, texts_key) for text in (b"ann", b"a"))
        first = by_hand(words(*texts, x, 0b111101), rows_key)
        return by_hand(words(first, copy), copies_key) if copy else first

    rows: list[Row] = [("ann", float(x), "a") for x in range(8) for _ in range(2)]
    actual = keep(table_of(rows), at_most=7)
    every = sorted(digest(x, copy) for x in range(8) for copy in range(2))
    expected = [x for x in range(8) for copy in range(2) if digest(x, copy) in every[:7]]
    assert actual.column("x").to_pylist() == expected == [1, 2, 3, 4, 5, 6, 7]


NAMES = ["", " \t", None, "ann"]
PEOPLE = [
    *(pa.array(NAMES), pa.array(NAMES, pa.large_string()), pa.array(NAMES).dictionary_encode()),
    *(pa.array([None, None, None, 7]), pa.array([None] * 3 + [7], pa.uint8()).dictionary_encode()),
    pa.nulls(4),
]


@pytest.mark.parametrize("people", PEOPLE)
def test_a_row_without_a_person_is_dropped(people):
    table = pa.table({"x": [1, 2, 3, 4], "user": people})
    expected = [] if pa.types.is_null(people.type) else [4]
    assert keep(table, at_most=9).column("x").to_pylist() == expected


CELLS = [("a", "b:c"), ("a:b", "c"), ("", "ab"), ("ab", ""), (None, "-"), ("-", None)]
CELLS += [("1:a", ""), ("", "1:a"), (None, ""), ("", None), (None, None), ("ä", "a")]
NUMBERS = [0.1, np.nextafter(0.1, 1.0), 1e300, float("inf"), float("nan"), None, 0.0, -0.0, -2.0]
NUMBERS += [-float("inf"), 2.0**63, -(2.0**63), 2.0**64, np.nextafter(2.0**63, 0), 5e-324]


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        (CELLS, pa.string()),
        ([(x,) for x in NUMBERS], pa.float64()),
        # Missing in one column of forty, and 0 there: more columns than a word has kinds of.
        ([[None if index == gap else 0 for index in range(40)] for gap in range(41)], pa.int8()),
    ],
    ids=["texts", "numbers", "forty columns"],
)
def test_no_two_rows_have_one_digest(rows, kind):
    columns = {
        f"x{index:02}": pa.array(cells, kind) for index, cells in enumerate(zip(*rows, strict=True))
    }
    assert len(digests(pa.table(columns | {"user": ["u"] * len(rows)}))) == len(rows)


def test_numbers_of_the_same_bits_differ():
    doubles = [0.5, -0.0, 1e300, float("nan"), float("inf"), 2.0**64]
    bits = np.array(doubles).view(np.int64).tolist()
    assert not digests_of(doubles, pa.float64()) & digests_of(bits, pa.int64())
    large = [2**63, 2**63 + 1, 2**64 - 1]
    unsigned = digests_of(large, pa.uint64())
    assert not unsigned & digests_of([number - 2**64 for number in large], pa.int64())
    real = digests_of([2.0**63], pa.float64())
    assert len(unsigned & real) == 1, "as a double it is the same number"


@given(x=st.lists(st.one_of(st.none(), st.integers(0, 2**53)), max_size=8))
def test_integer_is_the_same_cell_in_every_type(x):
    assert digests_of(x, pa.int64()) == digests_of(x, pa.float64()) == digests_of(x, pa.uint64())


def digests(table: pa.Table) -> set[int]:
    """Of all rows, as if they were all of crowded persons."""
    keys = PersonKeys.of(table.column_names, "user", KEY)
    rows = np.arange(table.num_rows)
    return set(_row_digests(table, keys, rows, *_persons(table, "user")).tolist())


def digests_of(x: list[Any], kind: pa.DataType) -> set[int]:
    return digests(pa.table({"x": pa.array(x, kind), "user": pa.array([3] * len(x), pa.int64())}))


def test_an_empty_key_or_a_column_of_lists_is_refused():
    with pytest.raises(DeclarationError, match="population's key, but the key is"):
        keep(table_of([("ann", 1.0, "a")]), at_most=1, key=b"")
    table = pa.table({"x": [[1], [2]], "user": ["ann", "ann"]})
    with pytest.raises(DeclarationError, match="must hold text or numbers, not"):
        keep(table, at_most=1)


NO_IDS = [
    *(pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.decimal128(20, 0), pa.date32()),
    *(pa.timestamp("us"), pa.time32("s"), pa.duration("s"), pa.binary(), pa.binary(16)),
    *(pa.list_(pa.int64()), pa.struct({"id": pa.int64()}), pa.dictionary(pa.int8(), pa.float64())),
]


@pytest.mark.parametrize("kind", NO_IDS, ids=str)
@pytest.mark.parametrize("rows", [0, 1, 3])
def test_id_column_that_rounds_is_refused(kind, rows):
    people = (
        pa.DictionaryArray.from_arrays(pa.nulls(rows, pa.int8()), pa.array([7.0]))
        if pa.types.is_dictionary(kind)
        else pa.nulls(rows, kind)
    )
    table = pa.table({"x": list(range(rows)), "user": people})
    with pytest.raises(DeclarationError, match="must hold text or whole numbers, not"):
        keep(table, at_most=2)


WORDS = st.lists(
    st.sampled_from(["a", "b", "7", "0", ".", "\0", " ", "\u00a0", "\u00e9", "e\u0301", "\ufeff"]),
    max_size=4,
).map("".join)


def whole(bits: int, *, is_signed: bool) -> st.SearchStrategy[int]:
    """Whole numbers near the ends, near 0 and beside those that a double cannot hold."""
    low = -(2 ** (bits - 1)) if is_signed else 0
    high = low + 2**bits - 1
    corners = [low, low + 1, high, high - 1, -1, 0, 1, 2**53, 2**53 + 1, 2**60, 2**60 + 1]
    return st.sampled_from([corner for corner in corners if low <= corner <= high])


SIGNED = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
UNSIGNED = (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
IDS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    **{kind: whole(kind.bit_width, is_signed=True) for kind in SIGNED},
    **{kind: whole(kind.bit_width, is_signed=False) for kind in UNSIGNED},
    **dict.fromkeys((pa.string(), pa.large_string()), WORDS),
}


@pytest.mark.parametrize("coded", [False, True])
@pytest.mark.parametrize("kind", IDS, ids=str)
@settings(max_examples=15, database=None)
@given(own=st.integers(1, 5), at_most=st.integers(1, 3), data=st.data())
def test_a_further_person_adds_only_her_own_rows(kind, coded, own, at_most, data):
    def sample(ids: list[Any]) -> Counter[tuple[Any, Any]]:
        stored = pa.array(ids, kind)
        stored = stored.dictionary_encode() if coded else stored
        table = pa.table({"x": [n % 3 for n in range(len(ids))], "user": stored})
        return Counter((row["user"], row["x"]) for row in keep(table, at_most=at_most).to_pylist())

    newcomer = data.draw(IDS[kind])
    drawn = data.draw(st.lists(st.one_of(st.none(), IDS[kind]), max_size=12))
    ids = [identity for identity in drawn if _person(identity) != _person(newcomer)]
    before, after = sample(ids), sample(ids + [newcomer] * own)
    assert before <= after, "nobody else loses a row"
    expected = 0 if _person(newcomer) is None else min(own, at_most)
    assert (after - before).total() == expected, "and she adds as many as she may"
    assert {who for who, _ in after - before} <= {newcomer}


def _person(identity: Any) -> Any:
    """Whom an id names: None for nobody."""
    return (identity.strip() or None) if isinstance(identity, str) else identity


@pytest.mark.parametrize(
    "ids",
    [["ann", " ann", "ann "], [2**60, 2**60 + 1, 2**64 - 1, 2**64 - 2]],
    ids=["texts", "large"],
)
def test_ids_name_so_many_persons(ids):
    """White space is no part of an id, and the last bit of a large number is."""
    is_text = ids[0] == "ann"
    people = pa.array(ids * 2, pa.string() if is_text else pa.uint64())
    table = pa.table({"x": range(2 * len(ids)), "user": people})
    assert keep(table, at_most=1).num_rows == (1 if is_text else 4)


@given(
    rows=st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from([0, 1, 2, 2**60, 2**60 + 1, 2**64 - 1])),
        min_size=1,
        max_size=12,
    )
)
def test_rows_are_ordered_by_all_bits_of_digests(rows):
    """Digests that are the same in the bits which one word has room for are compared whole."""
    owners = np.array([owner for owner, _ in rows], dtype=np.int32)
    actual = np.array([digest for _, digest in rows], dtype=np.uint64)
    expected = sorted(range(len(rows)), key=lambda row: rows[row])
    assert contributions._order(owners, actual).tolist() == expected


@given(shape=st.lists(st.integers(1, 4), min_size=1, max_size=6))
def test_every_copy_knows_how_many_came_before_it(shape):
    is_copy = np.array([index > 0 for count in shape for index in range(count)])
    expected = [index for count in shape for index in range(1, count)]
    assert contributions._copies_before(is_copy).tolist() == expected


SIP_KEY = bytes(range(16))

# SipHash-2-4 under the key 00 01 … 0f of the messages "", 00, 00 01, … of 0 to 15 bytes, as the
# authors' reference implementation has them, and of the one of 63 bytes.
VECTORS = [
    *(0x726FDB47DD0E0E31, 0x74F839C593DC67FD, 0x0D6C8009D9A94F5A, 0x85676696D7FB7E2D),
    *(0xCF2794E0277187B7, 0x18765564CD99A68D, 0xCBC9466E58FEE3CE, 0xAB0200F58B01D137),
    *(0x93F5F5799A932462, 0x9E0082DF0BA9E4B0, 0x7A5DBBC594DDB9F3, 0xF4B32F46226BADA7),
    *(0x751E8FBC860EE5FB, 0x14EA5627C0843D90, 0xF723CA908E7AF2EE, 0xA129CA6149BE45E5),
    0x958A324CEB064572,
]


def texts_of(messages: list[bytes]) -> pa.Array:
    """Whatever bytes: a hash does not ask whether they are UTF-8."""
    return pa.array(messages, pa.large_binary()).view(pa.large_string())


def by_hand(message: bytes, key: bytes) -> int:
    """SipHash-2-4 as the paper has it, one message in Python's numbers."""
    mask = (1 << 64) - 1

    def turned(word: int, bits: int) -> int:
        return (word << bits | word >> (64 - bits)) & mask

    k0, k1 = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D]
    v += [k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]

    def rounds(count: int) -> None:
        for _ in range(count):
            for a, b, left in ((0, 1, 13), (2, 3, 16), (0, 3, 21), (2, 1, 17)):
                v[a] = (v[a] + v[b]) & mask
                v[b] = turned(v[b], left) ^ v[a]
                if (a, b) in ((0, 1), (2, 1)):
                    v[a] = turned(v[a], 32)

    last = len(message) // 8 * 8
    padded = message[last:].ljust(7, b"\0") + bytes([len(message) % 256])
    for index in range(0, last + 8, 8):
        word = int.from_bytes((message[:last] + padded)[index : index + 8], "little")
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def test_texts_have_the_published_hashes_of_all_lengths():
    messages = [bytes(range(length)) for length in range(64)]
    expected = [by_hand(message, SIP_KEY) for message in messages]
    assert [*expected[:16], expected[63]] == VECTORS
    assert of_texts(texts_of(messages), SIP_KEY).tolist() == expected
    assert of_texts(texts_of([]), SIP_KEY).tolist() == []
    other = of_texts(texts_of(messages), bytes([1, *SIP_KEY[1:]]))
    assert not set(other.tolist()) & set(expected), "a bit of the key changes every hash"


@pytest.mark.parametrize("width", [*range(1, 8), 40])
@settings(max_examples=10)
@given(seed=st.integers(0, 99), key=st.binary(min_size=16, max_size=16))
def test_the_hash_of_words_depends_on_no_other_row(width, seed, key):
    """Forty words are more bytes than the byte of their number holds."""
    rows = np.random.default_rng(seed).integers(0, 2**64, (3, width), dtype=np.uint64)
    expected = [by_hand(row.astype("<u8").tobytes(), key) for row in rows]
    assert of_words(list(rows.T), key).tolist() == expected


@given(
    messages=st.lists(st.binary(max_size=40), max_size=9),
    key=st.binary(min_size=16, max_size=16),
    cut=st.integers(0, 9),
)
def test_the_hash_of_a_text_depends_on_no_other_text(messages, key, cut):
    texts = texts_of(messages)
    expected = [by_hand(message, key) for message in messages]
    assert of_texts(texts, key).tolist() == expected
    assert of_texts(texts.slice(cut), key).tolist() == expected[cut:], "a part of an array"


def test_a_long_text_is_hashed_by_hmac_and_one_more_byte_decides():
    longest = b"a" * LONGEST
    actual = of_texts(texts_of([longest, longest + b"a"]), SIP_KEY).tolist()
    long = hmac.digest(SIP_KEY, longest + b"a", "sha256")[:8]
    assert actual == [by_hand(longest, SIP_KEY), int.from_bytes(long, "little")]
    with pytest.raises(ValueError, match="A key of SipHash must have"):
        of_words([np.zeros(1, dtype=np.uint64)], bytes(24))
