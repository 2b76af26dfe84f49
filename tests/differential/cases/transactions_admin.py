"""What tools see of transactions: their coordinators, states and producers, and DeleteRecords beside them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from kafka.protocol.admin import (
    DeleteRecordsRequest,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)
from kafka.protocol.metadata import FindCoordinatorRequest

from tests.differential.batches import batch_of
from tests.differential.case import case
from tests.differential.cases.delete_records import look as look_at_ends
from tests.differential.cases.delete_records import request as delete_records
from tests.differential.cases.describe_producers import of as describe_producers
from tests.differential.cases.find_coordinator import MANY_KEYS, TRANSACTION
from tests.differential.cases.find_coordinator import ask as find_coordinator
from tests.differential.side import Side
from tests.differential.transactions import (
    ABORT,
    COMMIT,
    RESULTS,
    Producer,
    begun,
    held,
    own_topic,
    read_both,
)

TV1, TV2 = 3, 5
SINCE = {"duration_filter": 1, "transactional_id_pattern": 2}
STATES = ["Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"]

# ------------------------------------------------------------------------------------------- FindCoordinator


@case(FindCoordinatorRequest, range(1, 7))
def coordinator(side: Side, version: int) -> None:
    for label, key in {"known": begun(side).name, "unknown": side.own_name("no-such"), "empty": ""}.items():
        find_coordinator(side, version, [key], TRANSACTION, label)


@case(FindCoordinatorRequest, MANY_KEYS)
def several_coordinators(side: Side, version: int) -> None:
    find_coordinator(side, version, ["b", "", "a", "a"], TRANSACTION, "four")
    find_coordinator(side, version, [], TRANSACTION, "none")


# -------------------------------------------------------------------------------------- DescribeTransactions


@case(DescribeTransactionsRequest)
def each_state(side: Side, version: int) -> None:
    topic, more = own_topic(side, "t", 3), own_topic(side, "u")
    producer = begun(side)
    producer.describe("empty")
    producer.add({topic: [2, 0], more: [0]})
    producer.send(topic)
    producer.describe("ongoing")
    for end_version in (TV1, TV2):
        for result, committed in RESULTS.items():
            one = begun(side, f"{result}{end_version}")
            one.add({topic: [1]})
            one.finish(committed, version=end_version)
            one.describe("complete")
            half = held(side, f"half-{result}{end_version}", topic, committed, version=end_version)
            half.describe("prepared")


@case(DescribeTransactionsRequest)
def what_is_left_to_mark(side: Side, version: int) -> None:
    """Once the end is decided, the partitions that have no marker yet."""
    stuck, done = own_topic(side, "stuck"), own_topic(side, "done", 2)
    producer = begun(side)
    producer.mark(ABORT, {stuck: [0]}, "hold", coordinator_epoch=1_000_000)
    producer.add({stuck: [0], done: [0, 1]})
    producer.end(COMMIT)
    for partition in (0, 1):
        producer.await_marker(done, partition)
    producer.describe("one is left")
    read_both(side, done, "marked")


@case(DescribeTransactionsRequest)
def several(side: Side, version: int) -> None:
    first, second = begun(side, "first"), begun(side, "second")
    wanted = [second.name, side.own_name("no-such"), "", first.name, first.name]
    side.ask(DescribeTransactionsRequest(version=version, transactional_ids=wanted), "five")


# ------------------------------------------------------------------------------------------ ListTransactions


def listing(version: int, states: list[str], producer_ids: Sequence[int], **fields: Any) -> Any:
    known = {name: value for name, value in fields.items() if version >= SINCE[name]}
    return ListTransactionsRequest(
        version=version, state_filters=states, producer_id_filters=list(producer_ids), **known
    )


def one_of_each(side: Side) -> list[Producer]:
    """A producer in each state, in the order of STATES."""
    topic = own_topic(side, "t")
    empty, ongoing = begun(side, "empty"), begun(side, "ongoing")
    ongoing.add({topic: [0]})
    preparing = [held(side, f"prepare-{name}", topic, result) for name, result in RESULTS.items()]
    complete = [begun(side, f"complete-{name}") for name in RESULTS]
    for producer, committed in zip(complete, RESULTS.values(), strict=True):
        producer.add({own_topic(side, f"t-{committed}".lower()): [0]})
        producer.finish(committed)
    return [empty, ongoing, *preparing, *complete]


@case(ListTransactionsRequest)
def lists(side: Side, version: int) -> None:
    producers = one_of_each(side)
    ids = [producer.id for producer in producers]

    def ask(label: str, states: list[str], numbers: list[int] | None = None, **fields: Any) -> None:
        """Of the producers with these numbers: others of the server are none of this case's business."""
        wanted = range(len(ids)) if numbers is None else numbers
        side.ask_with_ids(
            lambda known: listing(version, states, [known[n] for n in wanted], **fields), ids, label
        )

    ask("all states", [])
    for state in STATES:
        ask(state, [state])
    ask("two states", ["Ongoing", "Empty"])
    ask("odd states", ["Dead", "PrepareEpochFence", "ongoing", "", "Nonsense", "Ongoing"])
    ask("unknown states alone", ["Nonsense", "Nonsense"])
    ask("two producers", [], [0, 4])
    ask("one producer twice", ["Ongoing"], [1, 1])
    if version >= SINCE["duration_filter"]:
        for duration in (-1, 0, 3_600_000, 2**63 - 1):
            ask(f"longer than {duration}", [], duration_filter=duration)


