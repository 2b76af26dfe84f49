"""Reading what stores keep of a lost catalog, from stores that answer what they should not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
import trio

from gateway.catalog import keys
from gateway.cluster import kept_copy
from gateway.cluster.found_segments import CannotRebuild
from gateway.cluster.kept_copy import KeptCopy, recall
from gateway.cluster.lineage import Life, Lineage
from wireproto.dafka.additions import KEPT_DONE, Recalled, Remembered

MEMORY = Remembered("L", "G1", 7)
LINEAGE = {keys.LINEAGE: Lineage("L").pack()}
LIFE = {keys.LIVES + "G1": Life("L", 0).pack()}
TOPICS = {keys.topic_key(f"t{number:02d}"): b"{}" for number in range(10)}
ENTRIES = dict(sorted((LINEAGE | LIFE | TOPICS).items()))


def page(entries: dict[str, bytes], *, more: bool = False, memory: Remembered = MEMORY) -> Recalled:
    return Recalled("R", "S", KEPT_DONE, "C", memory, entries, more)


def read(answer: Callable[[str], Recalled], *, accept_loss: bool = False) -> tuple[KeptCopy, int]:
    """What is read of one store, and how often it was asked."""
    asked = 0

    class Reader:
        async def recall(self, _store: str, after: str) -> Recalled:
            nonlocal asked
            asked += 1
            await trio.lowlevel.checkpoint()
            return answer(after)

    async def main() -> KeptCopy:
        with trio.fail_after(5):
            return await recall(cast(Any, Reader()), ["S"], accept_loss=accept_loss)

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
