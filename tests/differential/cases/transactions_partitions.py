"""AddPartitionsToTxn 0-3 as clients ask, 4-5 as brokers do."""

from __future__ import annotations

from kafka.protocol.producer import AddPartitionsToTxnRequest

from tests.differential.case import case
from tests.differential.side import Side
from tests.differential.transactions import (
    COMMIT,
    RESULTS,
    STRANGER,
    Partitions,
    add_as_broker,
    add_partitions,
    begun,
    held,
    own_topic,
)

AS_CLIENT, AS_BROKER = range(4), range(4, 6)


@case(AddPartitionsToTxnRequest, AS_CLIENT)
def adds(side: Side, version: int) -> None:
    topic, other = side.topic("t", partitions=3), side.topic("u")
    producer = begun(side)
    producer.add({topic: [2, 0]}, version=version)
    producer.describe("two")
    producer.add({topic: [2, 0]}, "the same again", version=version)
    producer.add({topic: [1, 2], other: [0]}, "two more", version=version)
    producer.add({topic: [1, 1]}, "one twice", version=version)
    producer.describe("four")
    producer.add({}, "nothing", version=version)
    producer.add({topic: []}, "no partitions", version=version)
    producer.finish(COMMIT)
    producer.describe("none")


@case(AddPartitionsToTxnRequest, AS_CLIENT)
def adds_nothing_first(side: Side, version: int) -> None:
    """Whether a transaction has begun by it."""
    topic = side.topic("t")
    nothing: dict[str, Partitions] = {"no topics": {}, "no partitions": {topic: []}}
    for label, wanted in nothing.items():
        producer = begun(side, label.replace(" ", "-"))
        producer.add(wanted, label, version=version)
        producer.describe(label)


@case(AddPartitionsToTxnRequest, AS_CLIENT)
def unknown_partitions(side: Side, version: int) -> None:
    """One of them, and none is added: OPERATION_NOT_ATTEMPTED beside it."""
    topic, nowhere = side.topic("t", partitions=2), side.name("nowhere")
    producer = begun(side)
    for label, wanted in {
        "a topic beside one": {topic: [0, 1], nowhere: [0, 1]},
        "a topic alone": {nowhere: [0]},
        "a partition beside one": {topic: [0, 2]},
        "a partition alone": {topic: [-1]},
        "an odd name": {"a/b": [0], topic: [0]},
        "no name": {"": [0]},
    }.items():
        producer.add(wanted, label, version=version)
    producer.describe("still empty")


@case(AddPartitionsToTxnRequest, AS_CLIENT)
def internal_topics(side: Side, version: int) -> None:
    topic = side.topic("t")
    producer = begun(side)
    for name in ("__consumer_offsets", "__transaction_state"):
        producer.add({name: [0], topic: [0]}, name, version=version)
    producer.describe()


@case(AddPartitionsToTxnRequest, AS_CLIENT)
def as_another(side: Side, version: int) -> None:
    wanted = {side.topic("t"): [0]}
    producer, other = begun(side), begun(side, "other")
    producer.init("epoch 1")
    side.ask(add_partitions(side.own_name("no-such"), STRANGER, 0, wanted, version=version), "unknown")
    side.ask(add_partitions("", STRANGER, 0, wanted, version=version), "the empty name")
    side.ask(add_partitions(producer.name, STRANGER, 1, wanted, version=version), "an unknown id")
    side.ask(add_partitions(producer.name, -1, -1, wanted, version=version), "no id")
    other.ask(lambda i: add_partitions(producer.name, i, 1, wanted, version=version), "another's id")
    for epoch in (0, 2, -1):
        producer.add(wanted, f"epoch {epoch}", version=version, epoch=epoch)
    producer.add({side.name("nowhere"): [0]}, "epoch 0, no such topic", version=version, epoch=0)
    producer.describe("still empty")


@case(AddPartitionsToTxnRequest, AS_CLIENT)
def while_one_ends(side: Side, version: int) -> None:
    """As long as markers are not written: CONCURRENT_TRANSACTIONS."""
    topic, more = own_topic(side, "t"), side.topic("more")
    for end_version in (3, 5):
        for result, committed in RESULTS.items():
            producer = held(side, f"{result}{end_version}", topic, committed, version=end_version)
            producer.add({topic: [0]}, "the same", version=version)
            producer.add({more: [0]}, "another", version=version)
            producer.add({more: [0]}, "with the epoch before", version=version, epoch=producer.epoch - 1)
            producer.describe("under way")


