"""Records over HTTP: what programs append, Kafka clients read, and the other way round."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
from confluent_kafka import Consumer, TopicPartition
from kafka.protocol.producer import ProduceResponse

from gateway.http.batches import MAX_APPENDED_RECORDS, MAX_LINE_BYTES, NDJSON, RAW
from gateway.http.routes import appending
from gateway.log import retention
from gateway.security.principal import ANONYMOUS
from tests.in_process.http_client import Got, request, stream_of
from tests.in_process.in_process import produce_request
from tests.in_process.pages import Pages, with_pages
from wireproto.kafka.partitioner import partition_of
from wireproto.records.builder import build_batch

PATIENCE_SECONDS = 60
TOPICS = (("orders", 4), ("small", 1))
PATH = "/api/v1/topics/orders/partitions/0/records"
TIME = 1_700_000_000_000


class Scene:
    """A gateway that takes records over HTTP, and a Kafka client of it."""

    def __init__(self, pages: Pages) -> None:
        assert pages.process.pages is not None
        self.view = pages.process.pages.view
        self.client = pages.client
        self.port = pages.port
        self.kafka_port = pages.kafka_port

    async def post(self, body: bytes, path: str = PATH, kind: str = NDJSON, **headers: str) -> Got:
        given = {"Content-Type": kind} | headers
        return await request(self.port, "POST", path, body, **given)

    async def get(self, query: str = "", *, method: str = "GET", **headers: str) -> Got:
        return await request(self.port, method, PATH + query, b"", **headers)

    async def rows(self, query: str = "") -> list[Any]:
        got = await self.get(query)
        assert got.status == 200, got.body
        return [json.loads(line) for line in got.body.splitlines()]


Body = Callable[[Scene], Awaitable[None]]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Runs a body with a gateway."""
    monkeypatch.setattr(retention, "FIRST_CHECK_SECONDS", 10 * PATIENCE_SECONDS)

    def start(body: Body, **options: Any) -> None:
        async def main() -> None:
            with trio.fail_after(PATIENCE_SECONDS):
                settings: dict[str, Any] = {"topics": TOPICS, "http_data": True}
                async with with_pages(tmp_path, monkeypatch, **(settings | options)) as pages:
                    await body(Scene(pages))

        trio.run(main)

    return start


def consumed(port: int, partition: int, count: int) -> list[Any]:
    """The first messages of a partition, as librdkafka gives them."""
    consumer = Consumer(
        {"bootstrap.servers": f"127.0.0.1:{port}", "group.id": "g", "enable.auto.commit": False}
    )
    try:
        consumer.assign([TopicPartition("orders", partition, 0)])
        found: list[Any] = []
        while len(found) < count:
            found += consumer.consume(count - len(found), timeout=PATIENCE_SECONDS)
        return found
    finally:
        consumer.close()


def lines(*rows: Any) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def test_a_kafka_client_reads_what_http_appended(data: Any) -> None:
    async def body(scene: Scene) -> None:
        got = await scene.post(
            lines(
                {"key": "42", "value": {"json": {"total": 3}}, "headers": {"trace": "1"}},
                {"value": {"base64": "/wA="}, "timestamp_ms": str(TIME)},
                {"key": "42", "value": None},
            )
        )
        assert got.status == 201, got.body
        assert got.json() == {
            "topic": "orders", "partition": 0, "first_offset": "0", "last_offset": "2", "duplicate": False,
        }  # fmt: skip
        assert got.headers["location"] == f"{PATH}?offset=0"
        raw = await scene.post(b"\x00raw", PATH + "?key=k", RAW)
        assert (raw.status, raw.json()["first_offset"]) == (201, "3")
        found = await trio.to_thread.run_sync(consumed, scene.kafka_port, 0, 4)
        assert [(one.offset(), one.key(), one.value()) for one in found] == [
            (0, b"42", b'{"total":3}'), (1, None, b"\xff\x00"), (2, b"42", None), (3, b"k", b"\x00raw"),
        ]  # fmt: skip
        assert found[0].headers() == [("trace", b"1")]
        assert found[1].timestamp()[1] == TIME

    data(body)


