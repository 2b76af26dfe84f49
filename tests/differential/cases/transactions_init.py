"""InitProducerId 0-5 with a transactional id: each transactional producer's first question."""

from __future__ import annotations

from kafka.protocol.producer import InitProducerIdRequest

from tests.differential.case import case
from tests.differential.side import Side
from tests.differential.transactions import (
    COMMIT,
    RESULTS,
    STRANGER,
    Producer,
    begun,
    held,
    init_producer_id,
    own_topic,
    read_both,
)

WITH_ID = range(3, 6)
LARGEST = 2**31 - 1
MAX_TIMEOUT_MS = 900_000  # transaction.max.timeout.ms


@case(InitProducerIdRequest)
def timeouts(side: Side, version: int) -> None:
    """Above 0, and at most what the server allows."""
    for timeout in [0, -1, 1, MAX_TIMEOUT_MS, MAX_TIMEOUT_MS + 1, LARGEST]:
        name = side.own_name(f"at{timeout}")
        side.ask(init_producer_id(name, version, timeout_ms=timeout), f"timeout {timeout}")


@case(InitProducerIdRequest)
def names(side: Side, version: int) -> None:
    own = side.own_name("x")
    for label, name in {"empty": "", "odd": f"{own} é😀/\0", "long": own + "x" * 10_000}.items():
        side.ask(init_producer_id(name, version), f"{label} name")
        side.ask(init_producer_id(name, version, timeout_ms=0), f"{label} name, and no timeout")


@case(InitProducerIdRequest)
def again_and_again(side: Side, version: int) -> None:
    """The same id with the next epoch, whoever asks."""
    producer = Producer(side)
    for number in range(3):
        producer.init(f"number {number}", version=version)
    side.ask(init_producer_id(producer.name, version, timeout_ms=5_000), "with another timeout")
    producer.describe()


@case(InitProducerIdRequest, WITH_ID)
def half_an_identity(side: Side, version: int) -> None:
    producer = begun(side)
    producer.ask(lambda i: init_producer_id(producer.name, version, producer_id=i), "id only")
    side.ask(init_producer_id(producer.name, version, epoch=0), "epoch only")
    side.ask(init_producer_id(producer.name, version, producer_id=-2, epoch=0), "id -2")
    producer.resume("epoch -2", version=version, epoch=-2)
    producer.describe("none of it counted")


@case(InitProducerIdRequest, WITH_ID)
def resumes(side: Side, version: int) -> None:
    """With its id and epoch: the next one. A retry that asks for the last one: the same answer (KIP-360)."""
    producer = begun(side)
    for epoch, label in [
        (0, "current"),
        (0, "the retry"),
        (0, "the retry again"),
        (1, "current"),
        (0, "two behind"),
        (3, "not given yet"),
        (2, "current"),
        (1, "two behind"),
        (2, "the retry"),
    ]:
        producer.resume(f"epoch {epoch}: {label}", version=version, epoch=epoch)
    producer.init("without", version=version)
    producer.resume("the one before, again", version=version, epoch=3)
    producer.describe()


@case(InitProducerIdRequest, WITH_ID)
def resumes_as_another(side: Side, version: int) -> None:
    """An id that is not this transactional id's."""
    producer, other = begun(side, "tx"), begun(side, "other")
    for epoch in (0, 1):
        side.ask(
            init_producer_id(producer.name, version, producer_id=STRANGER, epoch=epoch),
            f"an unknown id, epoch {epoch}",
        )
    other.ask(lambda i: init_producer_id(producer.name, version, producer_id=i, epoch=0), "another's id")
    producer.describe()


@case(InitProducerIdRequest, WITH_ID)
def resumes_what_is_unknown(side: Side, version: int) -> None:
    """A transactional id that the server has forgotten, or never knew."""
    for epoch in (0, 5, 32_766, 32_767):
        name = side.own_name(f"tx{epoch}")
        side.ask(init_producer_id(name, version, producer_id=STRANGER, epoch=epoch), f"epoch {epoch}")
        side.ask(init_producer_id(name, version, producer_id=STRANGER, epoch=epoch), f"epoch {epoch} again")
        side.ask(init_producer_id(name, version), f"epoch {epoch}, then without")