@case(AddPartitionsToTxnRequest, AS_CLIENT)
def after_each_end(side: Side, version: int) -> None:
    topic = side.topic("t")
    for end_version in (3, 5):
        for result, committed in RESULTS.items():
            producer = begun(side, f"{result}{end_version}")
            producer.add({topic: [0]}, version=version)
            producer.finish(committed, version=end_version)
            producer.add({topic: [0]}, "with epoch 0", version=version, epoch=0)
            producer.add({topic: [0]}, "with epoch 1", version=version, epoch=1)
            producer.describe()


@case(AddPartitionsToTxnRequest, AS_BROKER)
def verifies(side: Side, version: int) -> None:
    topic, other = side.topic("t", partitions=2), side.topic("u")
    producer = begun(side)

    def ask(label: str, wanted: Partitions, epoch: int | None = None) -> None:
        producer.add_as_broker(wanted, label, version=version, epoch=epoch, verify=True)

    ask("nothing is open", {topic: [0]})
    producer.add({topic: [0]})
    ask("one that is in it", {topic: [0]})
    ask("one that is not", {topic: [1]})
    ask("both", {topic: [0, 1], other: [0]})
    ask("no such topic", {side.name("nowhere"): [0], topic: [0]})
    ask("none", {})
    ask("the epoch before", {topic: [0]}, epoch=-1)
    ask("the epoch after", {topic: [0]}, epoch=1)
    producer.describe("nothing was added")
    producer.finish(COMMIT)
    ask("it has ended", {topic: [0]})


@case(AddPartitionsToTxnRequest, AS_BROKER)
def verifies_as_another(side: Side, version: int) -> None:
    wanted = {side.topic("t"): [0]}
    producer = begun(side)
    producer.add(wanted)
    for label, name, producer_id in [
        ("unknown", side.own_name("no-such"), STRANGER),
        ("the empty name", "", STRANGER),
        ("an unknown id", producer.name, STRANGER),
    ]:
        for verify in (True, False):
            side.ask(
                add_as_broker((name, producer_id, 0, wanted), verify=verify, version=version),
                f"{label}, {'verify' if verify else 'add'}",
            )


@case(AddPartitionsToTxnRequest, AS_BROKER)
def verifies_while_one_ends(side: Side, version: int) -> None:
    topic = own_topic(side, "t")
    for end_version in (3, 5):
        for result, committed in RESULTS.items():
            producer = held(side, f"{result}{end_version}", topic, committed, version=end_version)
            for epoch in (0, 1):
                for verify in (True, False):
                    producer.add_as_broker(
                        {topic: [0]}, f"epoch {epoch}", version=version, epoch=epoch, verify=verify
                    )


@case(AddPartitionsToTxnRequest, AS_BROKER)
def adds_for_several(side: Side, version: int) -> None:
    """Each transaction is judged by itself."""
    topic, nowhere = side.topic("t", partitions=3), side.name("nowhere")
    first, second, fenced = (begun(side, name) for name in ("first", "second", "fenced"))
    fenced.init("its successor")
    side.ask_with_ids(
        lambda ids: add_as_broker(
            (first.name, ids[0], 0, {topic: [0, 2]}),
            (second.name, ids[1], 0, {topic: [1], nowhere: [0]}),
            (fenced.name, ids[2], 0, {topic: [1]}),
            version=version,
        ),
        [first.id, second.id, fenced.id],
        "three",
    )
    for producer in (first, second, fenced):
        producer.describe()
    side.ask_with_ids(
        lambda ids: add_as_broker(
            (first.name, ids[0], 0, {topic: [0]}), (first.name, ids[0], 0, {topic: [1]}), version=version
        ),
        [first.id],
        "one twice",
    )
    first.describe("and then")


@case(AddPartitionsToTxnRequest, AS_BROKER)
def verify_and_add(side: Side, version: int) -> None:
    """A verification answered does not begin a transaction, an addition does."""
    topic = side.topic("t")
    producer = begun(side)
    for verify in (True, False, True):
        producer.add_as_broker({topic: [0]}, version=version, verify=verify)
        producer.describe()
