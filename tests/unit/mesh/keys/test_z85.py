import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.keys.z85 import decode, encode, is_key


def test_the_vector_of_the_rfc() -> None:
    data = bytes.fromhex("864FD26FB559F75B")
    assert (encode(data), decode("HelloWorld")) == ("HelloWorld", data)


@given(st.binary(max_size=64).map(lambda data: data[: len(data) // 4 * 4]))
def test_what_was_encoded_comes_back(data: bytes) -> None:
    assert decode(encode(data)) == data


@pytest.mark.parametrize("text", ["Hell", "HelloWorl", "Hell~", "Hell\n", "#####", "%nSc1", "é0000"])
def test_what_is_no_z85_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="character"):
        decode(text)


def test_the_largest_word() -> None:
    assert decode("%nSc0") == b"\xff" * 4


@pytest.mark.parametrize("length", [1, 2, 3, 5])
def test_other_lengths_are_refused(length: int) -> None:
    with pytest.raises(ValueError, match="multiple of four"):
        encode(bytes(length))


@pytest.mark.parametrize(
    ("text", "expected"), [("0" * 40, True), ("0" * 35, False), ("0" * 45, False), ("#" * 40, False)]
)
def test_keys(text: str, expected: bool) -> None:
    assert is_key(text) is expected
