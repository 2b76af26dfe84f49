"""What each node of a mesh is, which links it has, and which messages are its to send.

Towers only introduce. Gateways order stores, and stores answer; stores give records to each other, and pass
on what one was told of a segment that is closed and whole (`mesh.store.refill`). They tell native readers how
far partitions go whose values these may read, and nobody else may. Native producers publish their subjects,
native readers ask for what producers published. What a gateway and its stores say is nothing to natives: they
have no links to gateways.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final

from mesh.protocol.published_address import is_published
from wireproto.dafka import ids
from wireproto.dafka.additions import (
    Answer,
    Digest,
    Digested,
    DirectRecords,
    End,
    Found,
    GetRows,
    Keep,
    Kept,
    Listed,
    ListSegments,
    Lookup,
    Ping,
    Pong,
    Recall,
    Recalled,
    Request,
    Rows,
    TakenUp,
    Verify,
)
from wireproto.dafka.messages import (
    Ack,
    ConsumerHello,
    DirectHead,
    DirectRecord,
    Fetch,
    GetHeads,
    Head,
    Record,
    StoreHello,
)


class Role(StrEnum):
    """What a key is for."""

    TOWER = "tower"
    STORE = "store"
    GATEWAY = "gateway"
    PRODUCER = "producer"
    """A native one."""
    READER = "reader"
    """A native one."""


LINKS: Final[Mapping[Role, frozenset[Role]]] = {
    Role.TOWER: frozenset({Role.STORE, Role.GATEWAY, Role.PRODUCER, Role.READER}),
    Role.GATEWAY: frozenset({Role.STORE, Role.GATEWAY}),
    Role.STORE: frozenset({Role.STORE, Role.GATEWAY, Role.PRODUCER, Role.READER}),
    Role.PRODUCER: frozenset({Role.STORE, Role.READER}),
    Role.READER: frozenset({Role.STORE, Role.PRODUCER}),
}
"""Role of this node -> those that may connect to it, and that it hears; towers are heard by everybody."""

GATEWAY_NAME: Final = "gateway"
"""What gateways call themselves in a PONG. No store has such a name."""

PASSED_ON: Final = frozenset({ids.COPY, ids.CLOSE})
"""Requests of a list that a store may make of another one."""

_STORES_ANSWERS: Final = frozenset({Ack, Answer, Found, Rows, Listed, Digested, Kept, Recalled, Pong, End})
_STORES: Final = _STORES_ANSWERS | {
    Digest,
    DirectHead,
    DirectRecord,
    DirectRecords,
    Fetch,
    GetHeads,
    Request,
    StoreHello,
    Verify,
}
_GATEWAYS: Final = frozenset(
    {
        Digest,
        DirectRecord,
        Fetch,
        GetHeads,
        GetRows,
        Head,
        Keep,
        ListSegments,
        Lookup,
        Ping,
        Pong,
        Recall,
        Record,
        Request,
        TakenUp,
        Verify,
    }
)
_PRODUCERS: Final = frozenset({DirectRecord, GetHeads, Head, Record})
_READERS: Final = frozenset({ConsumerHello, Fetch, GetHeads})

ASKING: Final = frozenset({Digest, Fetch, GetRows, Keep, ListSegments, Lookup, Ping, Recall, Request, Verify})
"""Messages whose requester is an id of who sends them."""

CLAIMING: Final = (_STORES_ANSWERS | {DirectHead, DirectRecord}) - {Pong}
"""Messages in which a store says which one it is, beside PONG."""


def is_stores_to_send(message: Any) -> bool:
    """Whether a store may send this."""
    if isinstance(message, Request):
        return message.id in PASSED_ON
    if isinstance(message, Pong):
        return message.store != GATEWAY_NAME
    if isinstance(message, Head):
        return is_published(message.address)
    return type(message) in _STORES


def is_gateways_to_send(message: Any) -> bool:
    """Whether a gateway may send this."""
    if isinstance(message, Pong):
        return message.store == GATEWAY_NAME
    if isinstance(message, DirectRecord):
        return not message.store
    return type(message) in _GATEWAYS


def is_producers_to_send(message: Any, may_publish: Callable[[str], bool]) -> bool:
    """Whether a native producer that may publish these subjects may send this."""
    if type(message) not in _PRODUCERS or not may_publish(message.subject):
        return False
    if isinstance(message, GetHeads):
        return True
    return not is_published(message.address) and not (isinstance(message, DirectRecord) and message.store)


def is_readers_to_send(message: Any) -> bool:
    """Whether a native reader may send this. What gateways announced to a store is read by a directed FETCH:
    that is not theirs.
    """
    if isinstance(message, Fetch):
        return not message.store
    return type(message) in _READERS
