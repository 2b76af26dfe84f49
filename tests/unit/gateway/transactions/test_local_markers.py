"""Markers of this gateway's own partitions: each is answered, also one whose append hangs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import trio

from gateway.common.marker import Marker
from gateway.journal.group_commit import WRITE_TIMEOUT_SECONDS
from gateway.log.appends import CHECK_SECONDS, Append, Completions
from gateway.transactions.local_markers import LocalMarkers
from tests.unit.gateway.transactions.home import START_MS, run
from wireproto.kafka.errors import ErrorCode

PLACE = ("orders", 0)
MARKER = Marker(70, 5, 3, is_commit=True, number=9)


class Scene:
    """A partition that appends, durably when the test says so."""

    def __init__(self) -> None:
        self.append = Append(7, 7, 0, None)
        self.asked: list[Marker] = []
        self.completions = Completions()
        partition = SimpleNamespace(append_marker=self._append_marker)
        cluster = SimpleNamespace(
            topics={"orders": SimpleNamespace(partitions=[partition])},
            context=SimpleNamespace(now_ms=lambda: START_MS),
            completions=self.completions,
            deliver=lambda: None,
        )
        self.markers = LocalMarkers(cast("Any", cluster), cast("Any", None))

    def _append_marker(self, marker: Marker, _now_ms: int, _leader_epoch: int) -> Append:
        self.asked.append(marker)
        return self.append


def test_a_marker_that_is_not_durable_in_time_is_to_be_sent_again_and_found_then() -> None:
    async def main() -> None:
        scene = Scene()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(scene.completions.run)
            with trio.fail_after(WRITE_TIMEOUT_SECONDS + 2 * CHECK_SECONDS):
                assert await scene.markers.write(PLACE, MARKER) is ErrorCode.NOT_ENOUGH_REPLICAS
            scene.append.finish()
            assert await scene.markers.write(PLACE, MARKER) is ErrorCode.NONE
            assert scene.asked == [MARKER, MARKER]
            nursery.cancel_scope.cancel()

    run(main)
