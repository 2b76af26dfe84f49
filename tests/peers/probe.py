"""One question asked of a Kafka server with a bare socket: how many brokers does Metadata name?"""

import socket
import struct

# Metadata (key 3) version 1: not flexible yet, and an empty list of topics (not null) asks for brokers only.
_BODY = struct.pack(">hhih", 3, 1, 7, -1) + struct.pack(">i", 0)
METADATA_REQUEST = struct.pack(">i", len(_BODY)) + _BODY
CONNECT_TIMEOUT_SECONDS = 2.0


def broker_count(host: str, port: int) -> int | None:
    """How many brokers the Metadata answer names, or None while nobody answers."""
    try:
        with socket.create_connection((host, port), CONNECT_TIMEOUT_SECONDS) as connection:
            connection.sendall(METADATA_REQUEST)
            with connection.makefile("rb") as answers:
                (size,) = struct.unpack(">i", answers.read(4))
                answer = answers.read(size)
        correlation_id, brokers = struct.unpack_from(">ii", answer)
    except (OSError, struct.error):
        return None
    assert correlation_id == 7
    return int(brokers)
