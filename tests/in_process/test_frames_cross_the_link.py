"""Gateway and store speak by frames on a link, also in one process: lose them, and the protocol must answer
for it."""

from pathlib import Path

import pytest
import trio
from kafka.protocol.producer import ProduceResponse

from mesh.links import Publisher
from tests.entries import entry_of
from tests.in_process.in_process import RawClient, produce_request, running
from wireproto.dafka.additions import Request
from wireproto.kafka.errors import ErrorCode
from wireproto.records.builder import build_batch

TOPICS = (("orders", 1),)


def outcome(response: ProduceResponse) -> tuple[int, int]:
    partition = response.responses[0].partition_responses[0]
    return partition.error_code, partition.base_offset


def batch(value: bytes) -> bytes:
    return bytes(build_batch([(b"k", value, [], 1_700_000_000_000)]))


def lose(monkeypatch: pytest.MonkeyPatch, message_id: bytes, chances: list[bool]) -> list[bytes]:
    """Lose messages of this id on every link: one per true in `chances`, and then by its last entry."""
    send = Publisher.send
    lost: list[bytes] = []

    def losing(self: Publisher, frames: list[bytes]) -> None:
        if bytes(frames[0][:1]) == message_id and (chances.pop(0) if len(chances) > 1 else chances[0]):
            lost.append(bytes(frames[0]))
        else:
            send(self, frames)

    monkeypatch.setattr(Publisher, "send", losing)
    return lost


def test_without_acknowledgement_frames_produce_times_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        lost = lose(monkeypatch, b"K", [True])
        async with (
            running(tmp_path, monkeypatch, topics=TOPICS) as (_, port),
            await RawClient.connect(port) as client,
        ):
            answer = await client.ask(produce_request(batch(b"v"), timeout_ms=300), ProduceResponse)
            assert outcome(answer)[0] == ErrorCode.REQUEST_TIMED_OUT
            assert lost, "no ACK crossed the link"

    trio.run(main)


@pytest.mark.parametrize(
    ("message_id", "chances"),
    [
        (b"M", [True, False, True, True, False]),
        (b"K", [True, True, False]),
        (b"O", [True, False]),
        (b"F", [True, False]),
    ],
    ids=["RECORD", "ACK", "OPEN", "FETCH"],
)
def test_what_is_lost_on_the_link_is_repaired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, message_id: bytes, chances: list[bool]
) -> None:
    async def main() -> None:
        if message_id == b"F":
            lose(monkeypatch, b"M", [True, False])
        lost = lose(monkeypatch, message_id, chances)
        async with (
            running(tmp_path, monkeypatch, topics=TOPICS) as (server, port),
            await RawClient.connect(port) as client,
        ):
            for number in range(8):
                await client.send(produce_request(batch(b"value %d" % number), timeout_ms=30_000), number)
            with trio.fail_after(30):
                answers = [outcome(await client.receive(ProduceResponse, 9)) for _ in range(8)]
            assert answers == [(0, number) for number in range(8)]
            assert lost
            (segment,) = list(server.store.ingest.heads().items())
            contents = await server.reader.read(
                (server.directories.store.incarnation,), segment[0], "orders", 0, 8, 1_000_000
            )
            assert [content[-12:] for content in contents] == [batch(b"value %d" % n)[-12:] for n in range(8)]

    trio.run(main)


def test_a_seal_by_another_life_fails_the_writer_and_the_partition_recovers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        monkeypatch.setattr("gateway.log.recovery.recovery.AGAIN_SECONDS", 0.01)
        async with (
            running(tmp_path, monkeypatch, topics=TOPICS) as (server, port),
            await RawClient.connect(port) as client,
        ):
            assert outcome(await client.ask(produce_request(batch(b"a")), ProduceResponse)) == (0, 0)
            (address,) = server.store.ingest.heads()
            store, entries = server.directories.store.incarnation, (seal_entry(address),)
            await server.requests.ask(store, lambda requester: Request(b"S", store, requester, entries))
            answer = await client.ask(produce_request(batch(b"b")), ProduceResponse)
            assert outcome(answer)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
            with trio.fail_after(10):
                while True:
                    code, offset = outcome(await client.ask(produce_request(batch(b"c")), ProduceResponse))
                    if code == 0:
                        break
                    assert code == ErrorCode.NOT_LEADER_OR_FOLLOWER
                    await trio.sleep(0.02)
            assert offset == 1

    trio.run(main)


def seal_entry(address: str) -> bytes:
    return entry_of(b"S", address)
