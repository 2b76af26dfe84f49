"""Which records somebody may write and read: one topic of each right in each request (`rights`)."""

from __future__ import annotations

from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest
from kafka.protocol.producer import ProduceRequest

from tests.differential.batches import batch_of
from tests.differential.case import as_each
from tests.differential.cases import list_offsets, offset_for_leader_epoch
from tests.differential.principals import CLUSTER_RIGHTS, WITH_RIGHTS
from tests.differential.requests import fetch, fetch_partition, produce
from tests.differential.rights import both, missing, own
from tests.differential.side import Side

REPLICA_IN_STATE_SINCE = 15
WITH_CLUSTER_ACTION = (
    *WITH_RIGHTS,
    *(user for user in CLUSTER_RIGHTS if user.endswith(("-all", "-cluster-action"))),
)
FOLLOWER = 4711
DEBUGGING_CONSUMER = -2


@as_each(ProduceRequest)
def written(side: Side, version: int) -> None:
    """The offsets of what is appended depend on what was before: each version has topics of its own."""
    wanted = [name for two in zip(own(side), missing(side), strict=True) for name in two]
    side.ask(produce(side, version, {name: {0: batch_of(b"x"), 9: batch_of(b"x")} for name in wanted}), "all")
    side.ask(produce(side, version, {name: {0: b"nonsense"} for name in wanted}), "bad batches")


@as_each(ProduceRequest)
def written_unanswered(side: Side, version: int) -> None:
    """With acks=0 an error closes the connection."""
    for number, name in enumerate(own(side)):
        side.tell(produce(side, version, {name: {0: batch_of(b"y")}}, acks=0), f"topic {number}")
        side.ask(produce(side, version, {name: {9: batch_of(b"y")}}), f"topic {number}, after it")
        side.hang_up()


@as_each(FetchRequest)
def read(side: Side, version: int) -> None:
    wanted = {name: [fetch_partition(0, 0), fetch_partition(9, 0)] for name in both(side)}
    side.ask(fetch(side, version, wanted), "as a consumer")


@as_each(FetchRequest, range(4, REPLICA_IN_STATE_SINCE), principals=WITH_CLUSTER_ACTION)
def followed(side: Side, version: int) -> None:
    for replica in (FOLLOWER, DEBUGGING_CONSUMER):
        request = fetch(side, version, {name: [fetch_partition(0, 0)] for name in both(side)})
        request.replica_id = replica
        side.ask(request, f"as replica {replica}")


@as_each(ListOffsetsRequest)
def offsets_seen(side: Side, version: int) -> None:
    parts = [list_offsets.partition(0, -1), list_offsets.partition(9, -2)]
    list_offsets.ask(side, version, dict.fromkeys(both(side), parts))


@as_each(ListOffsetsRequest)
def offsets_seen_twice(side: Side, version: int) -> None:
    twice = [list_offsets.partition(0, -1), list_offsets.partition(0, -2)]
    list_offsets.ask(side, version, dict.fromkeys(both(side), twice))


@as_each(OffsetForLeaderEpochRequest, principals=WITH_CLUSTER_ACTION)
def epochs_seen(side: Side, version: int) -> None:
    parts = [offset_for_leader_epoch.partition(0, 0), offset_for_leader_epoch.partition(9, 0)]
    offset_for_leader_epoch.ask(side, version, dict.fromkeys(both(side), parts))
