"""Native records in a topic: what a Kafka client reads of them, each once, whatever dies in between."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import trio

from dafka.operators.native import NativeRequestHandlers
from dafka.processes.standalone import Standalone
from gateway.broker import Broker
from gateway.log.partition import Partition
from gateway.native.batches import ADDRESS_HEADER, REWRITTEN_HEADER, SEQUENCE_HEADER, batch_of
from gateway.native.intake import Intake
from mesh.protocol.native_order import Run, add_to_runs
from tests.in_process.in_process import running
from tests.in_process.natives import native_producer
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.records.header import read_header
from wireproto.records.iteration import iter_records

SUBJECT = "readings"
Found = dict[str, list[tuple[int, bytes]]]


class Scene:
    """A topic of two partitions on one data directory, over several lives of the server."""

    def __init__(self, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.data = data
        self.monkeypatch = monkeypatch
        self.brokers: list[Broker] = []
        monkeypatch.setattr(
            Standalone, "_register_metrics", lambda _self, broker: self.brokers.append(broker)
        )
        self.made = False
        self.has_keys = False

    @property
    def broker(self) -> Broker:
        return self.brokers[-1]

    @property
    def partitions(self) -> list[Partition]:
        topic = self.broker.topics.get("native")
        assert topic is not None
        return topic.partitions

    async def live(self, act: Callable[[Standalone], Awaitable[Any]], **settings: Any) -> None:
        """One life of the server."""
        with trio.fail_after(60):
            async with running(self.data, self.monkeypatch, **settings) as (server, _):
                if not self.made:
                    configs = {"dafka.native.subject": SUBJECT, "retention.ms": "-1"}
                    await self.broker.create_topic("native", 2, configs, 1)
                    self.made = True
                await act(server)

    async def found(self) -> Found:
        """What is in the topic: address -> (sequence, content), in the order of the log."""
        by_address: Found = defaultdict(list)
        for partition in self.partitions:
            offset = partition.log_start_offset
            while batches := await partition.look(offset, 1 << 20):
                for batch in batches:
                    for record in iter_records(batch):
                        headers = dict(record.headers)
                        address, sequence = headers[ADDRESS_HEADER] or b"", headers[SEQUENCE_HEADER] or b""
                        by_address[address.decode()].append((int(sequence), bytes(record.value or b"")))
                        assert record.key == (address if self.has_keys else None)
                        offset = record.offset + 1
        return by_address

    async def wait_for(self, records: int) -> Found:
        """What is found when there are so many."""
        for _ in range(1000):
            found = await self.found()
            if sum(map(len, found.values())) >= records:
                return found
            await trio.sleep(0.02)
        raise AssertionError(f"there are no {records} records")


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(tmp_path, monkeypatch)


def content(address: str, number: int) -> bytes:
    return b"%s %d" % (address.encode(), number)


def whole(address: str, records: int) -> list[tuple[int, bytes]]:
    return [(number, content(address, number)) for number in range(records)]


async def publish(server: Standalone, records: int) -> str:
    """The address."""
    async with native_producer(server, SUBJECT) as producer:
        for number in range(records):
            await producer.produce(content(producer.address, number))
        await producer.drained()
    return producer.address


def test_what_several_producers_publish_is_in_the_topic_in_the_order_of_each(scene: Scene) -> None:
    async def act(server: Standalone) -> None:
        addresses = [await publish(server, 50) for _ in range(4)]
        found = await scene.wait_for(200)
        assert found == {address: whole(address, 50) for address in addresses}
        intake = next(iter(scene.broker.native.intakes.values()))  # type: ignore[union-attr]
        assert (intake.records, intake.lost, intake.refused) == (200, 0, 0)

    trio.run(scene.live, act)


def test_what_is_in_the_topic_goes_from_the_stores_as_its_config_says(scene: Scene) -> None:
    """And its producer goes on, in this life and the next."""
    scene.monkeypatch.setattr("gateway.native.taken.TELL_SECONDS", 0.2)
    scene.monkeypatch.setattr("mesh.store.native.KEEP_SECONDS", 0.1)
    addresses: list[str] = []

    async def is_dropped(server: Standalone, address: str, records: int) -> None:
        kept = server.store.native.keeping.get(address)
        assert kept is not None
        assert kept.head == records - 1
        await until(lambda: kept.first == records)
        assert (kept.size, server.store.native.keeping.untaken_bytes) == (0, 0)

    async def first(server: Standalone) -> None:
        addresses.append(await publish(server, 30))
        await scene.wait_for(30)
        # As long as any other: a week.
        assert server.store.native.keeping.get(addresses[0]).first == 0  # type: ignore[union-attr]
        await set_config(scene.broker, "dafka.native.retention.ms", "0")
        await is_dropped(server, addresses[0], 30)
        async with native_producer(server, SUBJECT) as producer:
            addresses.append(producer.address)
            for number in range(10):
                await producer.produce(content(producer.address, number))
                await producer.drained()
                if number == 4:
                    await scene.wait_for(35)
                    await is_dropped(server, producer.address, 5)
        await scene.wait_for(40)

    async def second(server: Standalone) -> None:
        addresses.append(await publish(server, 5))
        found = await scene.wait_for(45)
        lengths = zip(addresses, (30, 10, 5), strict=True)
        assert found == {address: whole(address, records) for address, records in lengths}
        await is_dropped(server, addresses[2], 5)
        assert scene.broker.native.lost == 0  # type: ignore[union-attr]

    async def main() -> None:
        await scene.live(first)
        await scene.live(second)

    trio.run(main)


def test_what_never_comes_goes_too_once_its_producer_is_silent(scene: Scene) -> None:
    for name, seconds in (
        ("gateway.native.topics.SILENT_SECONDS", 0.2),
        ("gateway.native.topics.SILENT_LOOK_SECONDS", 0.1),
        ("gateway.native.topics.LOOK_SECONDS", 0.1),
        ("gateway.native.taken.TELL_SECONDS", 0.1),
        ("gateway.native.taken.AGAIN_SECONDS", 0.3),
        ("mesh.store.native.KEEP_SECONDS", 0.1),
    ):
        scene.monkeypatch.setattr(name, seconds)

    async def act(server: Standalone) -> None:
        for name, value in (("max.message.bytes", "1000"), ("dafka.native.retention.ms", "0")):
            await set_config(scene.broker, name, value)
        async with native_producer(server, SUBJECT) as producer:
            await producer.produce(content(producer.address, 0))
            await producer.produce(b"x" * 2000)
            await producer.drained()
            kept = server.store.native.keeping.get(producer.address)
            assert kept is not None
            await until(lambda: kept.first == 2)
            await producer.produce(content(producer.address, 2))
            found = await scene.wait_for(2)
            assert [number for number, _ in found[producer.address]] == [0, 2]
        assert (scene.broker.native.refused, scene.broker.native.lost) == (1, 0)  # type: ignore[union-attr]

    trio.run(scene.live, act)


def test_a_server_that_starts_again_goes_on_where_the_log_says(scene: Scene) -> None:
    """Nothing that is there comes again, although the store is asked for all of it."""
    addresses: list[str] = []

    async def first(server: Standalone) -> None:
        addresses.append(await publish(server, 30))
        await scene.wait_for(30)

    async def second(server: Standalone) -> None:
        addresses.append(await publish(server, 30))
        found = await scene.wait_for(60)
        assert found == {address: whole(address, 30) for address in addresses}

    async def main() -> None:
        await scene.live(first)
        await scene.live(second)

    trio.run(main)


def test_what_was_published_before_the_topic_had_a_subject_comes(scene: Scene) -> None:
    async def act(server: Standalone) -> None:
        topic = scene.broker.topics.get("native")
        assert topic is not None
        await set_subject(scene.broker, "other")
        address = await publish(server, 20)
        assert await scene.found() == {}
        await set_subject(scene.broker, SUBJECT)
        assert await scene.wait_for(20) == {address: whole(address, 20)}

    trio.run(scene.live, act)


def test_an_address_that_its_log_has_forgotten_goes_on_behind_what_is_there(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The catalog was told how far it has come while it was silent."""
    monkeypatch.setattr("gateway.native.topics.SILENT_SECONDS", 0.1)
    monkeypatch.setattr("gateway.native.topics.LOOK_SECONDS", 0.1)
    monkeypatch.setattr("gateway.native.topics.SILENT_LOOK_SECONDS", 0.1)
    addresses: list[str] = []

    async def first(server: Standalone) -> None:
        async with native_producer(server, SUBJECT) as producer:
            address = producer.address
            addresses.append(address)
            for number in range(10):
                await producer.produce(content(address, number))
            await scene.wait_for(10)
            topic, known = scene.partitions[0].topic, None
            for _ in range(1000):
                known = scene.broker.native_addresses.get(topic.id, address)
                if known is not None and known.next == 10:
                    break
                await trio.sleep(0.02)
            assert known is not None
            assert known.next == 10
            for partition in scene.partitions:
                partition.producers.state._producers.clear()
            for intake in scene.broker.native.intakes.values():  # type: ignore[union-attr]
                intake._forget([address])
            for number in range(10, 20):
                await producer.produce(content(address, number))
            assert await scene.wait_for(20) == {address: whole(address, 20)}

    trio.run(scene.live, first)


