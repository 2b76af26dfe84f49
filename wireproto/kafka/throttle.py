"""Where an answer says for how long its client is not listened to (``throttle_time_ms``), and how it is put
there.

Answers are made with 0 in this place, in many ways, some of them once for many clients. Who is throttled has
a copy. Only Produce's field has no place that is known beforehand: its encoder takes the time.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Final, TypeAlias

from wireproto.kafka.api_keys import NEVER, ApiKey, is_flexible
from wireproto.kafka.primitives import read_uvarint

Buffer: TypeAlias = bytes | bytearray | memoryview
Answer: TypeAlias = bytes | list[Buffer]
"""Whole, or in pieces."""

_FROM: Final[Mapping[int, int]] = {
    ApiKey.PRODUCE: NEVER,
    ApiKey.LIST_OFFSETS: 2,
    ApiKey.METADATA: 3,
    ApiKey.OFFSET_COMMIT: 3,
    ApiKey.OFFSET_FETCH: 3,
    ApiKey.FIND_COORDINATOR: 1,
    ApiKey.JOIN_GROUP: 2,
    ApiKey.HEARTBEAT: 1,
    ApiKey.LEAVE_GROUP: 1,
    ApiKey.SYNC_GROUP: 1,
    ApiKey.DESCRIBE_GROUPS: 1,
    ApiKey.LIST_GROUPS: 1,
    ApiKey.SASL_HANDSHAKE: NEVER,
    ApiKey.API_VERSIONS: 1,
    ApiKey.WRITE_TXN_MARKERS: NEVER,
    ApiKey.SASL_AUTHENTICATE: NEVER,
    ApiKey.DESCRIBE_QUORUM: NEVER,
}
"""First version with this field; of APIs that are not here every version that there is has it."""

_LAST: Final = frozenset((
    ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
))  # fmt: skip
"""APIs with the field at the end of their answers, which are in one piece."""

_AFTER_HEADER: Final = 8
"""Size and correlation id; flexible versions have a byte more, for the tags of the header."""

_ERROR: Final = 2
_COUNT: Final = 4
_API: Final = 6
"""Bytes of an error code, of an array's count, and of a key with its versions."""

_INT32: Final = Struct(">i")


def throttle_offset(api_key: int, api_version: int, answer: Buffer) -> int | None:
    """Where the field is in a framed answer, of which this is the beginning; None: it has none."""
    if api_version < _FROM.get(api_key, 0):
        return None
    if api_key == ApiKey.API_VERSIONS:  # its header has no tags (KIP-511)
        return _after_apis(api_version, answer)
    if api_key == ApiKey.OFFSET_DELETE:
        return _AFTER_HEADER + _ERROR
    if api_key in _LAST:  # flexible versions have a byte more, for the tags of the answer
        return len(answer) - _INT32.size - is_flexible(api_key, api_version)
    return _AFTER_HEADER + is_flexible(api_key, api_version)


def _after_apis(api_version: int, answer: Buffer) -> int:
    apis = _AFTER_HEADER + _ERROR
    if is_flexible(ApiKey.API_VERSIONS, api_version):
        count, first = read_uvarint(memoryview(answer), apis)
        return first + (count - 1) * (_API + 1)
    (number,) = _INT32.unpack_from(answer, apis)
    return apis + _COUNT + int(number) * _API


def throttled(api_key: int, api_version: int, answer: Answer, throttle_ms: int) -> Answer:
    """The answer with this time, if it has a place for it."""
    pieces = answer if isinstance(answer, list) else [answer]
    offset = throttle_offset(api_key, api_version, pieces[0])
    if offset is None:
        return answer
    first = bytearray(pieces[0])
    _INT32.pack_into(first, offset, throttle_ms)
    return [first, *pieces[1:]] if isinstance(answer, list) else bytes(first)
