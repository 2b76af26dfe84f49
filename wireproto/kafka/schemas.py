"""kafka-python's message classes by API key: the schemas behind our decoders, and the encoder of answers.

kafka-python carries Kafka's own JSON schemas; those that it lacks are in :mod:`.messages`. We read requests
with code made from them (:mod:`.codegen`), never with kafka-python's decoder, which blocks for seconds on
hostile bytes.
"""

from collections.abc import Iterator
from typing import Any, Final

from wireproto.put_off import put_off

put_off("kafka")

import kafka.protocol.admin  # noqa: E402 - after that
import kafka.protocol.consumer  # noqa: E402
import kafka.protocol.metadata  # noqa: E402
import kafka.protocol.producer  # noqa: E402
import kafka.protocol.sasl  # noqa: E402
from kafka.protocol.api_message import ApiMessage  # noqa: E402

import wireproto.kafka.messages  # noqa: E402

_MODULES: Final = (
    kafka.protocol.admin,
    kafka.protocol.consumer,
    kafka.protocol.metadata,
    kafka.protocol.producer,
    kafka.protocol.sasl,
    wireproto.kafka.messages,
)


def _classes(kind: str) -> dict[int, Any]:
    exported: Iterator[Any] = (getattr(module, name) for module in _MODULES for name in module.__all__)
    messages: Iterator[Any] = (
        cls for cls in exported if isinstance(cls, type) and issubclass(cls, ApiMessage)
    )
    return {cls.API_KEY: cls for cls in messages if cls.type == kind}


REQUEST_CLASSES: Final = _classes("request")
"""Request classes by API key: what `wireproto.kafka.requests.decode_request` gives."""

RESPONSE_CLASSES: Final = _classes("response")
"""Response classes by API key: what `wireproto.kafka.responses.encode_response` takes."""


def schema_versions(api_key: int) -> tuple[int, int] | None:
    """Lowest and highest version of a request in Kafka 4.3; ``None`` when there is no schema for the key."""
    cls = REQUEST_CLASSES.get(api_key)
    if cls is None:
        return None
    low, high = cls.valid_versions
    return low, high
