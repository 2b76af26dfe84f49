from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from mesh.links import Context
from mesh.native.subjects import NativeSubjects
from mesh.node import Node, Routes
from mesh.producer import Producer
from mesh.requests import Requests
from mesh.routing import gateway_routes, requests_routes, store_routes
from mesh.store.store import Store, StoreSettings
from wireproto.dafka import messages
from wireproto.dafka.additions import (
    Answer,
    Digest,
    Digested,
    DirectRecords,
    End,
    Found,
    GetRows,
    Keep,
    Kept,
    Listed,
    ListSegments,
    Lookup,
    Ping,
    Pong,
    Recall,
    Recalled,
    Request,
    Rows,
    TakenUp,
    Verify,
)
from wireproto.dafka.messages import Ack, DirectRecord, Fetch, Head, Record, StoreHello

INCARNATION = "5" * 32
ANSWERS = {Answer, Digested, Found, Kept, Listed, Pong, Recalled, Rows}
NATIVE = {messages.GetHeads, messages.DirectHead, messages.ConsumerHello, TakenUp}


@pytest.fixture
def context() -> Iterator[Context]:
    made: list[Context] = []

    async def main() -> None:
        made.append(Context())

    trio.run(main)
    yield made[0]
    made[0].close()


def at_a_node(context: Context, body: Callable[[Node], None]) -> None:
    async def main() -> None:
        node = Node(context)
        try:
            body(node)
        finally:
            node.publisher.close()
            node._subscriber.close()

    trio.run(main)


def test_a_message_has_one_handler(context: Context) -> None:
    def body(node: Node) -> None:
        heard: list[Any] = []
        node.route({Ack: heard.append, Fetch: heard.append})
        with pytest.raises(ValueError, match="two handlers of Fetch at one node"):
            node.route({Head: heard.append, Fetch: print})
        ack = Ack("A9", "S1", "t", 5)
        node._on_frames([bytes(frame) for frame in ack.frames()])
        assert heard == [ack]

    at_a_node(context, body)


def test_who_asks_hears_every_answer_and_a_gateway_what_its_writers_are_told(context: Context) -> None:
    def body(node: Node) -> None:
        requests = Requests(node)
        producer, subjects = Producer(node, requests), NativeSubjects(node, requests)
        asking = ANSWERS | {End, DirectRecord}
        hears = asking | {Ack, Fetch, messages.DirectHead, DirectRecords}
        assert set(requests_routes(requests)) == asking
        assert set(gateway_routes(requests, producer, subjects)) == hears
        assert set(gateway_routes(requests, producer, subjects, print)) == hears | {Ping}

    at_a_node(context, body)


def test_a_store_hears_what_producers_gateways_readers_and_other_stores_send(
    context: Context, tmp_path: Path
) -> None:
    routes: list[Routes] = []

    async def main() -> None:
        store = Store(context, StoreSettings(tmp_path, INCARNATION))
        routes.append(store_routes(store, store.server, store.native, store.requests))
        store.node.publisher.close()
        store.node._subscriber.close()
        store.database.close()

    trio.run(main)
    asked = {Request, Ping, Lookup, GetRows, Digest, Verify, ListSegments, Fetch, Keep, Recall}
    assert set(routes[0]) == ANSWERS | NATIVE | asked | {Record, Head, DirectRecord, End}
    assert not {Ack, StoreHello} & set(routes[0])
