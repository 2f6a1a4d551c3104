"""The hash that decides which rows of a person are kept is the published one."""

import hmac

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.raw.siphash import LONGEST, of_texts, of_words

KEY = bytes(range(16))

# SipHash-2-4 under the key 00 01 … 0f of the messages "", 00, 00 01, … of 0 to 63 bytes, as the
# authors' reference implementation has them.
VECTORS = [
    *(0x726FDB47DD0E0E31, 0x74F839C593DC67FD, 0x0D6C8009D9A94F5A, 0x85676696D7FB7E2D),
    *(0xCF2794E0277187B7, 0x18765564CD99A68D, 0xCBC9466E58FEE3CE, 0xAB0200F58B01D137),
    *(0x93F5F5799A932462, 0x9E0082DF0BA9E4B0, 0x7A5DBBC594DDB9F3, 0xF4B32F46226BADA7),
    *(0x751E8FBC860EE5FB, 0x14EA5627C0843D90, 0xF723CA908E7AF2EE, 0xA129CA6149BE45E5),
    *(0x3F2ACC7F57C29BDB, 0x699AE9F52CBE4794, 0x4BC1B3F0968DD39C, 0xBB6DC91DA77961BD),
    *(0xBED65CF21AA2EE98, 0xD0F2CBB02E3B67C7, 0x93536795E3A33E88, 0xA80C038CCD5CCEC8),
    *(0xB8AD50C6F649AF94, 0xBCE192DE8A85B8EA, 0x17D835B85BBB15F3, 0x2F2E6163076BCFAD),
    *(0xDE4DAAACA71DC9A5, 0xA6A2506687956571, 0xAD87A3535C49EF28, 0x32D892FAD841C342),
    *(0x7127512F72F27CCE, 0xA7F32346F95978E3, 0x12E0B01ABB051238, 0x15E034D40FA197AE),
    *(0x314DFFBE0815A3B4, 0x027990F029623981, 0xCADCD4E59EF40C4D, 0x9ABFD8766A33735C),
    *(0x0E3EA96B5304A7D0, 0xAD0C42D6FC585992, 0x187306C89BC215A9, 0xD4A60ABCF3792B95),
    *(0xF935451DE4F21DF2, 0xA9538F0419755787, 0xDB9ACDDFF56CA510, 0xD06C98CD5C0975EB),
    *(0xE612A3CB9ECBA951, 0xC766E62CFCADAF96, 0xEE64435A9752FE72, 0xA192D576B245165A),
    *(0x0A8787BF8ECB74B2, 0x81B3E73D20B49B6F, 0x7FA8220BA3B2ECEA, 0x245731C13CA42499),
    *(0xB78DBFAF3A8D83BD, 0xEA1AD565322A1A0B, 0x60E61C23A3795013, 0x6606D7E446282B93),
    *(0x6CA4ECB15C5F91E1, 0x9F626DA15C9625F3, 0xE51B38608EF25F57, 0x958A324CEB064572),
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
    assert of_texts(texts_of(messages), KEY).tolist() == VECTORS
    assert of_texts(texts_of([]), KEY).tolist() == []
    other = of_texts(texts_of(messages), bytes([1, *KEY[1:]]))
    assert not set(other.tolist()) & set(VECTORS), "a bit of the key changes every hash"


def test_hashes_of_words_are_the_published_ones():
    message = np.frombuffer(bytes(range(56)), dtype="<u8").astype(np.uint64)
    for count in range(1, 8):
        columns = [np.array([word]) for word in message[:count]]
        assert of_words(columns, KEY).tolist() == [VECTORS[8 * count]]


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


@settings(max_examples=40)
@given(
    rows=st.lists(st.lists(st.integers(0, 2**64 - 1), min_size=5, max_size=5), min_size=1),
    key=st.binary(min_size=16, max_size=16),
)
def test_the_hash_of_words_depends_on_no_other_row(rows, key):
    columns = list(np.array(rows, dtype=np.uint64).T)
    expected = [by_hand(b"".join(w.to_bytes(8, "little") for w in row), key) for row in rows]
    assert of_words(columns, key).tolist() == expected


def test_message_longer_than_its_length_byte_is_hashed():
    words = [np.array([index], dtype=np.uint64) for index in range(40)]
    message = b"".join(index.to_bytes(8, "little") for index in range(40))
    assert of_words(words, KEY).tolist() == [by_hand(message, KEY)]


def test_a_long_text_is_hashed_by_hmac_and_one_more_byte_decides():
    longest = b"a" * LONGEST
    actual = of_texts(texts_of([longest, longest + b"a"]), KEY).tolist()
    long = hmac.digest(KEY, longest + b"a", "sha256")[:8]
    assert actual == [by_hand(longest, KEY), int.from_bytes(long, "little")]


def test_a_key_of_another_length_is_refused():
    with pytest.raises(ValueError, match="A key of SipHash must have"):
        of_words([np.zeros(1, dtype=np.uint64)], bytes(24))
