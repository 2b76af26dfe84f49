"""When a topic is ready: a new one serves a moment after it was made, as all do after a start."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack, closing

from tests.bench.wire import messages
from tests.bench.wire.connection import Connection
from wireproto.kafka.api_keys import ApiKey

LEADERS_SECONDS = 60.0
LOOK_SECONDS = 0.02


def await_leaders(bootstrap: str, topics: Mapping[str, int], seconds: float = LEADERS_SECONDS) -> None:
    """Until each partition of these topics (name -> how many) has answered ListOffsets at one of the brokers.

    As clients do, it asks again for those alone that had no leader; and it pauses as long as it took to ask,
    so that of thousands the asking itself does not take what their start needs.

    Raises AssertionError when one does not in time.
    """
    missing = {name: set(range(count)) for name, count in topics.items()}
    deadline = time.monotonic() + seconds
    with ExitStack() as connected:
        brokers = [connected.enter_context(closing(Connection(one))) for one in _brokers(bootstrap)]
        while True:
            began = time.monotonic()
            for broker in brokers:
                for name, index in _led(broker, messages.list_offsets(missing, messages.LATEST)):
                    missing[name].discard(index)
            missing = {name: indexes for name, indexes in missing.items() if indexes}
            now = time.monotonic()
            if not missing:
                return
            if now > deadline:
                raise AssertionError(f"not all partitions have a leader after {seconds:.0f} s")
            time.sleep(max(LOOK_SECONDS, now - began))


def _brokers(bootstrap: str) -> list[str]:
    with closing(Connection(bootstrap)) as connection:
        answer = connection.ask(messages.metadata([]))
    found = messages.decoded(ApiKey.METADATA, messages.METADATA_VERSION, answer)
    return [f"{broker['host']}:{broker['port']}" for broker in found["brokers"]]


def _led(broker: Connection, request: bytes) -> list[tuple[str, int]]:
    """The partitions that a broker answers for."""
    answer = broker.ask(request)
    found = messages.decoded(ApiKey.LIST_OFFSETS, messages.LIST_OFFSETS_VERSION, answer)
    return [
        (topic["name"], each["partition_index"])
        for topic in found["topics"]
        for each in topic["partitions"]
        if not each["error_code"]
    ]