def test_a_new_address_waits_until_the_stores_remember_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A catalog that is lost before would give it another producer, and all its records a second time."""
    monkeypatch.setattr("gateway.native.topics.LOOK_SECONDS", 0.05)
    asked = 0

    async def act(server: Standalone) -> None:
        copies: Any = scene.broker.context.copies
        keep = copies.keep

        async def not_yet(seconds: float) -> bool:
            nonlocal asked
            asked += 1
            return asked > 2 and await keep(seconds)

        with monkeypatch.context() as patched:
            patched.setattr(copies, "keep", not_yet)
            address = await publish(server, 5)
            found = await scene.wait_for(5)
        assert found == {address: whole(address, 5)}
        assert asked > 2

    trio.run(scene.live, act)


def test_of_addresses_that_are_silent_nothing_is_kept(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there have been: and what one of them publishes then comes."""
    monkeypatch.setattr("gateway.native.topics.SILENT_SECONDS", 0.1)
    monkeypatch.setattr("gateway.native.topics.SILENT_LOOK_SECONDS", 0.1)
    monkeypatch.setattr("gateway.native.intake.MAX_FED_OF_PARTITION", 2)

    async def act(server: Standalone) -> None:
        async with native_producer(server, SUBJECT) as producer:
            await producer.produce(content(producer.address, 0))
            for _ in range(5):
                await publish(server, 1)
            await scene.wait_for(6)
            (intake,) = scene.broker.native.intakes.values()  # type: ignore[union-attr]
            for _ in range(500):
                if not intake.fed:
                    break
                await trio.sleep(0.02)
            intake.more_are_known()
            await trio.sleep(0.2)
            assert not intake.fed
            await producer.produce(content(producer.address, 1))
            found = await scene.wait_for(7)
        assert found[producer.address] == whole(producer.address, 2)

    trio.run(scene.live, act)