@case(InitProducerIdRequest)
def while_one_is_open(side: Side, version: int) -> None:
    """It is aborted under a higher epoch first, and meanwhile the answer is CONCURRENT_TRANSACTIONS."""
    topic = own_topic(side, "t")
    producer = begun(side)
    producer.add({topic: [0]})
    producer.send(topic)
    producer.init("while it is open", version=version)
    producer.settle()
    producer.describe("aborted")
    producer.init("then", version=version)
    read_both(side, topic, "its records")


@case(InitProducerIdRequest, WITH_ID)
def while_its_own_is_open(side: Side, version: int) -> None:
    """As a client that has lost its way does: with its id and epoch."""
    topic = own_topic(side, "t")
    producer = begun(side)
    producer.add({topic: [0]})
    producer.send(topic)
    producer.resume("while it is open", version=version)
    producer.settle()
    producer.describe("aborted")
    producer.resume("then", version=version)
    producer.resume("again", version=version)
    producer.describe("at last")


@case(InitProducerIdRequest, WITH_ID)
def while_anothers_is_open(side: Side, version: int) -> None:
    """Epochs are compared when nothing is open: a fenced producer's question ends its successor's, too."""
    topic = own_topic(side, "t")
    for epoch in (0, 2):
        producer = begun(side, f"tx{epoch}")
        producer.init("its successor")
        producer.add({topic: [0]})
        producer.resume(f"with epoch {epoch}", version=version, epoch=epoch)
        producer.settle()
        producer.describe("aborted")
        producer.end(COMMIT, "the successor commits")
    producer = begun(side, "stranger")
    producer.add({topic: [0]})
    side.ask(init_producer_id(producer.name, version, producer_id=STRANGER, epoch=0), "with another id")
    producer.finish(COMMIT, "not ended by it")


@case(InitProducerIdRequest)
def while_one_ends(side: Side, version: int) -> None:
    """As long as markers are not written."""
    topic = own_topic(side, "t")
    for end_version in (3, 5):
        for result, committed in RESULTS.items():
            producer = held(side, f"{result}{end_version}", topic, committed, version=end_version)
            producer.init("without its id", version=version)
            for epoch in (0, 1, 2) if version in WITH_ID else ():
                producer.resume(version=version, epoch=epoch)
            if version in WITH_ID:
                side.ask(
                    init_producer_id(producer.name, version, producer_id=STRANGER, epoch=0),
                    f"{result}{end_version}, another id",
                )
            side.ask(
                init_producer_id(producer.name, version, timeout_ms=0), f"{result}{end_version}, no timeout"
            )


@case(InitProducerIdRequest)
def after_each_end(side: Side, version: int) -> None:
    """After a transaction of each kind of client: the next epoch."""
    topic = own_topic(side, "t")
    for end_version in (3, 5):
        for result, committed in RESULTS.items():
            producer = begun(side, f"{result}{end_version}")
            producer.add({topic: [0]})
            producer.finish(committed, version=end_version)
            producer.init("after it", version=version)
            producer.describe()


@case(InitProducerIdRequest, WITH_ID)
def resumes_after_each_end(side: Side, version: int) -> None:
    """The epoch that EndTxn 5 gave is current, and the one before it is a retry's."""
    topic = own_topic(side, "t")
    for end_version in (3, 5):
        for result, committed in RESULTS.items():
            producer = begun(side, f"{result}{end_version}")
            producer.add({topic: [0]})
            producer.finish(committed, version=end_version)
            for epoch in (0, 1, 1, 2, 0):
                producer.resume(version=version, epoch=epoch)
            producer.describe()


@case(InitProducerIdRequest)
def timeout_of_the_next(side: Side, version: int) -> None:
    """What the last InitProducerId said holds, not what the first one did."""
    producer = begun(side)
    side.ask(init_producer_id(producer.name, version, timeout_ms=1_234), "another timeout")
    producer.describe()
    side.ask(init_producer_id(producer.name, version, timeout_ms=MAX_TIMEOUT_MS + 1), "a wrong one")
    producer.describe("as it was")
