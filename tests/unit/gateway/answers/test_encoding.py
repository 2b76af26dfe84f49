"""Large requests and large answers leave the loop to others, and are answered like small ones."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import trio

from gateway.answers import encoding as answers
from gateway.answers.kept import AnswerCache
from gateway.api import metadata
from tests.unit.gateway.api.asking import FakeBroker, ask, ask_async, request_class

Metadata, ListOffsets, Epochs = request_class(3), request_class(2), request_class(23)
Find, Create, Delete, Configs = request_class(10), request_class(19), request_class(20), request_class(32)


def requests(count: int) -> list[Any]:
    """One request of each API that takes a list, with `count` elements that do not exist."""
    names = [f"n{index}" for index in range(count)]
    partition = ListOffsets.ListOffsetsTopic.ListOffsetsPartition
    epoch = Epochs.OffsetForLeaderTopic.OffsetForLeaderPartition
    return [
        Metadata(
            version=12,
            topics=[Metadata.MetadataRequestTopic(name=name, topic_id=None) for name in names],
            allow_auto_topic_creation=False,
        ),
        ListOffsets(
            version=11,
            replica_id=-1,
            isolation_level=0,
            timeout_ms=0,
            topics=[
                ListOffsets.ListOffsetsTopic(
                    name="t",
                    partitions=[partition(partition_index=index, timestamp=-1) for index in range(count)],
                )
            ],
        ),
        Epochs(
            version=4,
            replica_id=-1,
            topics=[
                Epochs.OffsetForLeaderTopic(
                    topic="t",
                    partitions=[
                        epoch(partition=index, current_leader_epoch=-1, leader_epoch=0)
                        for index in range(count)
                    ],
                )
            ],
        ),
        Find(version=4, key_type=0, coordinator_keys=names),
        Create(
            version=7,
            timeout_ms=1000,
            validate_only=True,
            topics=[
                Create.CreatableTopic(
                    name=f"{name}/", num_partitions=1, replication_factor=1, assignments=[], configs=[]
                )
                for name in names
            ],
        ),
        Delete(version=5, topic_names=names, timeout_ms=1000),
        Configs(
            version=4,
            resources=[
                Configs.DescribeConfigsResource(resource_type=2, resource_name=name, configuration_keys=None)
                for name in names
            ],
        ),
    ]


@pytest.mark.parametrize("index", range(len(requests(1))))
def test_a_large_answer_is_encoded_in_a_worker_thread_and_the_same(
    index: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []
    in_thread = trio.to_thread.run_sync

    async def spy(encode: Callable[[], bytes]) -> bytes:
        def observed() -> bytes:
            threads.append(threading.current_thread())
            return encode()

        return await in_thread(observed)

    monkeypatch.setattr(trio.to_thread, "run_sync", spy)
    small = ask(FakeBroker(), requests(50)[index])
    assert threads == []
    monkeypatch.setattr(answers, "MANY_ELEMENTS", 49)
    monkeypatch.setattr(metadata, "_cache", AnswerCache())
    assert ask(FakeBroker(), requests(50)[index]) == small
    (thread,) = threads
    assert thread is not threading.main_thread()


@pytest.mark.parametrize("index", range(len(requests(1))))
def test_others_have_their_turn_while_a_large_request_is_worked_off(index: int) -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other)
            await ask_async(FakeBroker(), requests(10 * answers.BREATH)[index])
            nursery.cancel_scope.cancel()

    trio.run(main)
    assert turns >= 5  # one for each breath but the first and the last
