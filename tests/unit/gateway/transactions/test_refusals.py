"""What becomes of transactions while another gateway does not know this one as one of its cluster."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.common import log_limit
from gateway.common.marker import Marker
from gateway.peers.question import Question
from gateway.transactions.marker_routes import MarkerRoutes
from gateway.transactions.verification_routes import VerificationRoutes
from gateway.transactions.verifier import Producing
from tests.unit.gateway.transactions.home import run
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.schemas import RESPONSE_CLASSES

NODE = 2
REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
Added, Written = RESPONSE_CLASSES[24], RESPONSE_CLASSES[27]


class RefusingPeers:
    """Gateway 2, as it answers whom it does not know."""

    async def ask(self, node: int, question: Question, _seconds: float, _channel: str) -> Any:
        assert node == NODE
        await trio.lowlevel.checkpoint()
        request = question._request
        if request.API_KEY == Added.API_KEY:
            return Added(error_code=REFUSED, results_by_transaction=[])
        of = Written.WritableTxnMarkerResult
        of_topic = of.WritableTxnMarkerTopicResult
        partition = of_topic.WritableTxnMarkerPartitionResult
        return Written(
            markers=[
                of(
                    producer_id=one.producer_id,
                    topics=[
                        of_topic(
                            name=topic.name,
                            partitions=[
                                partition(partition_index=index, error_code=REFUSED)
                                for index in topic.partition_indexes
                            ],
                        )
                        for topic in one.topics
                    ],
                )
                for one in request.markers
            ]
        )


async def _verify(nursery: trio.Nursery) -> ErrorCode:
    routes = VerificationRoutes(cast("Any", RefusingPeers()))
    nursery.start_soon(routes.run)
    await wait_all_tasks_blocked()
    return (await routes.ask(NODE, Producing("t", 7, 0, adds=True), [("orders", 0)], "c"))["orders", 0]


async def _mark(nursery: trio.Nursery) -> ErrorCode:
    topic = SimpleNamespace(id=b"o" * 16, partitions=[SimpleNamespace(leader_epoch=3)])
    cluster = SimpleNamespace(
        node_id=1,
        topics={"orders": topic},
        gateways=SimpleNamespace(leader=lambda _topic_id, _index: NODE),
    )
    here = SimpleNamespace(exists=lambda _partition: True)
    routes = MarkerRoutes(cast("Any", cluster), cast("Any", here), cast("Any", RefusingPeers()))
    nursery.start_soon(routes.run)
    await wait_all_tasks_blocked()
    return await routes.write(("orders", 0), Marker(7, 0, 5, is_commit=True))


@pytest.mark.parametrize(
    ("ask", "expected", "name"),
    [
        # Producers try again on this.
        (_verify, ErrorCode.COORDINATOR_NOT_AVAILABLE, "ADD_PARTITIONS_TO_TXN"),
        # Markers are sent again on whatever does not say that they are void.
        (_mark, REFUSED, "WRITE_TXN_MARKERS"),
    ],
)
def test_it_is_tried_again_and_said_what_to_do(
    ask: Any,
    expected: ErrorCode,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(log_limit, "_said", set())

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            assert await ask(nursery) is expected
            nursery.cancel_scope.cancel()

    run(main)
    (said,) = (record.getMessage() for record in caplog.records)
    assert said.startswith(f"gateway 2 refuses {name}: there, give CLUSTER_ACTION")
