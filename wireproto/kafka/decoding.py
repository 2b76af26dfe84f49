"""What the decoders written by hand share: the frame around each, and the fields that several requests have.

As in `primitives`, readers take ``(frame, pos)`` and return the next position last, or before the rest of
the budget of elements.
"""

from collections.abc import Callable
from functools import wraps
from struct import Struct
from struct import error as struct_error
from typing import Final, TypeVar

from wireproto.kafka.errors import MalformedRequest
from wireproto.kafka.primitives import (
    ends_badly,
    read_compact_string,
    read_string,
    read_uvarint,
    spend,
)

TOPIC_IS_NULL: Final = "a topic name is null"
MEMBER_IS_NULL: Final = "a group id or member id is null"

_INT32: Final = Struct(">i")

_Request = TypeVar("_Request")
_Decode = Callable[[int, memoryview, int], tuple[_Request, int]]
"""(API version, frame, position of the body) -> (request, where it ends)."""
_DecodeWhole = Callable[[int, memoryview, int], _Request]


def decodes(api: str, first: int, last: int) -> Callable[[_Decode[_Request]], _DecodeWhole[_Request]]:
    """The frame of a decoder of versions ``first`` to ``last``: a request has to end where the frame does.

    What is decorated raises :class:`MalformedRequest` when the body is not a request of that version, to the
    last byte.
    """

    def framed(decode: _Decode[_Request]) -> _DecodeWhole[_Request]:
        @wraps(decode)
        def decode_whole(api_version: int, frame: memoryview, pos: int) -> _Request:
            if not first <= api_version <= last:
                raise MalformedRequest(f"{api} has no version {api_version}")
            try:
                request, end = decode(api_version, frame, pos)
            except (IndexError, struct_error, UnicodeDecodeError) as error:
                raise ends_badly(error) from None
            if end != len(frame):
                raise MalformedRequest(f"{len(frame) - end} bytes are left over after the request")
            return request

        return decode_whole

    return framed


def read_count(
    frame: memoryview, pos: int, budget: int, smallest: int, flexible: bool
) -> tuple[int, int, int]:
    """The count of an array that may not be null, the position behind it and the rest of the budget."""
    if flexible:
        count, pos = read_uvarint(frame, pos)
        count -= 1
    else:
        (count,) = _INT32.unpack_from(frame, pos)
        pos += 4
    return count, pos, spend(budget, count, len(frame) - pos, smallest)


def read_topic_name(frame: memoryview, pos: int, flexible: bool) -> tuple[str, int]:
    """The name of a topic, which may not be null."""
    name, pos = read_compact_string(frame, pos) if flexible else read_string(frame, pos)
    if name is None:
        raise MalformedRequest(TOPIC_IS_NULL)
    return name, pos


def read_topic(
    frame: memoryview, pos: int, flexible: bool, by_id: bool
) -> tuple[str | None, bytes | None, int]:
    """A topic's name, or its id (16 bytes) in versions that have it ``by_id``, and the position behind it."""
    if by_id:
        return None, bytes(frame[pos : pos + 16]), pos + 16
    name, pos = read_compact_string(frame, pos) if flexible else read_string(frame, pos)
    if name is None:
        raise MalformedRequest(TOPIC_IS_NULL)
    return name, None, pos