def test_http_reads_what_a_kafka_client_produced(data: Any) -> None:
    async def body(scene: Scene) -> None:
        for codec in range(5):
            batch = build_batch(
                [(b"k", b"%d" % codec, [("h", b"\xff")], TIME), (None, None, [], TIME)], codec=codec
            )
            answer = await scene.client.ask(
                produce_request(batch, topic="orders", partition=0), ProduceResponse
            )
            assert answer.responses[0].partition_responses[0].error_code == 0
        rows = await scene.rows()
        assert [row["offset"] for row in rows] == [str(offset) for offset in range(10)]
        assert [row["value"] for row in rows[::2]] == ["0", "1", "2", "3", "4"]
        assert rows[0] == {
            "offset": "0", "timestamp_ms": str(TIME), "key": "k", "value": "0",
            "headers": [{"key": "h", "value": {"base64": "/w=="}}],
        }  # fmt: skip
        assert [row["offset"] for row in await scene.rows("?offset=3&limit=2")] == ["3", "4"]
        assert await scene.rows("?offset=latest") == []
        head = await scene.get(method="HEAD")
        assert (head.status, head.body) == (200, b"")
        assert (head.headers["etag"], head.headers["dafka-start-offset"]) == ('"10"', "0")
        assert (await scene.get("?offset=11")).status == 416
        # What was read can be sent as it is.
        again = await scene.post(lines(*rows), "/api/v1/topics/orders/partitions/1/records")
        assert again.json()["last_offset"] == "9"

    data(body)


def test_a_reader_waits_at_the_end_and_resumes(data: Any) -> None:
    async def body(scene: Scene) -> None:
        await scene.post(b"0", kind=RAW)
        waiting = f"{PATH}?offset=earliest&block=true"
        async with stream_of(scene.port, waiting, Accept="text/event-stream") as stream:
            assert await stream.block() == b"retry: 2000"
            assert (await stream.block()).startswith(b'id: 1\ndata: {"offset":"0"')
            await scene.post(b"1", kind=RAW)
            assert (await stream.block()).startswith(b'id: 2\ndata: {"offset":"1"')
        await scene.post(b"2", kind=RAW)
        async with stream_of(scene.port, waiting, Accept="text/event-stream", Last_Event_ID="2") as stream:
            await stream.block()
            assert (await stream.block()).startswith(b'id: 3\ndata: {"offset":"2"')
        # With a limit the stream ends by itself.
        async with trio.open_nursery() as nursery:
            nursery.start_soon(scene.post, b"3", PATH, RAW)
            rows = await scene.rows("?offset=3&limit=1&block=true")
        assert [row["value"] for row in rows] == ["3"]

    data(body)


def test_a_reader_is_told_that_its_topic_goes(data: Any) -> None:
    async def body(scene: Scene) -> None:
        async with stream_of(scene.port, f"{PATH}?block=true", Accept="text/event-stream") as stream:
            await stream.block()
            broker = scene.view.broker
            topic = broker.topics.get("orders")
            assert topic is not None
            await broker.delete_topic(topic)
            assert (await stream.block()).startswith(b"event: failed\n")

    data(body)


def test_an_idempotency_key_appends_once(data: Any) -> None:
    async def body(scene: Scene) -> None:
        made = await scene.post(b"", "/api/v1/producers")
        assert made.status == 201
        producer = made.json()["producer"]
        two = lines({"value": "a"}, {"value": "b"})
        first = await scene.post(two, Idempotency_Key=f"{producer}:0")
        assert (first.status, first.json()["next_sequence"]) == (201, 2)
        again = await scene.post(two, Idempotency_Key=f"{producer}:0", If_Match='"0"')
        assert again.status == 200
        assert again.json() == first.json() | {"duplicate": True}
        other = await scene.post(lines({"value": "a"}, {"value": "c"}), Idempotency_Key=f"{producer}:0")
        assert (other.status, other.json()["type"]) == (422, "urn:dafka:problem:other-body")
        gap = await scene.post(two, Idempotency_Key=f"{producer}:9")
        assert (gap.status, gap.json()["type"]) == (409, "urn:dafka:problem:out-of-order")
        assert (await scene.post(two, Idempotency_Key="mine")).status == 400
        assert (await scene.post(two, Idempotency_Key=f"{producer}:2")).status == 201
        assert [row["value"] for row in await scene.rows()] == ["a", "b", "a", "b"]

    data(body)


