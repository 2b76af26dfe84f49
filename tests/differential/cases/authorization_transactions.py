"""Who may be which transactional producer: one transactional id of each right in each request (`rights`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kafka.protocol.admin import DescribeTransactionsRequest, ListTransactionsRequest
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
    WriteTxnMarkersRequest,
)

from tests.differential import transactions
from tests.differential.case import as_each
from tests.differential.principals import CLUSTER_RIGHTS, EVERYBODY, WITH_RIGHTS
from tests.differential.requests import produce
from tests.differential.rights import RIGHTS, both, missing, names, own_names, there
from tests.differential.side import NO_ERROR, Side

INTERNAL = "__consumer_offsets"
WITH_CLUSTER_ACTION = (
    *WITH_RIGHTS,
    *(user for user in CLUSTER_RIGHTS if user.endswith(("-all", "-cluster-action"))),
)
VERSIONS_OF_STATES = range(3)


def producers(side: Side, wanted: list[str]) -> list[int]:
    """The ids of producers with these transactional ids, which have epoch 0 and nothing open."""
    made = []
    for name in wanted:
        answer = side.for_set_up.ask(transactions.init_producer_id(name, 4))
        if answer.error_code != NO_ERROR:
            raise RuntimeError(f"{side.server.name} refuses a producer of the set-up: {answer}")
        made.append(side.chosen_producer(answer.producer_id))
    return made


def as_owners(side: Side, build: Callable[[str, int], Any], wanted: list[str]) -> None:
    """Asks once with each right's transactional id and its producer."""
    for right, name, producer in zip(RIGHTS, wanted, producers(side, wanted), strict=True):

        def request(ids: Sequence[int], name: str = name) -> Any:
            return build(name, ids[0])

        side.ask_with_ids(request, [producer], right)


@as_each(InitProducerIdRequest, principals=EVERYBODY)
def begun(side: Side, version: int) -> None:
    for right, name in zip(RIGHTS, own_names(side), strict=True):
        answer = side.ask(transactions.init_producer_id(name, version), right)
        if getattr(answer, "producer_id", -1) >= 0:
            side.chosen_producer(answer.producer_id)
    side.ask(transactions.init_producer_id("", version), "an empty name")
    side.ask(transactions.init_producer_id(None, version), "idempotent")


@as_each(AddPartitionsToTxnRequest, principals=WITH_CLUSTER_ACTION)
def partitions_added(side: Side, version: int) -> None:
    topics = {name: [0] for name in both(side)}
    if version < transactions.ADD_SEVERAL:
        as_owners(
            side,
            lambda name, i: transactions.add_partitions(name, i, 0, topics, version=version),
            own_names(side),
        )
        return
    for verify in (False, True):
        as_owners_of_all(side, topics, version, verify=verify)


def as_owners_of_all(side: Side, topics: dict[str, list[int]], version: int, *, verify: bool) -> None:
    wanted = own_names(side, f"verify-{verify}")

    def request(ids: Sequence[int]) -> Any:
        found = [(name, i, 0, topics) for name, i in zip(wanted, ids, strict=True)]
        return transactions.add_as_broker(*found, version=version, verify=verify)

    side.ask_with_ids(request, producers(side, wanted), f"verify {verify}")


@as_each(AddPartitionsToTxnRequest, range(transactions.ADD_SEVERAL))
def partitions_added_one_by_one(side: Side, version: int) -> None:
    """By who may be this producer, to each topic."""
    (name,) = own_names(side)[:1]
    (producer,) = producers(side, [name])
    for number, topic in enumerate([*both(side), INTERNAL]):

        def request(ids: Sequence[int], topic: str = topic) -> Any:
            return transactions.add_partitions(name, ids[0], 0, {topic: [0]}, version=version)

        side.ask_with_ids(request, [producer], f"topic {number}")


