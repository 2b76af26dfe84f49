"""`dafka.Producer` and `dafka.Consumer` in a program, with a tower and a store that are processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

import dafka
from dafka.native import MAX_RECORD_BYTES, settings_of
from mesh.protocol.native_order import Delivery
from tests.peers.mesh import StoreProcess
from tests.peers.tower import TowerProcess

PATIENCE_SECONDS = 60
SUBJECT = "sensors"


@pytest.fixture
def tower(tmp_path: Path) -> Iterator[TowerProcess]:
    with TowerProcess(tmp_path / "tower") as process:
        yield process


@pytest.fixture
def store(tower: TowerProcess, tmp_path: Path) -> Iterator[StoreProcess]:
    process = StoreProcess(tmp_path / "one", "one", tower).start()
    yield process
    process.kill9()


def at(tower: TowerProcess) -> str:
    """As the option has it."""
    return f"{tower.address.host}:{tower.address.port_in}:{tower.address.port_out}"


async def heard(records: dafka.Consumer, count: int) -> list[Delivery]:
    found: list[Delivery] = []
    with trio.fail_after(PATIENCE_SECONDS):
        async for record in records:
            found.append(record)
            if len(found) == count:
                break
    return found


@pytest.mark.usefixtures("store")
def test_what_is_produced_is_heard_now_and_later(tower: TowerProcess) -> None:
    async def main() -> None:
        sent: list[Delivery] = []
        async with dafka.Consumer(SUBJECT, tower=at(tower)) as live:
            async with dafka.Producer(SUBJECT, tower=[at(tower)]) as producer:
                for number in range(3):
                    content = b"%d" % number
                    sequence = await producer.produce(content)
                    sent.append(Delivery(producer.address, sequence, content))
                await producer.drained()
                assert producer.unacknowledged == 0
            assert await heard(live, 3) == sent
            assert not live.has_more
        async with dafka.Consumer(SUBJECT, from_beginning=True, tower=at(tower)) as late:
            assert await heard(late, 3) == sent
        assert late.skipped == 0
        assert [one.sequence for one in sent] == [0, 1, 2]

    trio.run(main)


def test_what_nobody_keeps_is_said_at_the_end(tower: TowerProcess) -> None:
    async def main() -> None:
        async with dafka.Producer(SUBJECT, tower=at(tower), wait_seconds=0.1) as producer:
            await producer.produce(b"lost")
            assert producer.unacknowledged == 1

    with pytest.raises(dafka.NotAcknowledged, match=r"1 of 1 records were not acknowledged .* 'dafka store'"):
        trio.run(main)


def test_what_the_block_raises_leaves_it_as_it_is_and_at_once(tower: TowerProcess) -> None:
    async def main() -> None:
        async with dafka.Producer(SUBJECT, tower=at(tower), wait_seconds=1e9) as producer:
            await producer.produce(b"not waited for")
            raise LookupError("the sensor is gone")

    with pytest.raises(LookupError, match="the sensor is gone"):
        trio.run(main)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), LookupError("gone")])
def test_whatever_ends_a_block_leaves_it_in_no_group(tower: TowerProcess, error: BaseException) -> None:
    async def main() -> None:
        async with dafka.Consumer(SUBJECT, tower=at(tower)):
            raise error

    with pytest.raises(type(error)) as raised:
        trio.run(main)
    assert raised.value is error


def test_who_waits_when_a_block_ends_is_told(tower: TowerProcess) -> None:
    ended: list[str] = []

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            with pytest.raises(dafka.NotAcknowledged):
                await block(nursery)

    async def block(nursery: trio.Nursery) -> None:
        async with (
            dafka.Consumer("nothing", tower=at(tower)) as records,
            dafka.Producer(SUBJECT, tower=at(tower), wait_seconds=0) as producer,
        ):
            await producer.produce(b"x")
            nursery.start_soon(closed, "receive", records.receive)
            nursery.start_soon(closed, "drained", producer.drained)
            await trio.testing.wait_all_tasks_blocked()

    async def closed(what: str, wait: Callable[[], Awaitable[Any]]) -> None:
        with pytest.raises(trio.ClosedResourceError):
            await wait()
        ended.append(what)

    trio.run(main)
    assert sorted(ended) == ["drained", "receive"]


@pytest.mark.usefixtures("store")
def test_what_is_published_is_what_was_given(tower: TowerProcess) -> None:
    """Also where the caller uses its buffer again; and what cannot be a record takes no sequence."""

    async def main() -> None:
        async with dafka.Producer(SUBJECT, tower=at(tower)) as producer:
            with pytest.raises(TypeError, match="a record is bytes, not str: encode it"):
                await producer.produce("text")  # type: ignore[arg-type]
            with pytest.raises(ValueError, match="16777216 is the most"):
                await producer.produce(bytes(MAX_RECORD_BYTES + 1))
            buffer = bytearray(b"one")
            assert await producer.produce(buffer) == 0
            buffer[:] = b"two"
        async with dafka.Consumer(SUBJECT, from_beginning=True, tower=at(tower)) as records:
            assert [record.content for record in await heard(records, 1)] == [b"one"]

    trio.run(main)


@pytest.mark.parametrize(
    ("subject", "options", "told"),
    [
        ("", {}, "is no subject"),
        ("a\0b", {}, "is no subject"),
        ("x" * 256, {}, "is no subject"),
        ("t", {"tower": "a:b"}, "is not HOST or HOST:IN:OUT"),
        ("t", {"tower": ["127.0.0.1", "b:c"]}, "is not HOST or HOST:IN:OUT"),
        ("t", {"mesh_listen": "127.0.0.1:70000"}, "70000"),
        ("t", {"stores": 0}, "1 to 256 can be waited for"),
        ("t", {"wait_seconds": -1}, "nobody can wait for so long"),
        ("t", {"wait_seconds": float("nan")}, "nobody can wait for so long"),
    ],
)
def test_what_cannot_be_is_refused_at_once(subject: str, options: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        dafka.Producer(subject, **options)


def test_what_is_not_given_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAFKA_TOWER", "one:1:2 two:3:4")
    assert [tower.host for tower in settings_of({}).tower] == ["one", "two"]
    assert [tower.host for tower in settings_of({"tower": "three"}).tower] == ["three"]
    assert settings_of({"mesh_keys": Path("keys")}).mesh_keys == Path("keys")
    with pytest.raises(TypeError, match="'towers' is no option of the mesh"):
        dafka.Consumer("t", towers="one")  # type: ignore[call-arg]


def test_each_has_one_block(tower: TowerProcess) -> None:
    producer = dafka.Producer(SUBJECT, tower=at(tower))
    consumer = dafka.Consumer(SUBJECT, tower=at(tower))

    async def main() -> None:
        for _ in range(2):
            with pytest.raises(RuntimeError, match="a producer is used in its block"):
                await producer.produce(b"x")
            with pytest.raises(RuntimeError, match="a consumer is used in its block"):
                await consumer.receive()
            if not producer.has_ended:
                async with producer, consumer:
                    pass
        with pytest.raises(RuntimeError, match="make another one"):
            async with producer:
                pass

    trio.run(main)


def test_who_only_imports_the_package_loads_no_zeromq() -> None:
    program = (
        "import sys, dafka; assert 'zmq' not in sys.modules; dafka.Producer; assert 'zmq' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=PATIENCE_SECONDS)
    with pytest.raises(AttributeError, match="no attribute 'Broker'"):
        dafka.Broker  # noqa: B018