def test_an_id_of_a_kafka_client_is_no_key_here_and_one_from_here_is_none_for_it(data: Any) -> None:
    async def body(scene: Scene) -> None:
        broker = scene.view.broker
        kafkas = await broker.allocate_producer_id(ANONYMOUS)
        refused = await scene.post(b"forged", kind=RAW, Idempotency_Key=f"{kafkas}:0")
        assert (refused.status, refused.json()["type"]) == (409, "urn:dafka:problem:other-producer")
        own = int((await scene.post(b"", "/api/v1/producers")).json()["producer"])
        assert (await scene.post(b"0", kind=RAW, Idempotency_Key=f"{own}:0")).status == 201
        assert not broker.producer_id_owners.is_of(own, ANONYMOUS)
        assert broker.producer_id_owners.is_of(kafkas, ANONYMOUS)
        assert [row["value"] for row in await scene.rows()] == ["0"]

    data(body)


def test_if_match_appends_at_that_end_only(data: Any) -> None:
    async def body(scene: Scene) -> None:
        assert (await scene.post(b"0", kind=RAW, If_Match='"0"')).status == 201
        late = await scene.post(b"1", kind=RAW, If_Match='"0"')
        assert (late.status, late.headers["etag"]) == (412, '"1"')
        large = await scene.post(b"1" * 300_000, kind=RAW, If_Match='"1"')
        assert large.status == 413
        assert (await scene.post(b"1", kind=RAW, If_Match="*")).status == 400
        assert [row["value"] for row in await scene.rows()] == ["0"]

    data(body)


def test_keys_choose_the_partition(data: Any) -> None:
    async def body(scene: Scene) -> None:
        for key in ("a", "b", "42"):
            got = await scene.post(lines({"key": key}), "/api/v1/topics/orders/records")
            assert got.json()["partition"] == partition_of(key.encode(), 4)
            raw = await scene.post(b"v", f"/api/v1/topics/orders/records?key={key}", RAW)
            assert raw.json()["partition"] == partition_of(key.encode(), 4)
        mixed = lines(*({"key": str(number)} for number in range(20)))
        assert (await scene.post(mixed, "/api/v1/topics/orders/records")).status == 422
        assert (await scene.post(b"v", "/api/v1/topics/orders/records", RAW)).status == 422

    data(body)


def test_what_is_refused_appends_nothing(data: Any) -> None:
    async def body(scene: Scene) -> None:
        good = lines({"value": "a"})
        for kind in (
            "",
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=a",
        ):
            assert (await scene.post(good, kind=kind)).status == 415
        assert (await scene.post(good, Content_Encoding="gzip")).status == 415
        assert (await scene.post(good, Sec_Fetch_Site="cross-site")).status == 403
        assert (await scene.post(good, Origin="http://evil.example")).status == 403
        assert (await scene.post(good, Origin="http://localhost")).status == 201
        assert (await scene.post(good, Host="evil.example")).status == 403
        assert (await scene.post(good, PATH.replace("0", "9"))).status == 404
        assert (await scene.post(good, PATH.replace("orders", "none"))).status == 404
        assert (await scene.post(good, "/api/v1/topics")).status == 405
        assert (await scene.post(good, "/")).status == 405
        assert (await request(scene.port, "PUT", PATH, b"")).status == 405
        internal = await scene.post(good, "/api/v1/topics/__consumer_offsets/partitions/0/records")
        assert internal.status in {403, 404}
        bad = await scene.post(good + b"{\n")
        assert bad.status == 422
        assert bad.json()["detail"].startswith("line 2: it is not JSON")
        assert (await scene.post(b"\n")).status == 422
        assert (await scene.post(b'{"value": "' + b"a" * MAX_LINE_BYTES + b'"}')).status == 422
        assert (await scene.post(b"{}\n" * (MAX_APPENDED_RECORDS + 1))).status == 413
        assert (await scene.post(b"a" * 2_000_000, kind=RAW)).status == 413
        assert [row["value"] for row in await scene.rows()] == ["a"]

    data(body)