def test_a_record_that_no_batch_of_the_topic_may_have_is_told_and_what_follows_comes(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    async def act(server: Standalone) -> None:
        async with native_producer(server, SUBJECT) as producer:
            await producer.produce(b"small")
            await producer.produce(b"x" * 2_000_000)
            await producer.produce(b"small again")
            await producer.drained()
            found = await scene.wait_for(2)
        assert found == {producer.address: [(0, b"small"), (2, b"small again")]}
        assert "record 1 of native address" in caplog.text
        assert "larger than max.message.bytes" in caplog.text

    trio.run(scene.live, act)


def test_a_batch_that_is_not_behind_what_is_there_is_not_appended(scene: Scene) -> None:
    async def act(server: Standalone) -> None:
        address = await publish(server, 10)
        await scene.wait_for(10)
        (intake,) = scene.broker.native.intakes.values()  # type: ignore[union-attr]
        fed = intake.fed[address]
        partition = fed.led.partition
        runs: deque[Run] = deque()
        add_to_runs(runs, address, 9, [b"again"])
        batch = batch_of(runs[0], fed.known.producer_id, 0, 1 << 20)
        assert batch is not None
        view = memoryview(batch.content)
        with pytest.raises(KafkaError) as refused:
            partition.append_native(read_header(view), view, 0, "test")
        assert refused.value.code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER

    trio.run(scene.live, act)


def test_a_rule_names_the_partition_of_new_addresses(scene: Scene) -> None:
    """Those that are known stay where they are."""

    async def act(server: Standalone) -> None:
        async with native_producer(server, SUBJECT) as known:
            await known.produce(content(known.address, 0))
            await scene.wait_for(1)
            (of_known,) = [one.index for one in scene.partitions if one.high_watermark]
            other = 1 - of_known
            await set_config(scene.broker, "dafka.native.partition", str(other))
            addresses = [await publish(server, 5) for _ in range(4)]
            await known.produce(content(known.address, 1))
            found = await scene.wait_for(22)
        assert found == {a: whole(a, 5) for a in addresses} | {known.address: whole(known.address, 2)}
        assert [one.high_watermark for one in scene.partitions] == ([2, 20] if other else [20, 2])

    trio.run(scene.live, act)


def test_an_address_may_be_the_key_of_its_records(scene: Scene) -> None:
    async def act(server: Standalone) -> None:
        scene.has_keys = True
        await set_config(scene.broker, "dafka.native.key", "address")
        address = await publish(server, 5)
        assert await scene.wait_for(5) == {address: whole(address, 5)}

    trio.run(scene.live, act)


def test_a_record_with_two_contents_is_told(scene: Scene) -> None:
    """The first one counts; what follows has a header that says so."""

    async def act(server: Standalone) -> None:
        async with native_producer(server, SUBJECT) as producer:
            address = producer.address
            for number in range(3):
                await producer.produce(content(address, number))
            await scene.wait_for(3)
            native = scene.broker.native
            assert native is not None
            (intake,) = native.intakes.values()
            intake.hearing.order.on_record(address, SUBJECT, 1, b"another", trio.current_time())
            await producer.produce(content(address, 3))
            assert await scene.wait_for(4) == {address: whole(address, 4)}
            intake.hearing.order.on_record(address, SUBJECT, 2, b"another", trio.current_time())
            await producer.produce(content(address, 4))
            assert await scene.wait_for(5) == {address: whole(address, 5)}
            assert (native.rewritten, native.lag) == (1, 0)
        marks = {number: told async for number, told in rewritten(scene)}
        assert marks == {0: None, 1: None, 2: None, 3: b"1", 4: b"1"}

    trio.run(scene.live, act)


def test_what_a_topic_does_not_take_is_its_lag(scene: Scene) -> None:
    async def act(server: Standalone) -> None:
        native = scene.broker.native
        assert native is not None
        async with native_producer(server, SUBJECT) as producer:
            address = producer.address
            await producer.produce(content(address, 0))
            await scene.wait_for(1)
            with scene.monkeypatch.context() as refusing:
                refusing.setattr(Partition, "append_native", refused)
                for number in range(1, 6):
                    await producer.produce(content(address, number))
                await until(lambda: native.lag == 5)
                # It is tried again and again meanwhile, and nothing of it is kept in between.
                assert await lags(native.intakes.values(), 100) == {5}
            assert await scene.wait_for(6) == {address: whole(address, 6)}
            await until(lambda: native.lag == 0)

    def refused(*_: object) -> None:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "a test")

    async def lags(intakes: Iterable[Intake], looks: int) -> set[int]:
        found = set()
        for _ in range(looks):
            found.add(sum(intake.lag for intake in intakes))
            await trio.sleep(0.01)
        return found

    trio.run(scene.live, act)


