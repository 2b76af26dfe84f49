"""The status page's JSON of a whole gateway: what is in it, and hostile records and clients."""

from __future__ import annotations

import base64
import random
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import trio
from kafka.protocol.consumer import OffsetCommitRequest, OffsetCommitResponse
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kafka.protocol.producer import ProduceResponse

from gateway.http import live, live_records, reading, rounds
from gateway.http.connection import Asked
from gateway.http.failures import Failure
from gateway.http.limits import MAX_STREAMS
from gateway.http.table import ROUTES
from gateway.log import retention
from tests.docs.constants_page import ROOT
from tests.in_process.http_client import Got, ask, events, get
from tests.in_process.in_process import produce_request, running
from tests.in_process.pages import Pages, with_pages
from wireproto.kafka.errors import ErrorCode
from wireproto.records.builder import RecordFields, build_batch

pytestmark = pytest.mark.usefixtures("roomy_disk")

PATIENCE_SECONDS = 60
TICK_SECONDS = 0.1
TOPICS = (("orders", 2), ("clicks", 1))
TIME = 1_700_000_000_000


class Scene:
    """A gateway with its status page, and a Kafka client of it."""

    def __init__(self, pages: Pages) -> None:
        self.process, self.client, self.port = pages.process, pages.client, pages.port

    async def ask(self, path: str) -> Any:
        return await ask(self.port, path)

    async def get(self, path: str, **headers: str) -> Got:
        return await get(self.port, path, **headers)

    async def produce(
        self, *records: RecordFields, topic: str = "orders", partition: int = 0, codec: int = 0
    ) -> None:
        batch = build_batch(records, codec=codec)
        answer = await self.client.ask(
            produce_request(batch, topic=topic, partition=partition), ProduceResponse
        )
        assert answer.responses[0].partition_responses[0].error_code == 0

    async def commit(self, group: str, offsets: dict[int, int]) -> None:
        found = await self.client.ask(
            FindCoordinatorRequest(version=1, key=group, key_type=0), FindCoordinatorResponse
        )
        assert found.error_code == 0
        of = OffsetCommitRequest.OffsetCommitRequestTopic
        part = of.OffsetCommitRequestPartition
        partitions = [
            part(version=7, partition_index=index, committed_offset=offset, committed_leader_epoch=-1,
                 committed_metadata="<b>")
            for index, offset in offsets.items()
        ]  # fmt: skip
        request = OffsetCommitRequest(
            version=7,
            group_id=group,
            generation_id_or_member_epoch=-1,
            member_id="",
            group_instance_id=None,
            topics=[of(version=7, name="orders", partitions=partitions)],
        )
        answer = await self.client.ask(request, OffsetCommitResponse)
        while answer.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            answer = await self.client.ask(request, OffsetCommitResponse)
        assert answer.topics[0].partitions[0].error_code == 0


