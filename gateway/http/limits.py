"""Every limit of the status page: unit and reason. What each defends against is in docs/limits.md."""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

MAX_HTTP_CONNECTIONS: Final = 32
"""Connections at once: five browsers, each of which opens six. For a further one the oldest of the host with
most goes."""

MAX_STREAMS: Final = 16
"""Streams of events at once: pages that are looked at."""

MAX_REQUEST_HEAD_BYTES: Final = 16 * KIB
"""Bytes of a request's first line and headers: twice what browsers send with a full cookie jar."""

MAX_TARGET_BYTES: Final = 8 * KIB
"""Bytes of a request's target: 200 keys of a stream, each as long as most names are."""

HEAD_SECONDS: Final = 10.0
"""Seconds for a request to arrive whole, from its first byte."""

KEPT_SECONDS: Final = 30.0
"""Seconds that a connection is kept without a request."""

ROUTE_SECONDS: Final = 20.0
"""Seconds for an answer to be made: twice what a read of records may take."""

SEND_SECONDS: Final = 30.0
"""Seconds for a client to take an answer, or an event, before it is closed."""

LINGER_SECONDS: Final = 2.0
"""Seconds that a refused body is still taken, so that its client sees the answer."""

LINGER_BYTES: Final = 8 * MIB
"""And bytes of it."""

MAX_REQUESTS: Final = 1000
"""Requests of one connection; then it is closed, as others may want its place."""

MAX_LIMIT: Final = 200
"""Rows of a page at most: 0.5 ms to write."""

USUAL_LIMIT: Final = 50
"""Rows of a page where nobody says how many."""

TURN_SECONDS: Final = 0.002
"""Seconds of the loop between two rests, all pages together."""
