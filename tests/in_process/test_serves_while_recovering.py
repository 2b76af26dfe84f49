"""A start with many partitions serves those that are recovered, and first those that clients ask for. A batch
waits a moment for its partition, and what its client sends behind it waits, too.
"""

from functools import partial
from pathlib import Path

import pytest
import trio
from kafka.protocol.producer import ProduceResponse

from dafka.processes import life
from gateway.log.partition import Partition
from gateway.log.recovery import recovery
from gateway.log.recovery.one_partition import PartitionRecovery
from gateway.log.recovery.recovery import Recovery
from gateway.log.recovery.verification import Verification
from gateway.produce import coming
from gateway.produce.opening import MAX_OPENED_AT_ONCE_BYTES
from tests.clients.stored import stored_records
from tests.in_process.in_process import RawClient, produce_request, running
from wireproto.records.builder import build_batch

NOT_LEADER = 6
PARTITIONS = 40
ASKED = PARTITIONS - 1


def record(partition: int, number: int) -> bytes:
    return build_batch([(b"key", b"%d of %d" % (number, partition), [], 1)])


async def produce(client: RawClient, partition: int, number: int) -> tuple[int, int]:
    """(error, base offset)."""
    request = produce_request(record(partition, number), partition=partition)
    answer = await client.ask(request, ProduceResponse)
    (part,) = answer.responses[0].partition_responses
    return part.error_code, part.base_offset


def test_who_asks_need_not_wait_for_all_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topics = (("orders", PARTITIONS),)
    held = trio.Event()
    verify = PartitionRecovery.verify

    async def verify_one(attempt: PartitionRecovery, verification: Verification) -> None:
        if attempt.partition.index != ASKED:
            await held.wait()
        await verify(attempt, verification)

    async def main() -> None:
        async with (
            running(tmp_path, monkeypatch, topics=topics) as (_, port),
            await RawClient.connect(port) as client,
        ):
            for index in range(PARTITIONS):
                assert await produce(client, index, 0) == (0, 0)
        monkeypatch.setattr(life, "RECOVERED_SECONDS", 0.0)
        monkeypatch.setattr(recovery, "PARTITIONS_AT_ONCE", 4)
        monkeypatch.setattr(coming, "COMING_SECONDS", 0.02)
        monkeypatch.setattr(PartitionRecovery, "verify", verify_one)
        async with running(tmp_path, monkeypatch, topics=topics) as (_, port):
            async with await RawClient.connect(port) as client:
                with trio.fail_after(20):
                    while (answer := await produce(client, ASKED, 1)) != (0, 1):
                        assert answer[0] == NOT_LEADER
                for index in range(ASKED):
                    assert (await produce(client, index, 1))[0] == NOT_LEADER
                held.set()
                with trio.fail_after(20):
                    for index in range(ASKED):
                        while (answer := await produce(client, index, 1)) != (0, 1):
                            assert answer[0] == NOT_LEADER
            for index in range(PARTITIONS):
                stored = partial(stored_records, f"127.0.0.1:{port}", "orders", index)
                found = [(offset, one.value) for offset, one in await trio.to_thread.run_sync(stored)]
                assert found == [(n, b"%d of %d" % (n, index)) for n in (0, 1)]

    trio.run(main)


def test_what_a_client_sends_on_does_not_overtake_what_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The partition serves soon after the first batch came. Its producer has no id, and has sent another one
    meanwhile, which takes longer to be looked through.
    """
    small = record(0, 0)
    large = build_batch([(b"key", bytes(2 * MAX_OPENED_AT_ONCE_BYTES), [], 1)])
    asked_for = trio.Event()
    recover_one = Recovery._recover_one

    async def recover_what_is_asked_for(
        recovery: Recovery, attempt: PartitionRecovery, verification: Verification
    ) -> None:
        await asked_for.wait()
        await recover_one(recovery, attempt, verification)

    async def main() -> None:
        topics = (("orders", 1),)
        async with running(tmp_path, monkeypatch, topics=topics):
            pass
        monkeypatch.setattr(life, "RECOVERED_SECONDS", 0.0)
        monkeypatch.setattr(coming, "COMING_SECONDS", 20.0)
        monkeypatch.setattr(Recovery, "_recover_one", recover_what_is_asked_for)
        monkeypatch.setattr(Partition, "asked_for", lambda _partition: asked_for.set())
        async with (
            running(tmp_path, monkeypatch, topics=topics) as (_, port),
            await RawClient.connect(port) as client,
        ):
            await client.send(produce_request(small, timeout_ms=60_000))
            await client.send(produce_request(large, timeout_ms=60_000))
            with trio.fail_after(20):
                answers = [(await client.receive(ProduceResponse, 9)).responses[0] for _ in range(2)]
            parts = [answer.partition_responses[0] for answer in answers]
            assert [(part.error_code, part.base_offset) for part in parts] == [(0, 0), (0, 1)]

    trio.run(main)
