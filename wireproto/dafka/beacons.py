"""Beacons: how nodes and towers tell each other who is there.

Node to tower: four frames "B", node id, host ("" = use the address I connect from), port in decimal ASCII.
Tower to nodes: three frames "B", node id, endpoint. A tower's new subscriber gets the single frame "W" first.

Where there are keys a tower adds a fourth frame: the node's public key, as the tower has proved it.
"""

from collections.abc import Sequence
from typing import NamedTuple

from wireproto.dafka.errors import MalformedMessage

TOPIC = b"B"
WELCOME = b"W"

MAX_ID_BYTES = 255
"""Longest node id; the C nodes' are 32 upper-case hex characters."""
MAX_HOST_BYTES = 255
"""Longest host: a DNS name has at most 253."""
KEY_BYTES = 40
"""A public key, in Z85."""
TRANSPORT = b"tcp://"


class NodeBeacon(NamedTuple):
    """What a node tells its towers, every second."""

    node: str
    host: str
    port: int

    def frames(self) -> list[bytes]:
        return [TOPIC, self.node.encode(), self.host.encode(), b"%d" % self.port]


class TowerBeacon(NamedTuple):
    """What a tower tells all nodes: a node's id and the endpoint (`tcp://host:port`) of its publisher; and
    its public key, "" where there are none.
    """

    node: str
    endpoint: str
    key: str = ""

    def frames(self) -> list[bytes]:
        frames = [TOPIC, self.node.encode(), self.endpoint.encode()]
        return [*frames, self.key.encode()] if self.key else frames


def decode_node_beacon(frames: Sequence[bytes]) -> NodeBeacon:
    """Raises `MalformedMessage`."""
    if len(frames) != 4 or frames[0] != TOPIC:
        raise MalformedMessage("not a node's beacon")
    _, node, host, port = frames
    return NodeBeacon(_name(node, MAX_ID_BYTES), _name(host, MAX_HOST_BYTES) if host else "", _port(port))


def decode_tower_beacon(frames: Sequence[bytes]) -> TowerBeacon:
    """Raises `MalformedMessage`."""
    if len(frames) not in (3, 4) or frames[0] != TOPIC:
        raise MalformedMessage("not a tower's beacon")
    _, node, endpoint, *keys = frames
    host, colon, port = endpoint.removeprefix(TRANSPORT).rpartition(b":")
    if not endpoint.startswith(TRANSPORT) or not colon:
        raise MalformedMessage("beacon: endpoint is not tcp://host:port")
    _port(port)
    _name(host, MAX_HOST_BYTES)
    key = _name(keys[0], KEY_BYTES) if keys else ""
    if keys and len(key) != KEY_BYTES:
        raise MalformedMessage("beacon: no key")
    return TowerBeacon(_name(node, MAX_ID_BYTES), endpoint.decode(), key)


def _port(data: bytes) -> int:
    if not data.isdigit() or len(data) > 5 or data.startswith(b"0") or int(data) > 65535:
        raise MalformedMessage("beacon: port is not 1 to 65535 in decimal")
    return int(data)


def _name(data: bytes, longest: int) -> str:
    if not 1 <= len(data) <= longest:
        raise MalformedMessage("beacon: empty or overlong name")
    if any(not 0x21 <= byte <= 0x7E for byte in data):
        raise MalformedMessage("beacon: name is not printable ASCII")
    return data.decode()