Body = Callable[[Scene], Awaitable[None]]


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Runs a body with a gateway."""

    monkeypatch.setattr(live, "TICK_SECONDS", TICK_SECONDS)
    monkeypatch.setattr(rounds, "ROUND_SECONDS", TICK_SECONDS)
    # The records are old: they are to stay meanwhile.
    monkeypatch.setattr(retention, "FIRST_CHECK_SECONDS", 10 * PATIENCE_SECONDS)

    def start(body: Body, **options: Any) -> None:
        async def main() -> None:
            with trio.fail_after(PATIENCE_SECONDS):
                async with with_pages(tmp_path, monkeypatch, **({"topics": TOPICS} | options)) as pages:
                    await body(Scene(pages))

        trio.run(main)

    return start


def record(value: bytes | None, key: bytes | None = None, at: int = TIME, *headers: Any) -> RecordFields:
    return (key, value, headers, at)


# topics and numbers -----------------------------------------------------------------------------------------


def test_numbers_of_the_whole_gateway(page: Any) -> None:
    async def body(scene: Scene) -> None:
        await scene.produce(record(b"a"), record(b"b"))
        overview = await scene.ask("overview")
        assert overview["role"] == "standalone"
        assert overview["cluster_id"] == scene.process.store.ingest.cluster_id
        assert (overview["topics"], overview["partitions"]) == (2, 3)
        assert overview["partitions_by_state"] == {"serving": 3, "recovering": 0, "failed": 0}
        assert overview["bytes"] == len(build_batch([record(b"a"), record(b"b")]))
        assert overview["problems"] == {"critical": 0, "warning": 0}
        assert (await scene.ask("problems"))["items"] == []

    page(body)


def test_topics_come_in_pages_and_in_an_order(page: Any) -> None:
    async def body(scene: Scene) -> None:
        await scene.produce(record(b"a" * 1000), topic="clicks")
        first = await scene.ask("topics?sort=-bytes&limit=1")
        assert [one["name"] for one in first["items"]] == ["clicks"]
        assert first["total"] == 2
        second = await scene.ask(f"topics?sort=-bytes&limit=1&after={first['next']}")
        assert [one["name"] for one in second["items"]] == ["orders"]
        assert second["next"] is None
        assert [one["name"] for one in (await scene.ask("topics?q=ORD"))["items"]] == ["orders"]
        row = first["items"][0]
        assert (row["offsets"], row["serving"], row["cleanup_policy"]) == ("1", 1, "delete")

    page(body)


def test_a_topic_with_its_configs_partitions_and_groups(page: Any) -> None:
    async def body(scene: Scene) -> None:
        await scene.produce(record(b"a"), record(b"b"), partition=1)
        await scene.commit("billing", {1: 1})
        topic = await scene.ask("topics/orders")
        assert topic["groups"] == {"items": ["billing"], "total": 1}
        configs = {one["name"]: one for one in topic["configs"]}
        assert configs["retention.ms"]["value"] == "604800000"
        assert configs["retention.ms"]["source"] == "default"
        rows = topic["partitions_page"]["items"]
        assert [(row["partition"], row["start"], row["end"]) for row in rows] == [
            (0, "0", "0"),
            (1, "0", "2"),
        ]
        assert rows[1]["state"] == "serving"
        assert rows[1]["newest_ms"] == str(TIME)
        one = await scene.ask("topics/orders/partitions?limit=1")
        two = await scene.ask(f"topics/orders/partitions?limit=1&after={one['next']}")
        assert [page["items"][0]["partition"] for page in (one, two)] == [0, 1]
        assert two["next"] is None

    page(body)


def test_rates_are_those_of_the_last_second(page: Any) -> None:
    async def body(scene: Scene) -> None:
        async with events(scene.port, "view=topics&keys=orders") as stream:
            first = await stream.next("rows")
            assert first.data["rows"]["orders"]["records_in"] is None
            await stream.next("rows")
            fields: dict[str, Any] = {}
            while not fields.get("records_in"):
                await scene.produce(*[record(b"abc")] * 100)
                fields = (await stream.next("rows")).data["rows"].get("orders", {})
            size = len(build_batch([record(b"abc")] * 100))
            assert fields["bytes_in"] / fields["records_in"] == pytest.approx(size / 100, rel=0.01)

    page(body)


# records ----------------------------------------------------------------------------------------------------


def test_records_by_tail_offset_and_time(page: Any) -> None:
    async def body(scene: Scene) -> None:
        for number in range(10):
            await scene.produce(record(b"%d" % number, at=TIME + 1000 * number), codec=number % 5)

        async def values(query: str) -> list[str]:
            found = await scene.ask(f"topics/orders/records?{query}")
            return [one["value"]["text"] for one in found["items"]]

        assert await values("from=last:3") == ["7", "8", "9"]
        assert await values("from=offset:4&limit=2&partition=0") == ["4", "5"]
        assert await values("from=start&limit=1") == ["0"]
        assert await values("from=time:2023-11-14T22:13:28Z") == ["8", "9"]
        assert await values("from=time:2023-11-14T23:13:28%2B01:00") == ["8", "9"]
        assert await values("from=offset:99") == []

    page(body)


def test_reading_goes_on_where_it_ended(page: Any) -> None:
    async def body(scene: Scene) -> None:
        for number in range(6):
            await scene.produce(
                record(b"%d" % number, at=TIME + number), record(b"", at=TIME + number), partition=number % 2
            )
        query, seen, found = "from=start&limit=5", [], {"next": ""}
        while found["next"] is not None:
            found = await scene.ask(f"topics/orders/records?{query}")
            assert found["order"] == "time"
            seen += [(one["partition"], one["offset"]) for one in found["items"]]
            query = f"limit=5&after={found['next']}"
        assert sorted(seen) == [(index, str(offset)) for index in range(2) for offset in range(6)]
        assert [part for part, _ in seen] == [0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1]

    page(body)


def test_batches_are_told_of_as_their_headers_have_them(page: Any) -> None:
    async def body(scene: Scene) -> None:
        batch = build_batch(
            [record(b"a"), record(b"b", at=TIME + 5)],
            codec=4,
            producer_id=77,
            producer_epoch=1,
            base_sequence=0,
        )
        await scene.client.ask(produce_request(batch), ProduceResponse)
        found = await scene.ask("topics/orders/records?partition=0")
        assert found["items"][1]["batch"] == "0:0"
        told = found["batches"]["0:0"]
        assert told["codec"] == "zstd"
        assert (told["base_offset"], told["last_offset"], told["records"]) == ("0", "1", 2)
        assert (told["producer_id"], told["producer_epoch"], told["base_sequence"]) == ("77", 1, 0)
        assert (told["base_timestamp_ms"], told["max_timestamp_ms"]) == (str(TIME), str(TIME + 5))
        assert told["bytes"] == len(batch)
        one = await scene.ask("topics/orders/partitions/0/records/1")
        assert one["record"] == found["items"][1]
        assert one["batch"] == told

    page(body)


HOSTILE = (
    b"<img src=x onerror=alert(1)>",
    "\u202eevil\u2066".encode(),
    b"\xff\xfe\x00",
    b"",
    b'"\\\n</script>',
    b"\xed\xa0\x80",
    "\u2028\u2029".encode(),
)


def test_hostile_records_come_out_as_they_are(page: Any) -> None:
    async def body(scene: Scene) -> None:
        for data in HOSTILE:
            await scene.produce(record(data, data, TIME, ("\u202e<b>", data)))
        await scene.produce(record(None, None, -1))
        found = (await scene.ask("topics/orders/records?partition=0"))["items"]
        for one, data in zip(found, HOSTILE, strict=False):
            for shown in (one["key"], one["value"], one["headers"][0]["value"]):
                assert shown["bytes"] == len(data)
                raw = shown["text"].encode() if "text" in shown else base64.b64decode(shown["base64"])
                assert raw == data
            assert one["headers"][0]["key"] == "\u202e<b>"
        assert found[-1]["key"] is None
        assert found[-1]["value"] is None
        assert found[-1]["timestamp_ms"] is None

    page(body)


def test_large_records_are_cut_and_there_by_themselves(page: Any) -> None:
    async def body(scene: Scene) -> None:
        size = 900_000
        headers = [(f"h{number}", b"x" * 1000) for number in range(50)]
        await scene.produce(record(b"v" * size, b"k" * 5000, TIME, *headers), codec=4)
        (one,) = (await scene.ask("topics/orders/records?partition=0"))["items"]
        assert (one["value"]["bytes"], one["value"]["cut"], len(one["value"]["text"])) == (size, True, 4096)
        assert (one["key"]["bytes"], one["key"]["cut"]) == (5000, True)
        assert (len(one["headers"]), one["headers_total"]) == (32, 50)
        assert one["headers"][0]["value"]["cut"]
        whole = (await scene.ask("topics/orders/partitions/0/records/0?max_bytes=1048576"))["record"]
        assert whole["value"]["text"] == "v" * size
        assert len(whole["headers"]) == 50

    page(body)


def test_values_can_be_hidden(page: Any) -> None:
    async def body(scene: Scene) -> None:
        await scene.produce(record(b"secret", b"secret", TIME, ("h", b"secret")))
        for path in ("topics/orders/records", "topics/orders/partitions/0/records/0"):
            got = await scene.get(f"/api/v1/{path}")
            assert got.status == 200
            assert b"secret" not in got.body
            assert b'"hidden":true' in got.body
        assert (await scene.ask("overview"))["values_hidden"]
        async with events(scene.port, "view=records&topic=orders&from=last:1") as stream:
            (one,) = (await stream.next("records")).data["items"]
            assert one["value"] == {"hidden": True, "bytes": 6}

    page(body, http_no_values=True)


def test_reads_leave_the_tail_cache_and_the_places_of_consumers_alone(page: Any) -> None:
    async def body(scene: Scene) -> None:
        for number in range(50):
            await scene.produce(record(b"%d" % number * 200))
        assert scene.process.pages is not None
        broker = scene.process.pages.view.broker
        cache, cold = broker.context.tail_cache, broker.context.cold
        before = (cache.bytes, cache.evictions, len(cold._cursors), cold.ahead.started)
        reads = cold.reads
        found = await scene.ask("topics/orders/records?from=start&limit=30&partition=0")
        assert len(found["items"]) == 30
        assert cold.reads > reads
        assert (cache.bytes, cache.evictions, len(cold._cursors), cold.ahead.started) == before

    page(body, tail_cache_bytes=2000)


def test_a_read_ends_when_its_budget_is_spent_and_can_go_on(page: Any) -> None:
    async def body(scene: Scene) -> None:
        for _ in range(4):
            await scene.produce(record(b"x" * 40_000))
        found = await scene.ask("topics/orders/records?from=start&partition=0&max_bytes=65536")
        assert found["stopped"] == "bytes"
        assert 0 < len(found["items"]) < 4
        (part,) = found["partitions"]
        assert not part["done"]
        rest = await scene.ask(f"topics/orders/records?max_bytes=1048576&after={found['next']}")
        assert [one["offset"] for one in [*found["items"], *rest["items"]]] == ["0", "1", "2", "3"]

    page(body)


def test_a_batch_that_is_too_large_to_be_opened_is_named_and_passed_over(
    page: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(scene: Scene) -> None:
        await scene.produce(record(b"x" * 5000), codec=1)
        await scene.produce(record(b"after"))
        first = await scene.ask("topics/orders/records?from=start&partition=0")
        assert "offsets 0 to 0 cannot be read" in first["partitions"][0]["error"]
        second = await scene.ask(f"topics/orders/records?after={first['next']}")
        assert [one["value"]["text"] for one in second["items"]] == ["after"]

    monkeypatch.setattr(reading, "MAX_BATCH_BYTES", 1000)
    page(body)


def test_no_more_reads_wait_than_may(page: Any) -> None:
    async def body(scene: Scene) -> None:
        assert scene.process.pages is not None
        reads = scene.process.pages.view.reads
        for number in range(2):
            reads.acquire_on_behalf_of_nowait(number)
        async with trio.open_nursery() as nursery:
            for _ in range(reading.READS_WAITING):
                nursery.start_soon(scene.ask, "topics/orders/records")
            while reads.statistics().tasks_waiting < reading.READS_WAITING:
                await trio.lowlevel.checkpoint()
            got = await scene.get("/api/v1/topics/orders/records")
            assert got.status == 429
            assert got.headers["retry-after"] == "2"
            for number in range(2):
                reads.release_on_behalf_of(number)

    page(body)


def test_a_record_that_is_not_there_is_told_so(page: Any) -> None:
    async def body(scene: Scene) -> None:
        await scene.produce(record(b"a"))
        for place, kind in (
            ("orders/partitions/0/records/1", "no-record"),
            ("orders/partitions/9/records/0", "unknown-partition"),
            ("nothing/partitions/0/records/0", "unknown-topic"),
            ("orders/partitions/x/records/0", "unknown-partition"),
        ):
            got = await scene.get(f"/api/v1/topics/{place}")
            assert got.status == 404
            assert got.json()["type"] == f"urn:dafka:problem:{kind}"
            assert got.json()["next_step"]
        for query in (
            "from=last",
            "from=time:2026-01-01T00:00",
            "from=last:0",
            "limit=501",
            "partition=-1",
            "x=1",
            "after=zzz",
            "max_bytes=1",
        ):
            got = await scene.get(f"/api/v1/topics/orders/records?{query}")
            assert got.status in {400, 404}, query

    page(body)


# groups, mesh, clients --------------------------------------------------------------------------------------


def test_a_group_with_its_lag(page: Any) -> None:
    async def body(scene: Scene) -> None:
        await scene.produce(*[record(b"a")] * 5)
        await scene.produce(*[record(b"a")] * 3, partition=1)
        await scene.commit("billing", {0: 1, 1: 3})
        (row,) = (await scene.ask("groups"))["items"]
        assert (row["group"], row["state"], row["lag"], row["offsets"]) == ("billing", "Empty", "4", 2)
        assert row["lag_seconds"] > 1_000_000  # as old as the records say
        group = await scene.ask("groups/billing")
        rows = group["partitions_page"]["items"]
        assert [(one["committed"], one["end"], one["lag"]) for one in rows] == [
            ("1", "5", "4"),
            ("3", "3", "0"),
        ]
        assert rows[0]["metadata"] == "<b>"
        assert rows[1]["lag_seconds"] == 0
        async with events(scene.port, "view=group&group=billing") as stream:
            point = None
            while point is None:
                point = (await stream.next("rows")).data["rows"].get("", {}).get("trend_point")
        assert point[1] == "4"
        assert point in (await scene.ask("groups/billing"))["trend"]["points"]
        assert (await scene.get("/api/v1/groups/none")).status == 404

    page(body)


def test_a_group_that_retention_has_overtaken_is_a_problem(page: Any) -> None:
    async def body(scene: Scene) -> None:
        await scene.produce(*[record(b"a")] * 5)
        await scene.commit("a b", {0: 1})
        assert scene.process.pages is not None
        broker = scene.process.pages.view.broker
        topic = broker.topics.get("orders")
        assert topic is not None
        await broker.log_starts.delete_records({topic.partitions[0]: 3})
        async with events(scene.port, "") as stream:
            problems: list[Any] = []
            while not problems:
                problems = (await stream.next("now")).data.get("problems", [])
        assert problems[0]["id"] == "offsets-lost:a b"
        assert problems[0]["command"] == "dafka groups reset 'a b' --to-earliest"
        assert (await scene.ask("groups"))["items"][0]["behind_start"] == 1

    page(body)


def test_clients_by_what_they_call_themselves(page: Any) -> None:
    async def body(scene: Scene) -> None:
        request = ApiVersionsRequest(version=3, client_software_name="lib", client_software_version="1.2")
        await scene.client.ask(request, ApiVersionsResponse)
        clients = await scene.ask("clients")
        (one,) = clients["items"]
        assert (one["library"], one["version"], one["client_ids"]) == ("lib", "1.2", ["test"])
        assert (one["connections"], one["hosts"]) == (1, 1)
        assert [api["api"] for api in clients["apis"]] == ["ApiVersions"]

    page(body)


def test_the_mesh_of_a_standalone_is_itself(page: Any) -> None:
    async def body(scene: Scene) -> None:
        mesh = await scene.ask("mesh")
        (gateway,), (store,) = mesh["gateways"], mesh["stores"]
        assert gateway["listeners"]
        assert store["live"]
        assert store["fsync"]["count"] > 0
        assert 0 < store["free_bytes"] <= store["disk_bytes"]
        assert mesh["towers"] == []

    page(body)


# events -----------------------------------------------------------------------------------------------------


def test_live_records_go_on_after_the_last_event_that_a_client_has(page: Any) -> None:
    async def body(scene: Scene) -> None:
        await scene.produce(record(b"before"))
        async with events(scene.port, "view=records&topic=orders") as stream:
            assert (await stream.next("records")).id == "p0:1,p1:0"
            await scene.produce(record(b"one"))
            first = await stream.next("records")
            assert [one["value"]["text"] for one in first.data["items"]] == ["one"]
            assert first.id == "p0:2,p1:0"
        await scene.produce(record(b"two"))
        await scene.produce(record(b"three"), partition=1)
        async with events(scene.port, "view=records&topic=orders", Last_Event_ID=first.id) as stream:
            second = await stream.next("records")
            assert sorted(one["value"]["text"] for one in second.data["items"]) == ["three", "two"]
            assert second.id == "p0:3,p1:1"
        async with events(scene.port, "view=records&topic=orders&resume=p0:1,p1:0") as stream:
            assert len((await stream.next("records")).data["items"]) == 3
        async with events(scene.port, "view=records&topic=orders&resume=p0:99,p1:1") as stream:
            assert (await stream.next("records")).id == "p0:3,p1:1"
        # A link broke in a view that had been resumed: the browser asks for the same target again.
        again = "view=records&topic=orders&resume=p0:1,p1:0"
        async with events(scene.port, again, Last_Event_ID="p0:2,p1:1") as stream:
            items = (await stream.next("records")).data["items"]
            assert [one["value"]["text"] for one in items] == ["two"]

    page(body)


def test_of_more_records_than_anybody_reads_the_oldest_are_skipped(
    page: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(scene: Scene) -> None:
        for number in range(30):
            await scene.produce(record(b"%d" % number))
        async with events(scene.port, "view=records&topic=orders&partition=0&from=offset:0") as stream:
            assert (await stream.next("skipped")).data == {"offsets": "20"}
            found = (await stream.next("records")).data["items"]
            assert [one["value"]["text"] for one in found] == [str(number) for number in range(20, 30)]

    monkeypatch.setattr(live_records, "MAX_LIVE_RECORDS", 10)
    page(body)


def test_rows_that_can_be_seen_change_and_go(page: Any) -> None:
    async def body(scene: Scene) -> None:
        keys = quote("orders/0", safe="")
        await scene.produce(*[record(b"a")] * 3)
        await scene.commit("billing", {0: 1})
        async with events(scene.port, f"view=group&group=billing&keys={keys}") as stream:
            now = await stream.next("now")
            assert now.data["overview"]["groups"] == 1
            assert now.data["problems"] == []
            rows = (await stream.next("rows")).data["rows"]
            assert rows["orders/0"]["lag"] == "2"
            assert rows[""]["lag"] == "2"
            await scene.commit("billing", {0: 3})
            while "lag" not in (fields := (await stream.next("rows")).data["rows"].get("orders/0", {})):
                pass
            assert (fields["lag"], fields["committed"]) == ("0", "3")
            assert "end" not in fields
        async with events(scene.port, "view=topics&keys=clicks,nothing") as stream:
            assert set((await stream.next("rows")).data["rows"]) == {"clicks"}
            assert scene.process.pages is not None
            broker = scene.process.pages.view.broker
            topic = broker.topics.get("clicks")
            assert topic is not None
            await broker.delete_topic(topic)
            while not (gone := (await stream.next("rows")).data["gone"]):
                pass
            assert gone == ["clicks"]

    page(body)


def test_a_stream_of_a_topic_that_goes_says_so_and_ends(page: Any) -> None:
    async def body(scene: Scene) -> None:
        async with events(scene.port, "view=topic&topic=clicks&keys=0") as stream:
            await stream.next("rows")
            assert scene.process.pages is not None
            broker = scene.process.pages.view.broker
            topic = broker.topics.get("clicks")
            assert topic is not None
            await broker.delete_topic(topic)
            failed = await stream.next("failed")
            assert "clicks" in failed.data["detail"]
            with pytest.raises(AssertionError, match="the stream has ended"):
                await stream.next("rows")

    page(body)


def test_a_client_that_does_not_read_holds_up_nobody_and_is_told_what_it_missed(
    page: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(scene: Scene) -> None:
        assert scene.process.pages is not None
        view = scene.process.pages.view
        big = "x" * 20_000
        original = live_records.LiveRecords.events

        async def many(self: Any) -> Any:
            return [live.Event("records", {"big": [big] * 100}), *await original(self)]

        monkeypatch.setattr(live_records.LiveRecords, "events", many)
        async with events(scene.port, "view=records&topic=orders") as slow:
            slow.raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
            began = trio.current_time()
            while trio.current_time() < began + 10 * TICK_SECONDS:
                # Others have their answers meanwhile.
                assert (await scene.ask("overview"))["ready"]
            assert view.streams == 1
            assert (await slow.next("skipped")).data["seconds"] >= TICK_SECONDS
        while view.streams:
            await trio.lowlevel.checkpoint()

    page(body)


def test_there_are_no_more_streams_than_may_be(page: Any) -> None:
    async def body(scene: Scene) -> None:
        assert scene.process.pages is not None
        scene.process.pages.view.streams = MAX_STREAMS
        got = await scene.get("/api/v1/events")
        assert got.status == 503
        assert got.json()["type"] == "urn:dafka:problem:crowded"

    page(body)


# the server -------------------------------------------------------------------------------------------------


def test_headers_and_refusals_of_the_server(page: Any) -> None:
    async def body(scene: Scene) -> None:
        got = await scene.get("/")
        assert got.status == 200
        assert got.headers["content-type"] == "text/html; charset=utf-8"
        assert "require-trusted-types-for 'script'" in got.headers["content-security-policy"]
        assert got.headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in got.headers
        again = await scene.get("/", If_None_Match=got.headers["etag"])
        assert (again.status, again.body) == (304, b"")
        assert (await scene.get("/../static.py")).status == 404
        assert (await scene.get("/%2e%2e/static.py")).status == 404
        assert (await scene.get("/api/v2/topics")).status == 404
        assert (
            (await scene.get("/api/v1/topics", Host="evil.example")).json()["type"].endswith("unknown-host")
        )
        assert (await scene.get("/api/v1/topics", Sec_Fetch_Site="cross-site")).status == 403
        refused = await get(scene.port, "/api/v1/topics", method="POST", Content_Length="0")
        assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD")
        head = await get(scene.port, "/api/v1/topics", method="HEAD")
        assert (head.status, head.body) == (200, b"")

    page(body)


NASTY = (
    "",
    "0",
    "1",
    "-1",
    "all",
    "orders",
    "clicks",
    "billing",
    "9" * 19,
    "9" * 30,
    "last:5",
    "last:",
    "offset:0",
    "offset:9223372036854775807",
    "start",
    "time:2026-01-01T00:00:00Z",
    "time:9999-12-31T23:59:59+00:00",
    "time:0001-01-01T00:00:00+14:00",
    "name",
    "-bytes",
    "-name",
    "p0:1",
    "p0:999999999999999999",
    "eyIwIjoxfQ",
    "W10",
    "WzBd",
    "bnVsbA",
    "WyJhIl0",
    "WzEsImEiXQ",
    "WzFlOTk5LCJhIl0",
    "records",
    "topic",
    "group",
    "topics",
    "groups",
    "\u202e",
    "a/b",
    "%",
    "\U0001f600" * 20,
    "x" * 1000,
    "true",
    "orders/0,orders/x,/,a",
)
"""Values of parameters and places, good and bad."""


def test_whatever_is_asked_is_answered_or_refused(page: Any) -> None:
    chance = random.Random(7)

    def target() -> str:
        route = chance.choice(ROUTES)
        parts = [quote(chance.choice(NASTY), safe="") if part[0] == "{" else part for part in route.parts]
        names = chance.sample(route.parameters, chance.randint(0, len(route.parameters)))
        query = "&".join(f"{one.name}={quote(chance.choice(NASTY), safe='')}" for one in names)
        return f"/api/v1/{'/'.join(parts)}?{query}"

    async def body(scene: Scene) -> None:
        await scene.produce(record(b"a"), record(b"b"))
        await scene.commit("billing", {0: 1, 1: 7})
        assert scene.process.pages is not None
        pages = scene.process.pages

        async def status(asked: str) -> int:
            try:
                answer = await pages.respond(Asked(b"GET", asked.encode(), {b"host": b"localhost"}))
            except Failure as failure:
                return failure.status.value
            return answer.status.value

        statuses = Counter([await status(target()) for _ in range(1500)])
        assert {one for one in statuses if one >= 500} == set()
        assert min(statuses[200], statuses[400], statuses[404]) > 100

    page(body)


def test_the_openapi_document_has_every_route(page: Any) -> None:
    async def body(scene: Scene) -> None:
        document = await scene.ask("openapi.json")
        assert document["openapi"] == "3.1.0"
        assert set(document["paths"]) == {f"/{route.path}" for route in ROUTES}
        records = document["paths"]["/topics/{topic}/records"]["get"]["parameters"]
        assert [one["name"] for one in records] == [
            "topic",
            "from",
            "partition",
            "limit",
            "max_bytes",
            "after",
        ]

    page(body)


def test_the_document_of_the_json_has_every_route() -> None:
    text = (ROOT / "docs/http-api.md").read_text()
    assert [route.path for route in ROUTES if f"## GET /api/v1/{route.path}\n" not in text] == []


def test_the_page_is_not_served_unless_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with running(tmp_path, monkeypatch) as (process, _):
            assert process.pages is None

    trio.run(main)
