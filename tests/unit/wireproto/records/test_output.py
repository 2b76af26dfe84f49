"""Memory for what is inflated, and the exception of the package."""

import pytest

from wireproto.kafka.errors import ErrorCode
from wireproto.records.errors import InvalidBatch
from wireproto.records.output import PIECE_BYTES, Output, reserve, too_large


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 5 * PIECE_BYTES])
def test_reserved_bytes_are_zero_and_writable(size: int) -> None:
    room = reserve(size)
    assert room == bytes(size)
    room[:] = b"x" * size
    assert room == b"x" * size


def test_no_room_is_a_memory_error() -> None:
    with pytest.raises(MemoryError):
        reserve(1 << 62)


def test_one_piece_is_kept_as_it_is() -> None:
    piece = b"all of it"
    output = Output(100)
    output.append(piece)
    output.append(b"")
    assert output.result() is piece


def test_pieces_in_order_up_to_the_limit() -> None:
    output = Output(9)
    for piece in (b"", b"abc", b"", b"defg", b"hi"):
        assert output.next_piece_bytes >= 1
        output.append(piece)
    assert bytes(output.result()) == b"abcdefghi"
    assert output.next_piece_bytes == 1
    with pytest.raises(InvalidBatch) as caught:
        output.append(b"j")
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert bytes(output.result()) == b"abcdefghi"


def test_pieces_are_asked_for_one_byte_beyond_the_limit() -> None:
    assert Output(0).next_piece_bytes == 1
    assert Output(PIECE_BYTES - 1).next_piece_bytes == PIECE_BYTES
    assert Output(10 * PIECE_BYTES).next_piece_bytes == PIECE_BYTES


def test_the_exception_says_code_and_reason() -> None:
    error = too_large(5)
    assert (error.code, error.message) == (
        ErrorCode.MESSAGE_TOO_LARGE,
        "the records inflate to more than 5 bytes",
    )
    assert str(error) == "MESSAGE_TOO_LARGE: the records inflate to more than 5 bytes"
