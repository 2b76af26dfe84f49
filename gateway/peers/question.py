"""What is asked of another gateway: a request of Kafka's protocol. Pure."""

from __future__ import annotations

from typing import Any

from wireproto.kafka.schemas import schema_versions


class Question:
    """One of kafka-python's requests (`wireproto.kafka.schemas.REQUEST_CLASSES`), asked in the highest
    version that both sides have, and in none below `lowest`: in which it would mean something else.

    It may be asked again and again, and is encoded once.
    """

    def __init__(self, request: Any, *, lowest: int = 0) -> None:
        versions = schema_versions(request.API_KEY)
        assert versions is not None
        self.api_key: int = request.API_KEY
        self.name: str = request.name.removesuffix("Request")
        self.lowest = max(lowest, versions[0])
        self.highest = versions[1]
        self._request = request
        self._version = -1
        self._body = b""

    def body(self, version: int) -> bytes:
        """Encoded. Raises what `struct` raises for numbers out of range."""
        if version != self._version:
            self._body, self._version = bytes(self._request.encode(version=version)), version
        return self._body