@case(ListTransactionsRequest, [2])
def lists_by_pattern(side: Side, version: int) -> None:
    """The whole of a name has to match."""
    producers = one_of_each(side)
    ids = [producer.id for producer in producers]
    name = re.escape(producers[1].name)

    def ask(label: str, pattern: str | None) -> None:
        side.ask_with_ids(
            lambda known: listing(version, [], known, transactional_id_pattern=pattern), ids, label
        )

    patterns = {
        "null": None,
        "empty": "",
        "one name": name,
        "its beginning": name[:-2],
        "beginning and more": f"{name[:-2]}.*",
        "any": ".*",
        "two": f"{name}|.*-empty-v2",
        "none": "no-such",
        "upper case": name.upper(),
        "case does not matter": f"(?i){name.upper()}",
        "a class": "[a-z0-9A-Z-]+",
        "broken": "a(",
        "broken class": "[",
        "broken repetition": "*",
    }
    for label, pattern in patterns.items():
        ask(label, pattern)


# ----------------------------------------------------------------------------------------- DescribeProducers


@case(DescribeProducersRequest)
def producers(side: Side, version: int) -> None:
    topic = own_topic(side, "t", 2)
    request = describe_producers({topic: [0, 1]})
    first, second = begun(side, "first"), begun(side, "second")
    side.put(topic, batch_of(b"plain"))
    first.add({topic: [0, 1]})
    side.ask(request, "added, without records")
    first.send(topic, b"a", b"b")
    second.add({topic: [0]})
    second.send(topic)
    first.send(topic, sequence=2)
    side.ask(request, "two are open")
    first.finish(ABORT)
    side.ask(request, "the first ended, TV1")
    second.finish(COMMIT, version=TV2)
    side.ask(request, "the second ended, TV2")
    second.add({topic: [0]})
    second.send(topic)
    side.ask(request, "the second goes on")


# --------------------------------------------------------------------------------------------- DeleteRecords


@case(DeleteRecordsRequest)
def deletes_into_an_open_one(side: Side, version: int) -> None:
    """Up to the high watermark: its first records may go, and the last stable offset with them."""
    topic = own_topic(side, "t")
    producer = begun(side)
    side.put(topic, batch_of(b"plain"))
    producer.add({topic: [0]})
    for sequence in range(4):
        producer.send(topic, sequence=sequence)
    for offset in (1, 3, -1):
        side.ask(delete_records(version, (topic, {0: offset})), f"to {offset}")
        look_at_ends(side, topic, f"to {offset}", 0)
        read_both(side, topic, f"to {offset}", offset=5)
        side.ask(describe_producers({topic: [0]}), f"to {offset}, producers")
    producer.send(topic, sequence=4, label="it goes on")
    producer.finish(ABORT)
    look_at_ends(side, topic, "ended", 0)
    read_both(side, topic, "ended", offset=5)


@case(DeleteRecordsRequest)
def deletes_into_an_aborted_one(side: Side, version: int) -> None:
    """The list keeps its first offset, below the log's start."""
    topic = own_topic(side, "t")
    producer = begun(side)
    producer.add({topic: [0]})
    for sequence in range(3):
        producer.send(topic, sequence=sequence)
    producer.finish(ABORT)
    side.put(topic, batch_of(b"plain"))
    for offset in (1, 3, 4):
        side.ask(delete_records(version, (topic, {0: offset})), f"to {offset}")
        read_both(side, topic, f"to {offset}", offset=offset)