async def until(is_so: Callable[[], bool]) -> None:
    for _ in range(1000):
        if is_so():
            return
        await trio.sleep(0.02)
    raise AssertionError("it does not come to that")


def test_operators_are_told_of_subjects_and_addresses(scene: Scene) -> None:
    async def act(server: Standalone) -> None:
        tell = NativeRequestHandlers(scene.broker).handlers["mesh.subjects"]
        addresses = sorted([await publish(server, count) for count in (3, 4)])
        found = await scene.wait_for(7)
        entry = {
            "topic": "native",
            "subject": SUBJECT,
            "addresses": 2,
            "unknown": 0,
            "records": 7,
            "lag": 0,
            "waiting_bytes": 0,
            "lost": 0,
            "refused": 0,
            "rewritten": 0,
        }
        nothing = {"native": [], "published": [], "left_out": [], "known": 2, "most": 20_000}
        assert await tell({}) == nothing | {"native": [entry]}
        (told,) = (await tell({"addresses": True}))["native"]
        named = told.pop("named")
        assert told == entry
        assert [(one["address"], one["next"]) for one in named] == [(a, len(found[a])) for a in addresses]
        await set_subject(scene.broker, "")
        for _ in range(200):
            if not (await tell({}))["native"]:
                break
            await trio.sleep(0.05)
        assert await tell({}) == nothing

    trio.run(scene.live, act)


async def rewritten(scene: Scene) -> AsyncIterator[tuple[int, bytes | None]]:
    """Of each record its sequence, and what its header says."""
    for partition in scene.partitions:
        for batch in await partition.look(0, 1 << 20):
            for record in iter_records(batch):
                headers = dict(record.headers)
                yield int(headers[SEQUENCE_HEADER] or b""), headers.get(REWRITTEN_HEADER)


async def set_subject(broker: Broker, subject: str) -> None:
    await set_config(broker, "dafka.native.subject", subject)


async def set_config(broker: Broker, name: str, value: str) -> None:
    topic = broker.topics.get("native")
    assert topic is not None
    await broker.alter_topic(topic, lambda configs: {**configs, name: value})
