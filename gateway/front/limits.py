"""Every limit of the Kafka endpoint: unit, default, and why. What each defends against is in
docs/limits.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.common.settings import LogSettings
from gateway.common.turns import TURN

KIB = 1024
MIB = 1024 * KIB

MAX_REQUEST_BYTES = 100 * MIB
"""Bytes of one request. Kafka's `socket.request.max.bytes`, 100 MiB; Redpanda's `kafka_request_max_bytes`
too."""

MAX_OTHER_REQUEST_BYTES = 8 * MIB
"""Bytes of a request other than Produce. The largest honest ones name every partition of a cluster: a Fetch
of 100,000 partitions has 3 MB. Redpanda and Kafka have no such limit; decoding cost is why we do."""

REQUEST_MEMORY_BYTES = 256 * MIB
"""Bytes of large requests held by the whole gateway, received in part or not answered yet. Kafka's
`queued.max.request.bytes` (off by default there). At least MAX_REQUEST_BYTES."""

SMALL_REQUEST_MEMORY_BYTES = 64 * MIB
"""Bytes of requests below 16 KiB held by the whole gateway until they are answered. A budget of its own:
clients that send large requests slowly can fill the other one, and must not stop those who only fetch."""

DECODED_MEMORY_BYTES = 512 * MIB
"""Bytes that the decoded requests of the whole gateway may take until they are answered, those of Produce
apart: a Fetch of 100,000 partitions is 2 MB on the wire and 40 MB in memory, and may wait for minutes."""

DECODED_BYTES_PER_BYTE = 24
"""Memory for each byte of such a request: measured with a parked Fetch 4 of many partitions, the smallest
there are; a Fetch 12 takes half as much."""

MIN_COUNTED_REQUEST_BYTES = 1 * KIB
"""Bytes of a request below which this memory is not counted: all connections together hold 240 MB of it."""

PRODUCED_MEMORY_BYTES = 128 * MIB
"""Bytes that the decoded Produce requests of the whole gateway may take until they are answered, beside their
records: for 200,000 partitions. A memory of its own: they may wait for stores as long as their clients like,
and must not stop who asks for something else."""

PRODUCED_ELEMENT_BYTES = 640
"""Memory of each topic or partition of such a request, from its decoding to its answer: measured with 20,000
that are refused."""

FREE_ELEMENTS = 16
"""Topics and partitions of a Produce that are not counted: most have no more."""

ROOM_MEMORY_BYTES = 32 * MIB
"""Bytes of requests held by producers that want no answer (acks=0) and wait for room in a log: an eighth of
REQUEST_MEMORY_BYTES. It may take as long as stores are away, and others must be served meanwhile. Who comes
when there are so many is hung up on, which is how such producers are told of failures."""

RESPONSE_MEMORY_BYTES = 256 * MIB
"""Bytes of large answers (Fetch) held by the whole gateway until they are written."""

MAX_IN_FLIGHT_REQUESTS = 256
"""Produce requests of one connection that began and are not answered. Java has 5 in flight, librdkafka as
many as it likes: beyond this the gateway stops reading and TCP slows the client down."""

MAX_IN_FLIGHT_BYTES = 32 * MIB
"""Bytes of those requests. One larger request is let through when nothing else is in flight."""

MAX_UNSENT_BYTES = 1 * MIB
"""Bytes of answers of one connection that wait for its client to read; while there are more, no further
request of it is begun. Kafka begins none until the answer before is written."""

IDLE_SECONDS = 600.0
"""Seconds without a request before a connection is closed. Kafka's `connections.max.idle.ms`, 10 minutes;
clients close theirs after 9."""

FIRST_REQUEST_SECONDS = 60.0
"""Seconds from connecting to the first whole request. Kafka has no such limit; clients send ApiVersions at
once, and silent sockets would hold the places of others for IDLE_SECONDS."""

STALL_SECONDS = 30.0
"""Seconds without a single byte, in a request that has begun to arrive or an answer that is being written.
Kafka has no such limit; its clients give up a request after 30 s (`request.timeout.ms`)."""

LEFT_SECONDS = 5.0
"""Seconds that the requests of a client which has closed its sending side may take: those that wait for
stores, for room in the log, or for memory. It may be a producer that wants no answers (acks=0), has sent all
and has gone, as in order. What is parked (Fetch, JoinGroup, SyncGroup) is given up at once."""

LEFT_WHILE_MUTED_SECONDS = 60.0
"""Seconds from when a client has closed its sending side in which the time that its quotas do not let it be
read is not counted for LEFT_SECONDS: what it has sent is taken afterwards. Who has used more than a minute
too much loses the rest, since his place is kept as long."""

MIN_BYTES_PER_SECOND = 16 * KIB
"""Slowest transfer of a whole request or answer: it may take STALL_SECONDS plus its size at this rate.
Gazette wants 64 KiB/s; a quarter of it leaves room for several connections on a poor link."""

STARVED_SECONDS = 10.0
"""Seconds that somebody waits for memory before connections of the client that holds most of it are closed,
those with the largest requests that are not sent to the end, or answers that are not read: without this,
three that dribble 100 MiB each would stop every other producer for an hour. For one that waits only because
its own client holds so much, connections of that client are closed."""

HURRY_SECONDS = 1.0
"""Seconds that somebody waits for memory before parked fetches are answered with what there is: a Fetch keeps
its request's memory while it waits for records, and may wait for minutes. Those of all clients, or of the one
that waits for itself."""

MAX_CONNECTIONS = 10_000
"""Connections at once. Kafka's `max.connections` is unlimited; a connection costs 20 KiB here. The limit on
file descriptors lowers it further."""

RESERVED_PART = 10
"""One place in so many is only for clients that have been there before (KNOWN_SECONDS), and this machine."""

LOOPBACK_PART = 10
"""And of these, one in so many only for this machine: whoever floods a gateway from outside leaves operators
room to look."""

KNOWN_SECONDS = 60.0
"""Seconds that a client has been connected, now or before, and is known from then on."""

MAX_KNOWN_CLIENTS = 4_096
"""Clients that are remembered to have been there: a hundred bytes each."""

FAIR_SHARE_REQUESTS = 32
"""Requests of one connection that are handled before other connections have their turn; fewer where they are
much work."""

SMALL_REQUESTS_OWE = -TURN
"""Nanoseconds that a client's turn may be overdrawn before requests of it wait that have not begun: what asks
for little is served although its client has spent its turn, but not without end. It is as much while others
are served: what asks for little would stand behind all that asks for much."""

LISTEN_BACKLOG = 1024
"""Connections that the kernel completes before we accept them (it caps this at `net.core.somaxconn`). Kafka's
`socket.listen.backlog.size` is 50, too few for a Spark cluster that starts."""

ACCEPT_BACKOFF_SECONDS = 0.1
"""Seconds to wait after accept failed for want of file descriptors or memory, as trio's `serve_listeners`."""

