from dataclasses import replace

import trio

from dafka.backup.manifest import Gap, Part, SavedPartition, SavedSegment
from dafka.backup.plan import plan
from dafka.backup.tails import Tails
from dafka.backup.transactions import TRANSACTIONS_TOPIC, States
from gateway.log.idempotence.state import ProducerState
from gateway.transactions.metadata import TransactionState
from gateway.transactions.records import transaction_key, transaction_value
from tests.unit.dafka.backup.test_plan import CHAIN, manifest, partition
from tests.unit.dafka.backup.test_transactions import NOW, ONGOING, A, batch
from wireproto.records.builder import build_batch

IDS = build_batch(
    [(transaction_key("t"), transaction_value(replace(ONGOING, partitions=frozenset((A,)))), (), 9)]
)


def snapshot(first_offset: int) -> bytes:
    """Of producer 7, which has had a transaction open since this offset."""
    state = ProducerState()
    state.applied(7, 3, 0, first_offset, 1, 9, NOW, is_transactional=True)
    return state.snapshot(NOW)


def found(saved: SavedPartition, begun: int) -> dict[str, States]:
    """What is appended to the states of ids, by partition, when a backup of `saved` is restored."""
    ids = Part("ids", 1, 0, 1, 1, 9, 3)
    of_ids = partition(SavedSegment("S", 3, 0, 1, 0, 1, 2, -1, "", (ids,)), topic=TRANSACTIONS_TOPIC)

    async def read_part(part: Part) -> list[memoryview]:
        await trio.lowlevel.checkpoint()
        return [memoryview(IDS if part is ids else batch(base=part.end - 1, sequence=1))]

    async def read_snapshot(sha256: str) -> bytes:
        await trio.lowlevel.checkpoint()
        return snapshot(begun) if sha256 else b""

    async def find() -> dict[str, States]:
        planned = plan(manifest(saved, of_ids), None, accept_loss=True)
        tails = await Tails(planned, None, NOW, 9, read_part, read_snapshot, lambda _: None).find()
        said: dict[str, States] = {}
        for each, tail in tails.items():
            said[each.saved.name] = states = States()
            states.feed(tail.batches)
        return said

    return trio.run(find)


def test_a_transaction_that_lacks_what_it_wrote_before_a_hole_is_aborted_by_its_coordinator() -> None:
    after = replace(CHAIN[2], producers="snapshot")
    holed = partition(CHAIN[0], after, topic="a", gaps=(Gap(10, 20, "damaged"),))
    for begun in (5, 15):
        said = found(holed, begun)
        assert list(said) == [f"{TRANSACTIONS_TOPIC}-0"]
        state = said[f"{TRANSACTIONS_TOPIC}-0"].by_id["t"]
        assert (state.state, state.partitions) == (TransactionState.PREPARE_ABORT, frozenset((A,)))


def test_one_that_is_whole_behind_a_hole_goes_on() -> None:
    holed = partition(CHAIN[0], CHAIN[2], topic="a", gaps=(Gap(10, 20, "damaged"),))
    assert found(holed, 0) == {}