def test_without_the_switch_nothing_is_written(data: Any) -> None:
    async def body(scene: Scene) -> None:
        got = await scene.post(b"")
        assert (got.status, got.headers["allow"]) == (405, "GET, HEAD")
        assert "--http-data" in got.json()["next_step"]
        assert (await scene.get()).status == 404

    data(body, http_data=False)


def test_hidden_values_are_not_read(data: Any) -> None:
    async def body(scene: Scene) -> None:
        assert (await scene.post(b"0", kind=RAW)).status == 201
        assert (await scene.get()).status == 403

    data(body, http_no_values=True)


def test_many_and_large_records_come_in_pieces(data: Any) -> None:
    async def body(scene: Scene) -> None:
        many = [{"value": f"{number:0>200}"} for number in range(3000)]
        assert (await scene.post(lines(*many))).status == 201
        large = b"\xff" * 900_000
        assert (await scene.post(large, kind=RAW)).status == 201
        rows = await scene.rows("?limit=5000")
        assert [row["value"] for row in rows[:-1]] == [row["value"] for row in many]
        assert base64.b64decode(rows[-1]["value"]["base64"]) == large

    data(body)


def test_a_topic_that_compacts_wants_keys(data: Any) -> None:
    async def body(scene: Scene) -> None:
        await scene.view.broker.create_topic("compacted", 1, {"cleanup.policy": "compact"}, 1)
        path = "/api/v1/topics/compacted/partitions/0/records"
        refused = await scene.post(lines({"key": "a"}, {"value": "b"}), path)
        assert (refused.status, refused.json()["type"]) == (422, "urn:dafka:problem:bad-record")
        assert (await scene.post(lines({"key": "a"}), path)).json()["first_offset"] == "0"

    data(body)


def test_memory_that_others_of_the_client_hold_is_not_waited_for_long(
    data: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appending, "MEMORY_SECONDS", 0.05)

    async def body(scene: Scene) -> None:
        server = scene.view.kafka()
        assert server is not None
        with server.visit("127.0.0.1") as client:
            assert client is not None
            size = client.produced_memory.total * 3 // 4
            await client.produced_memory.reserve(size)
            got = await scene.post(b"0", kind=RAW)
            assert (got.status, got.headers["retry-after"]) == (429, "2")
            client.produced_memory.release(size)
            assert (await scene.post(b"0", kind=RAW)).status == 201

    data(body)


def test_memory_and_places_are_given_back(data: Any) -> None:
    async def body(scene: Scene) -> None:
        await scene.post(lines({"value": "a"}))
        await scene.rows()
        server = scene.view.kafka()
        assert server is not None
        assert server.context.produced_memory.used == server.context.response_memory.used == 0
        assert scene.view.streams == 0

    data(body)


def test_no_record_is_shown_or_taken_while_others_may_lead_it(data: Callable[..., None]) -> None:
    async def body(scene: Scene) -> None:
        assert (await scene.post(lines({"value": "a"}))).status == 201
        scene.view.surroundings = replace(
            scene.view.surroundings, is_suspended=lambda: True, not_ready_because=lambda: "suspended: why"
        )
        for got in (
            await scene.get("?offset=0"),
            await scene.post(lines({"value": "b"})),
            await request(scene.port, "GET", "/api/v1/topics/orders/records", b""),
        ):
            assert (got.status, got.json()["detail"]) == (503, "suspended: why"), got.body
        assert (await request(scene.port, "GET", "/api/v1/overview", b"")).status == 200

    data(body)
