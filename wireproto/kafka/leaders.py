"""The tags by which an answer names the leader to a client that has asked another broker (KIP-951)."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from wireproto.kafka.primitives import compact_string, uvarint

_LEADER: Final = Struct(">iiB")  # leader, leader epoch, and no tags of its own
_INT32: Final = Struct(">i")


class CurrentLeader(NamedTuple):
    """A partition's leader, by its node id, and the leader epoch."""

    leader_id: int
    leader_epoch: int


class NodeEndpoint(NamedTuple):
    """Where a leader is that an answer names."""

    node_id: int
    host: str
    port: int
    rack: str | None


def current_leader(tag: int, leader: CurrentLeader | None) -> bytes:
    """A partition's whole tags: this one, or none."""
    if leader is None:
        return b"\x00"
    return bytes((1, tag, _LEADER.size)) + _LEADER.pack(*leader, 0)


def node_endpoints(nodes: Sequence[NodeEndpoint]) -> bytes:
    """An answer's whole tags: number 0 with these, or none."""
    if not nodes:
        return b"\x00"
    parts = [uvarint(len(nodes) + 1)]
    for node in nodes:
        parts += (_INT32.pack(node.node_id), compact_string(node.host), _INT32.pack(node.port))
        parts.append(compact_string(node.rack) + b"\x00")
    encoded = b"".join(parts)
    return b"\x01\x00" + uvarint(len(encoded)) + encoded