@as_each(AddOffsetsToTxnRequest)
def offsets_added(side: Side, version: int) -> None:
    """Each transactional id with the first group; the first with each group."""
    group = names(side, "group")[0]
    wanted = own_names(side)
    as_owners(side, lambda name, i: transactions.add_offsets(name, i, 0, group, version=version), wanted)
    (producer,) = producers(side, [own_names(side, "more")[0]])
    for right, other in zip(RIGHTS, names(side, "group"), strict=True):

        def request(ids: Sequence[int], other: str = other) -> Any:
            return transactions.add_offsets(own_names(side, "more")[0], ids[0], 0, other, version=version)

        side.ask_with_ids(request, [producer], f"group {right}")


@as_each(EndTxnRequest)
def ended(side: Side, version: int) -> None:
    as_owners(side, lambda name, i: transactions.end(name, i, 0, False, version=version), own_names(side))


@as_each(TxnOffsetCommitRequest)
def offsets_committed(side: Side, version: int) -> None:
    """Each transactional id with the first group; the first with each group; all topics."""
    topics = {name: {0: 1, 9: 1} for name in both(side)}
    group = names(side, "group")[0]

    def build(name: str, producer: int) -> Any:
        return transactions.commit_offsets(name, producer, 0, group, topics, version=version)

    as_owners(side, build, own_names(side))
    (producer,) = producers(side, [own_names(side, "more")[0]])
    for right, other in zip(RIGHTS, names(side, "group"), strict=True):

        def request(ids: Sequence[int], other: str = other) -> Any:
            first = own_names(side, "more")[0]
            return transactions.commit_offsets(first, ids[0], 0, other, topics, version=version)

        side.ask_with_ids(request, [producer], f"group {right}")


@as_each(WriteTxnMarkersRequest, principals=EVERYBODY)
def markers(side: Side, version: int) -> None:
    for label, name in {"there": there(side)[0], "missing": missing(side)[0]}.items():
        one = transactions.marker(transactions.STRANGER, 0, False, {name: [0]})
        side.ask(transactions.write_markers(one, version=version), label, patience=2)


@as_each(ProduceRequest)
def produced(side: Side, version: int) -> None:
    """Each transactional id, to the first topic; without an id."""
    topic = there(side)[0]

    def build(name: str | None, producer: int) -> Any:
        records = transactions.inside(b"x", producer_id=producer, epoch=0, sequence=0)
        return produce(side, version, {topic: {0: records}}, transactional_id=name)

    as_owners(side, build, own_names(side))
    side.ask(build(None, transactions.STRANGER), "no transactional id")


@as_each(DescribeTransactionsRequest)
def described(side: Side, version: int) -> None:
    """Each has an open transaction over all topics."""
    wanted = own_names(side)
    found = producers(side, wanted)
    for name, producer in zip(wanted, found, strict=True):
        topics = {topic: [0] for topic in there(side)}
        answer = side.for_set_up.ask(transactions.add_partitions(name, producer, 0, topics))
        errors = {part.partition_error_code for topic in answer.results_by_topic_v3_and_below
                  for part in topic.results_by_partition}  # fmt: skip
        if errors != {NO_ERROR}:
            raise RuntimeError(f"{side.server.name} refuses a transaction of the set-up: {answer}")
    side.ask(DescribeTransactionsRequest(version=version, transactional_ids=[*wanted, *missing(side), ""]))
    for name, producer in zip(wanted, found, strict=True):
        side.for_set_up.ask(transactions.end(name, producer, 0, False, version=3))


@as_each(ListTransactionsRequest)
def listed(side: Side, version: int) -> None:
    """Other cases' are there too: what is compared is which of ours are among them."""
    mine = set(own_names(side))
    producers(side, own_names(side))
    answer = side.ask(ListTransactionsRequest(version=version, state_filters=[], producer_id_filters=[]))
    answer.transaction_states = [one for one in answer.transaction_states if one.transactional_id in mine]
