"""Which client has so many of a partition's places that its producers make room for those of others."""

from collections.abc import Mapping, Sized
from typing import Final

from gateway.common.clients import NOBODY

GREEDY_PART: Final = 2
"""A client is greedy that has one of so many places, or more."""


def greedy_client(by_client: Mapping[str, Sized], places: int) -> str | None:
    """The client that has most of this many places, if it is half of all; `by_client` has what is each one's.
    What is nobody's is not greedy.
    """
    clients = (client for client in by_client if client != NOBODY)
    most = max(clients, key=lambda client: len(by_client[client]), default=None)
    return most if most is not None and len(by_client[most]) * GREEDY_PART >= places else None
