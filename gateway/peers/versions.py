"""Which version of an API is asked for: the highest that both gateways have. Pure.

Gateways of two releases work side by side while one after the other is upgraded; so the first thing that is
asked over a connection is what the other one has (ApiVersions), as Kafka's clients and brokers do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gateway.peers.failures import PeerLacks, PeerUnreachable
from gateway.peers.question import Question
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.schemas import REQUEST_CLASSES

VERSION_OF_API_VERSIONS: Final = 3
"""Of ApiVersions itself: the first in which who asks names its software. Every release has it."""

SOFTWARE: Final = "dafka-gateway"
"""How a gateway names itself to another."""

_ApiVersions: Any = REQUEST_CLASSES[ApiKey.API_VERSIONS]


def versions_question(release: str) -> Question:
    """What the other one has."""
    return Question(
        _ApiVersions(client_software_name=SOFTWARE, client_software_version=release or "unknown"),
        lowest=VERSION_OF_API_VERSIONS,
    )


class Versions:
    """What one gateway has, by API key: the lowest and the highest version."""

    def __init__(self, who: str, answer: Any) -> None:
        """`answer` is its answer to `versions_question`. Raises PeerUnreachable: it has refused to say."""
        if answer.error_code != ErrorCode.NONE:
            raise PeerUnreachable(f"{who} does not say what it has: error {answer.error_code}")
        self._who = who
        self._table: Mapping[int, tuple[int, int]] = {
            one.api_key: (one.min_version, one.max_version) for one in answer.api_keys
        }

    def choose(self, question: Question) -> int:
        """The version to ask in. Raises PeerLacks."""
        low, high = self._table.get(question.api_key, (0, -1))
        version = min(high, question.highest)
        if version < max(low, question.lowest):
            has = "does not have it" if high < low else f"has versions {low} to {high}"
            raise PeerLacks(
                f"{self._who} cannot be asked {question.name} in versions {question.lowest} to "
                f"{question.highest}: it {has}"
            )
        return version
