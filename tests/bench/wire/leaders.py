"""When a topic is ready: a new one serves a moment after it was made, as all do after a start."""

from __future__ import annotations

import time
from collections.abc import Mapping

from tests.bench.wire import messages
from tests.bench.wire.connection import Connection
from wireproto.kafka.api_keys import ApiKey

LEADERS_SECONDS = 60.0
LOOK_SECONDS = 0.02


def await_leaders(bootstrap: str, topics: Mapping[str, int], seconds: float = LEADERS_SECONDS) -> None:
    """Until each partition of these topics (name -> how many) answers ListOffsets.

    Raises AssertionError when one does not in time.
    """
    request = messages.list_offsets(topics, messages.LATEST)
    deadline = time.monotonic() + seconds
    connection = Connection(bootstrap)
    try:
        while True:
            answer = connection.ask(request)
            found = messages.decoded(ApiKey.LIST_OFFSETS, messages.LIST_OFFSETS_VERSION, answer)
            if not any(each["error_code"] for topic in found["topics"] for each in topic["partitions"]):
                return
            if time.monotonic() > deadline:
                raise AssertionError(f"not all partitions have a leader after {seconds:.0f} s")
            time.sleep(LOOK_SECONDS)
    finally:
        connection.close()
