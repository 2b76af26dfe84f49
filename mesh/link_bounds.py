"""What a link between two nodes may hold, and how long it may be silent.

`mesh.zmq_trio` gives these bounds to its sockets, and `mesh.links` the first one to what is heard inside a
process. There are two kinds of links: `DATA` between nodes, and `BEACONS` between a node and a tower, over
which only small messages go.
"""

from typing import NamedTuple

HIGH_WATER_MARK_MESSAGES = 20_000
"""Messages queued per peer before PUB drops. Above `mesh.protocol.writer.MAX_WINDOW_RECORDS`, so that a
healthy member sees no drops. Worst case in memory: this x largest message x peers."""

MAX_MESSAGE_BYTES = 128 * 1024 * 1024
"""Largest message taken from a peer; ZeroMQ closes the connection beyond it. Above Kafka's largest request
(100 MiB)."""

HEARTBEAT_INTERVAL_MS = 1_000
HEARTBEAT_TIMEOUT_MS = 5_000
"""A TCP peer that stays silent for so long is disconnected, which frees what is queued for it."""

HANDSHAKE_INTERVAL_MS = 5_000
"""A TCP peer that has not said by then that it speaks ZeroMQ is disconnected."""

RECONNECT_INTERVAL_MS = 50
RECONNECT_INTERVAL_MAX_MS = 1_000
"""A lost link is made again after the first of these, doubled up to the second."""

MAX_BEACON_FRAME_BYTES = 1024
"""Largest frame on a link between node and tower: an id and an endpoint have 255 bytes and a few."""

MAX_SUBSCRIPTION_FRAME_BYTES = 1024
"""Largest frame that a publisher takes: subscriptions, the longest a letter and a subject, and heartbeats."""

SUBSCRIPTION_BUFFER_BYTES = 32 * 1024
"""What the kernel holds of what a peer sends to a publisher: it is still read when that peer is cut."""

BEACON_HIGH_WATER_MARK_MESSAGES = 4096
"""Beacons queued per link: the next one comes in a second, so what is dropped is hardly missed."""

MAX_FRAMES = 5
"""Frames kept of one message: one more than any has, so that a longer one is seen to be."""

MAX_GATHERED_BYTES = MAX_MESSAGE_BYTES + 16 * 1024 * 1024
"""Largest message of several frames: what a link may have brought that is no whole message yet. ZeroMQ has no
bound of its own. What is above one frame is what the kernel holds."""

MAX_GATHERED_BEACON_BYTES = 1024 * 1024
"""The same on a link between node and tower."""


MAX_MESSAGES_A_TURN = 512
"""Messages taken from one subscriber before other tasks run."""


class Link(NamedTuple):
    """What a socket is for, and so what it may hold."""

    high_water_mark: int
    max_frame_bytes: int
    max_gathered_bytes: int


DATA = Link(HIGH_WATER_MARK_MESSAGES, MAX_MESSAGE_BYTES, MAX_GATHERED_BYTES)
BEACONS = Link(BEACON_HIGH_WATER_MARK_MESSAGES, MAX_BEACON_FRAME_BYTES, MAX_GATHERED_BEACON_BYTES)
