"""Reading what stores keep of a lost catalog, from stores that answer what they should not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
import trio

from gateway.catalog import keys
from gateway.catalog.interface import MAX_VALUE_BYTES
from gateway.cluster import kept_copy
from gateway.cluster.found_segments import CannotRebuild
from gateway.cluster.kept_copy import KeptCopy, recall
from gateway.cluster.lineage import Life, Lineage
from wireproto.dafka.additions import KEPT_DONE, Recalled, Remembered

MEMORY = Remembered("L", "G1", 7)
LINEAGE = {keys.LINEAGE: Lineage("L").pack()}
LIFE = {keys.LIVES + "G1": Life("L", 0).pack()}
TOPIC = keys.pack({"id": "0" * 32, "partitions": 1, "replication_factor": 3, "configs": {}})
TOPICS = {keys.topic_key(f"t{number:02d}"): TOPIC for number in range(10)}
ENTRIES = dict(sorted((LINEAGE | LIFE | TOPICS).items()))


def page(entries: dict[str, bytes], *, more: bool = False, memory: Remembered = MEMORY) -> Recalled:
    return Recalled("R", "S", KEPT_DONE, "C", memory, entries, more)


def read(
    answer: Callable[[str], Recalled], *, accept_loss: bool = False, **others: Callable[[str], Recalled]
) -> tuple[KeptCopy, int]:
    """What is read of store S, or of `others`, and how often they were asked."""
    asked = 0

    class Reader:
        async def recall(self, store: str, after: str) -> Recalled:
            nonlocal asked
            asked += 1
            await trio.lowlevel.checkpoint()
            return others.get(store, answer)(after)

    async def main() -> KeptCopy:
        with trio.fail_after(5):
            return await recall(cast(Any, Reader()), ["S", *others], accept_loss=accept_loss)

    return trio.run(main), asked


def three_at_a_time(after: str) -> Recalled:
    left = [key for key in ENTRIES if key > after]
    return page({key: ENTRIES[key] for key in left[:3]}, more=len(left) > 3)


def test_all_pages_are_put_together() -> None:
    copy, asked = read(three_at_a_time)
    assert (copy, asked) == (KeptCopy(MEMORY, ENTRIES), 5)


def endless(after: str) -> Recalled:
    return page({f"{after}x" if after else "a": b"1" * 1000}, more=True)


def changing() -> Callable[[str], Recalled]:
    sequence = 0

    def answer(after: str) -> Recalled:
        nonlocal sequence
        sequence += 1
        return three_at_a_time(after)._replace(memory=MEMORY._replace(sequence=sequence))

    return answer


HOSTILE = {
    "nothing new, and more": lambda _after: page(LINEAGE, more=True),
    "nothing, and more": lambda _after: page({}, more=True),
    "what was asked for before": lambda after: page({"a": b""} if after else {"b": b""}, more=True),
    "pages without end": endless,
    "always another moment": changing(),
    "a lineage that is none": lambda _after: page({keys.LINEAGE: b"[]"}),
    "a lineage that is no JSON": lambda _after: page({keys.LINEAGE: b"\xff"}),
}


@pytest.mark.parametrize("answer", HOSTILE.values(), ids=HOSTILE)
def test_what_a_store_should_not_answer_ends_the_reading(
    answer: Callable[[str], Recalled], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_copy, "MAX_READ_BYTES", 20_000)
    with pytest.raises(CannotRebuild, match="store S "):
        read(answer)


def with_entry(key: str, value: bytes) -> Callable[[str], Recalled]:
    return lambda _after: page(ENTRIES | {key: value})


DAMAGED = [
    (keys.topic_key("t00"), b"\xff"),
    (keys.topic_key("t00"), b"[" * 100_000),
    (keys.topic_key("t00"), keys.pack({"id": "0" * 32})),
    (keys.partition_key(bytes(16), 0), keys.pack({"next_epoch": 1, "epochs": [[0]], "log_start": 0})),
    (
        keys.partition_key(bytes(16), 0),
        keys.pack({"next_epoch": 1, "epochs": [[5, 0], [4, 1]], "log_start": 0}),
    ),
    (keys.STORES + "x", keys.pack({"incarnation": "A", "name": "a"})),
    (keys.partition_key(bytes(16), 0), keys.pack({"next_epoch": 1 << 31, "epochs": [], "log_start": 0})),
    (
        keys.partition_key(bytes(16), 0),
        keys.pack({"next_epoch": 1, "epochs": [], "log_start": 0, "end": "9"}),
    ),
    (keys.PRODUCER_IDS, b'"many"'),
    (keys.LEADER_EPOCH, b'"many"'),
    (keys.LEADER_EPOCH, keys.pack(1 << 31)),
    (keys.LIVES + "G1", b"7"),
    (keys.topic_key("t00"), b" " * (MAX_VALUE_BYTES - len(TOPIC) + 1) + TOPIC),
]


@pytest.mark.parametrize(("key", "value"), DAMAGED)
def test_an_entry_that_cannot_be_read_is_refused_by_name_or_left_out_on_the_operators_word(
    key: str, value: bytes
) -> None:
    with pytest.raises(CannotRebuild, match=f"store S keeps .* {key} .*: start without it, .*--accept-loss"):
        read(with_entry(key, value))
    copy, _ = read(with_entry(key, value), accept_loss=True)
    assert copy.entries == {name: entry for name, entry in ENTRIES.items() if name != key}


def test_another_store_that_keeps_the_same_tells_what_one_cannot() -> None:
    damaged = with_entry(keys.topic_key("t00"), b"\xff")
    copy, _ = read(damaged, T=three_at_a_time)
    assert copy == KeptCopy(MEMORY, ENTRIES)
    with pytest.raises(CannotRebuild, match="store S keeps"):
        read(damaged, T=lambda after: three_at_a_time(after)._replace(memory=MEMORY._replace(sequence=6)))
