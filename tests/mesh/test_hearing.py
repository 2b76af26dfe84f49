"""When a reader asks for what follows the records that came."""

from __future__ import annotations

from typing import Any, cast

import pytest
import trio

from mesh.native.hearing import Hearing
from mesh.protocol.native_order import Limits, from_first
from wireproto.dafka.additions import DirectRecords
from wireproto.dafka.messages import DirectHead, Fetch


class Sent:
    """A node that keeps what it is to send."""

    def __init__(self) -> None:
        self.messages: list[Any] = []

    def send(self, message: Any) -> None:
        self.messages.append(message)


@pytest.mark.parametrize("address", ["d" + "1" * 31, "A" * 32])
def test_what_follows_records_that_came_together_is_asked_for_at_once(address: str) -> None:
    async def main() -> None:
        node = Sent()
        hearing = Hearing(cast("Any", node), "t", "R1", from_first, lambda: None, Limits(fetch_records=2))
        hearing.on_direct_head(DirectHead("R1", address, "t", 9, "S1"))
        hearing.look()
        node.messages.clear()
        hearing.on_direct_records(DirectRecords("R1", address, "t", 0, (b"0", b"1")))
        assert node.messages == [Fetch(address, "R1", "t", 2, 2)]

    trio.run(main)
