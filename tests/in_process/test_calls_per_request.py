"""How much Python runs for one small request: the synchronous path is measured in it, and it grows unseen."""

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType
from typing import Any, Self

import pytest
import trio
from kafka.protocol.consumer import OffsetCommitRequest, OffsetCommitResponse
from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse
from kafka.protocol.producer import ProduceResponse

from mesh.inside import Inbox
from mesh.links import Publisher
from mesh.store.committer import Fsync
from tests.in_process.in_process import RawClient, produce_request, running
from wireproto.records.builder import build_batch

OURS = tuple(str(Path(__file__).parents[2] / name) + "/" for name in ("gateway", "mesh", "wireproto"))

ROUNDS = 40
"""What runs now and then besides is in some of them, and never in all."""

MOST_PRODUCE = 295
MOST_COMMIT = 320
"""Calls of our Python functions: what was counted when this was written, and about five more in a hundred."""

RECORD_AND_ACK = 2
"""Messages on the link between gateway and store."""

LOADING_SECONDS = 30

BATCH = bytes(build_batch([(b"k", b"v" * 100, [], 1_700_000_000_000)]))

TOPICS = (("orders", 1),)


class Calls:
    """Calls of our functions in this thread, by name."""

    def __init__(self) -> None:
        self.by_name: dict[str, int] = {}

    def __enter__(self) -> Self:
        sys.setprofile(self._on_event)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _on_event(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(OURS):
            self.by_name[code.co_qualname] = self.by_name.get(code.co_qualname, 0) + 1

    @property
    def all(self) -> int:
        return sum(self.by_name.values())


async def fewest(ask: Callable[[], Awaitable[Any]]) -> Calls:
    """Of many requests, one after the other, the one for which least was called."""
    found: list[Calls] = []
    for _ in range(ROUNDS):
        with Calls() as calls:
            await ask()
        found.append(calls)
    return min(found, key=lambda calls: calls.all)


def described(calls: Calls) -> str:
    by_count = sorted(calls.by_name.items(), key=lambda entry: -entry[1])
    return "\n".join(f"{count:4} {name}" for name, count in by_count)


def commit_request() -> Any:
    topic = OffsetCommitRequest.OffsetCommitRequestTopic
    partition = topic.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=7, committed_leader_epoch=0, committed_metadata=""
    )
    return OffsetCommitRequest(
        version=8,
        group_id="group",
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=[topic(name="orders", partitions=[partition])],
    )


async def produce(client: RawClient) -> int:
    answer = await client.ask(produce_request(BATCH), ProduceResponse)
    return int(answer.responses[0].partition_responses[0].error_code)


async def commit(client: RawClient) -> int:
    answer = await client.ask(commit_request(), OffsetCommitResponse)
    return int(answer.topics[0].partitions[0].error_code)


async def coordinated(client: RawClient) -> None:
    """Until commits are taken: the first question makes the topic that they go to."""
    find = FindCoordinatorRequest(version=1, key="group", key_type=0)
    with trio.fail_after(LOADING_SECONDS):
        while (await client.ask(find, FindCoordinatorResponse)).error_code or await commit(client):
            pass


@pytest.mark.parametrize(
    ("ask", "most"), [(produce, MOST_PRODUCE), (commit, MOST_COMMIT)], ids=["produce", "commit"]
)
@pytest.mark.parametrize("fsync", [Fsync.ALWAYS, Fsync.NEVER], ids=["fsync", "no-fsync"])
def test_little_python_runs_for_a_request(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ask: Callable[[RawClient], Awaitable[int]],
    most: int,
    fsync: Fsync,
) -> None:
    async def main() -> None:
        async with (
            running(tmp_path, monkeypatch, topics=TOPICS, fsync=fsync) as (_, port),
            await RawClient.connect(port) as client,
        ):
            await coordinated(client)
            assert await ask(client) == 0
            calls = await fewest(lambda: ask(client))
            assert calls.all <= most, described(calls)
            assert calls.by_name[Publisher.send.__qualname__] == RECORD_AND_ACK
            # Nobody waits for a turn of the task of an inbox: one is woken for the record, and finds nothing.
            assert calls.by_name.get(Inbox.run.__qualname__, 0) <= 1

    trio.run(main)