MAX_GATE_SECONDS = 30.0
"""Seconds that a Produce request waits while the gateway holds as many unacknowledged records as it may, if
its own timeout is not shorter; then it is answered with an error. Kafka's clients wait 30 s for an
answer."""

CHECK_SECONDS = 1.0
"""Seconds between looks for connections that are over their time: deadlines are kept to this accuracy,
which costs nothing per request."""

LINGER_SECONDS = 2.0
"""Seconds that a connection which we end waits for its client to have read the last answers. nginx waits up
to 5 s between reads (`lingering_timeout`)."""

MAX_LINGERING = 256
"""Connections that linger so at once; further ones are closed hard. They hold no memory but their socket."""

SHUTDOWN_GRACE_SECONDS = 8.0
"""Seconds that connections have to finish what is in flight when the gateway stops; `docker stop` kills
after 10."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits that may be set; see the constants of the same names.

    `max_client_connections` (`gateway.common.settings`): where there are fewer places in all than
    `max_connections` it is as much less.
    """

    max_request_bytes: int = MAX_REQUEST_BYTES
    max_other_request_bytes: int = MAX_OTHER_REQUEST_BYTES
    request_memory_bytes: int = REQUEST_MEMORY_BYTES
    small_request_memory_bytes: int = SMALL_REQUEST_MEMORY_BYTES
    decoded_memory_bytes: int = DECODED_MEMORY_BYTES
    produced_memory_bytes: int = PRODUCED_MEMORY_BYTES
    room_memory_bytes: int = ROOM_MEMORY_BYTES
    response_memory_bytes: int = RESPONSE_MEMORY_BYTES
    max_in_flight_requests: int = MAX_IN_FLIGHT_REQUESTS
    max_in_flight_bytes: int = MAX_IN_FLIGHT_BYTES
    max_unsent_bytes: int = MAX_UNSENT_BYTES
    idle_seconds: float = IDLE_SECONDS
    first_request_seconds: float = FIRST_REQUEST_SECONDS
    stall_seconds: float = STALL_SECONDS
    min_bytes_per_second: int = MIN_BYTES_PER_SECOND
    starved_seconds: float = STARVED_SECONDS
    max_connections: int = MAX_CONNECTIONS
    max_client_connections: int = LogSettings.max_client_connections
    shutdown_grace_seconds: float = SHUTDOWN_GRACE_SECONDS

    def __post_init__(self) -> None:
        if self.request_memory_bytes < self.max_request_bytes:
            raise ValueError(
                f"request memory of {self.request_memory_bytes} bytes is less than one request may have "
                f"({self.max_request_bytes} bytes)"
            )
