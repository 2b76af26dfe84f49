"""Requests as a client sends them, and answers as it reads them: what one gateway asks of another.

Answers are read with code made from kafka-python's schemas, as requests are (:mod:`.codegen`): strictly, to
the last byte, and with a bound on all their elements together. Who answers is not trusted more than a client.
"""

from functools import cache
from struct import Struct
from struct import error as struct_error
from typing import Any, Final

from wireproto.kafka.api_keys import ApiKey, is_flexible
from wireproto.kafka.codegen import Decoder, compile_decoder
from wireproto.kafka.errors import MalformedAnswer, MalformedRequest
from wireproto.kafka.primitives import MAX_REQUEST_ELEMENTS, skip_tags, string
from wireproto.kafka.schemas import RESPONSE_CLASSES

_SIZE: Final = Struct(">i")
_HEADER: Final = Struct(">hhi")  # API key, API version, correlation id
_CORRELATION: Final = Struct(">i")


def frame_request(api_key: int, api_version: int, correlation_id: int, client_id: str, body: bytes) -> bytes:
    """The framed request: size field, header v1 or v2, and the body as it is encoded already."""
    tags = b"\x00" if is_flexible(api_key, api_version) else b""
    header = _HEADER.pack(api_key, api_version, correlation_id) + string(client_id) + tags
    return _SIZE.pack(len(header) + len(body)) + header + body


def correlation_id_of(frame: memoryview) -> int:
    """Which request an answer belongs to; `frame` is without its size field. Raises MalformedAnswer."""
    if len(frame) < _CORRELATION.size:
        raise MalformedAnswer("the answer is shorter than its header")
    correlation_id: int = _CORRELATION.unpack_from(frame)[0]
    return correlation_id


def decode_answer(api_key: int, api_version: int, frame: memoryview) -> Any:
    """The answer as an instance of kafka-python's class for the API; `frame` is without its size field.

    It shares no memory with the frame. Raises MalformedAnswer when it is not an answer of that version, to
    the last byte, or when there is no such API or version.
    """
    decode = _decoder(api_key, api_version)
    if decode is None:
        raise MalformedAnswer(f"there is no answer of API {api_key} version {api_version}")
    try:
        body = _CORRELATION.size
        # The answer to ApiVersions has a header without tags in every version (KIP-511).
        if is_flexible(api_key, api_version) and api_key != ApiKey.API_VERSIONS:
            body, _ = skip_tags(frame, body, MAX_REQUEST_ELEMENTS)
        answer, end = decode(bytes(frame), body)
    except MalformedRequest as error:
        raise MalformedAnswer(str(error)) from None
    except UnicodeDecodeError:
        raise MalformedAnswer("a string is not UTF-8") from None
    except (IndexError, struct_error):
        raise MalformedAnswer("the answer ends in the middle of a field") from None
    if end != len(frame):
        raise MalformedAnswer(f"the answer has {len(frame)} bytes, and its fields {end}")
    return answer


@cache  # as many entries as there are versions of the APIs that gateways ask for
def _decoder(api_key: int, api_version: int) -> Decoder | None:
    cls = RESPONSE_CLASSES.get(api_key)
    if cls is None:
        return None
    low, high = cls.valid_versions
    return compile_decoder(cls, api_version) if low <= api_version <= high else None
