"""Producers of many transactional ids begin, as after a restart of all of them."""

import time
from collections.abc import Sequence

from tests.bench.wire import messages
from tests.bench.wire.connection import Connection
from tests.bench.wire.groups import Refused, await_coordinator
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode

CLIENTS = 16
AT_ONCE = 50
"""Ids of one client, whose requests are sent one behind the other."""
SERVED_SECONDS = 300.0
RETRY_SECONDS = 0.1
"""Before ids that are not served yet are asked for again: `retry.backoff.ms` of clients."""
AGAIN = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)


def begin(bootstrap: str, numbers: Sequence[int]) -> float:
    """Seconds until a producer of each of these ids has its producer id. Raises Refused."""
    await_coordinator(bootstrap, name_of(0), messages.TRANSACTION)
    connections = [Connection(bootstrap) for _ in range(CLIENTS)]
    began, left = time.monotonic(), list(numbers)
    while left:
        if time.monotonic() - began > SERVED_SECONDS:
            raise Refused(f"{len(left)} transactional ids are not served")
        at_once, left = left[: CLIENTS * AT_ONCE], left[CLIENTS * AT_ONCE :]
        again = _asked(connections, at_once)
        if again and not left:
            time.sleep(RETRY_SECONDS)
        left += again
    for connection in connections:
        connection.close()
    return time.monotonic() - began


def name_of(number: int) -> str:
    return f"transactional-id-{number}"


def _asked(connections: Sequence[Connection], numbers: Sequence[int]) -> list[int]:
    """Those that are to be asked for again."""
    shares = [numbers[first :: len(connections)] for first in range(len(connections))]
    for connection, share in zip(connections, shares, strict=True):
        connection.send(b"".join(messages.init_producer_id(name_of(number)) for number in share))
    again = []
    for connection, share in zip(connections, shares, strict=True):
        for number in share:
            values = messages.decoded(
                ApiKey.INIT_PRODUCER_ID, messages.INIT_PRODUCER_ID_VERSION, connection.receive()
            )
            if values["error_code"] in AGAIN:
                again.append(number)
            elif values["error_code"] != ErrorCode.NONE:
                raise Refused(f"{name_of(number)}: {ErrorCode(values['error_code']).name}")
    return again
