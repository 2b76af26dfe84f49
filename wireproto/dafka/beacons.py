"""Beacons: how nodes and towers tell each other who is there.

Node to tower: four frames "B", node id, host ("" = use the address I connect from), port in decimal ASCII.
Tower to nodes: three frames "B", node id, endpoint. A tower's new subscriber gets the single frame "W" first.
"""

from collections.abc import Sequence
from typing import NamedTuple

from wireproto.dafka.errors import MalformedMessage

TOPIC = b"B"
WELCOME = b"W"

MAX_ID_BYTES = 255
"""Longest node id; the C nodes' are 32 upper-case hex characters."""
MAX_HOST_BYTES = 255


class NodeBeacon(NamedTuple):
    """What a node tells its towers, every second."""

    node: str
    host: str
    port: int

    def frames(self) -> list[bytes]:
        return [TOPIC, self.node.encode(), self.host.encode(), b"%d" % self.port]


class TowerBeacon(NamedTuple):
    """What a tower tells all nodes: a node's id and the ZeroMQ endpoint of its publisher."""

    node: str
    endpoint: str

    def frames(self) -> list[bytes]:
        return [TOPIC, self.node.encode(), self.endpoint.encode()]


def decode_node_beacon(frames: Sequence[bytes]) -> NodeBeacon:
    """Raises `MalformedMessage`."""
    if len(frames) != 4 or frames[0] != TOPIC:
        raise MalformedMessage("not a node's beacon")
    port = frames[3]
    if not port.isdigit() or len(port) > 5 or not 1 <= int(port) <= 65535:
        raise MalformedMessage("beacon: port is not 1 to 65535")
    return NodeBeacon(_name(frames[1], MAX_ID_BYTES), _name(frames[2], MAX_HOST_BYTES, empty=True), int(port))


def decode_tower_beacon(frames: Sequence[bytes]) -> TowerBeacon:
    """Raises `MalformedMessage`."""
    if len(frames) != 3 or frames[0] != TOPIC:
        raise MalformedMessage("not a tower's beacon")
    endpoint = _name(frames[2], MAX_HOST_BYTES + 16)
    if not endpoint.startswith("tcp://"):
        raise MalformedMessage("beacon: endpoint is not tcp://")
    return TowerBeacon(_name(frames[1], MAX_ID_BYTES), endpoint)


def _name(data: bytes, longest: int, *, empty: bool = False) -> str:
    if len(data) > longest or not (data or empty):
        raise MalformedMessage("beacon: empty or overlong name")
    if not data.isascii() or any(byte <= 0x20 for byte in data):
        raise MalformedMessage("beacon: name is not printable ASCII")
    return data.decode()
