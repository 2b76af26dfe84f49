"""What a store takes of a catalog, and what it answers, without a disk: the entries are applied to a dict."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.protocol import catalog_memory
from mesh.protocol.catalog_memory import MAX_JUMP, CatalogMemory, Keeping, MemoryHead
from wireproto.dafka.additions import (
    KEEP_CHANGES,
    KEEP_LAST_PIECE,
    KEEP_PIECE,
    KEEP_QUESTION,
    KEPT_DONE,
    KEPT_FOREIGN_CLUSTER,
    KEPT_OTHER_HISTORY,
    KEPT_OUT_OF_TURN,
    KEPT_STORAGE_ERROR,
    KEPT_TOO_LARGE,
    NOTHING_REMEMBERED,
    Keep,
    Kept,
    Remembered,
)

NEW = NOTHING_REMEMBERED


def at(sequence: int, lineage: str = "H1", life: str = "G1") -> Remembered:
    return Remembered(lineage, life, sequence)


class Store:
    """A store of cluster C1, with its disk."""

    def __init__(self, cluster_id: str = "C1") -> None:
        self.memory = CatalogMemory("S1")
        self.cluster_id = cluster_id
        self.head = MemoryHead()
        self.disk: dict[tuple[int, str], bytes] = {}

    def keep(
        self, kind: int, place: Remembered = NEW, entries: dict[str, bytes] | None = None, *,
        base: int = 0, parent: str = "", cluster: str = "C1",
        deletes: tuple[str, ...] = (), **puts: bytes,
    ) -> Kept:  # fmt: skip
        keep = Keep("S1", "R7", cluster, kind, place, parent, base, entries or puts, deletes)
        keeping = self.memory.keep(keep, self.cluster_id)
        self._write(keeping)
        self.cluster_id = self.cluster_id or keeping.answer.cluster_id
        return keeping.answer

    def _write(self, keeping: Keeping) -> None:
        first, end = keeping.emptied
        self.disk = {key: value for key, value in self.disk.items() if not first <= key[0] < end}
        self.disk |= {(keeping.generation, key): value for key, value in keeping.puts.items()}
        for key in keeping.deletes:
            self.disk.pop((keeping.generation, key), None)
        self.head = keeping.head or self.head

    def start_again(self) -> None:
        self.memory = CatalogMemory("S1")
        self.memory.begin(MemoryHead.unpack(self.head.pack()))

    @property
    def entries(self) -> dict[str, bytes]:
        return {
            key: value for (generation, key), value in self.disk.items() if generation == self.head.generation
        }

    def told(self, sequence: int = 10, **puts: bytes) -> "Store":
        assert self.keep(KEEP_LAST_PIECE, at(sequence), puts).status == KEPT_DONE
        return self


def answer(status: int, memory: Remembered, pieces: int = 0) -> Kept:
    return Kept("R7", "S1", status, "C1", memory, pieces)


def test_a_new_store_remembers_nothing_and_belongs_to_nobody_for_a_question() -> None:
    store = Store("")
    assert store.keep(KEEP_QUESTION) == Kept("R7", "S1", KEPT_DONE, "", NEW)


def test_a_whole_copy_is_remembered_also_after_a_start() -> None:
    store = Store("").told(10, a=b"1", b=b"2")
    assert store.cluster_id == "C1"
    store.start_again()
    assert store.keep(KEEP_QUESTION) == answer(KEPT_DONE, at(10))
    assert store.entries == {"a": b"1", "b": b"2"}


def test_changes_follow_what_is_there() -> None:
    store = Store().told(10, a=b"1", b=b"2")
    assert store.keep(KEEP_CHANGES, at(12), base=10, deletes=("a",), b=b"3", c=b"4") == answer(
        KEPT_DONE, at(12)
    )
    assert store.entries == {"b": b"3", "c": b"4"}
    assert store.keep(KEEP_CHANGES, at(13), base=12) == answer(KEPT_DONE, at(13))
    assert store.entries == {"b": b"3", "c": b"4"}


@pytest.mark.parametrize("base", [9, 11])
def test_changes_that_do_not_follow_change_nothing(base: int) -> None:
    store = Store().told(10, a=b"1")
    assert store.keep(KEEP_CHANGES, at(13), base=base, a=b"2") == answer(KEPT_OUT_OF_TURN, at(10))
    assert store.entries == {"a": b"1"}


def test_a_new_store_takes_no_changes_but_those_of_a_whole_copy() -> None:
    assert Store().keep(KEEP_CHANGES, at(13), base=0, a=b"2") == answer(KEPT_OUT_OF_TURN, NEW)


REFUSED: dict[str, tuple[Remembered, dict[str, Any]]] = {
    "an older sequence": (at(9), {}),
    "an older sequence of another life": (at(9, life="G2"), {}),
    "the same sequence of another life": (at(10, life="G2"), {}),
    "another lineage": (at(99, "H2"), {}),
    "a sibling": (at(99, "H2"), {"parent": "H0"}),
    "nothing": (NEW, {}),
}


@pytest.mark.parametrize("kind", [KEEP_CHANGES, KEEP_PIECE, KEEP_LAST_PIECE])
@pytest.mark.parametrize(("place", "more"), REFUSED.values(), ids=REFUSED)
def test_another_history_is_refused(kind: int, place: Remembered, more: dict[str, Any]) -> None:
    store = Store().told(10, a=b"1")
    assert store.keep(kind, place, a=b"2", **more) == answer(KEPT_OTHER_HISTORY, at(10))
    assert store.entries == {"a": b"1"}
    assert store.head.memory == at(10)


@pytest.mark.parametrize("kind", [KEEP_CHANGES, KEEP_PIECE, KEEP_LAST_PIECE])
@pytest.mark.parametrize("lineage", ["H1", "H2"])
def test_a_sequence_that_no_catalog_has_is_refused_and_leaves_room_for_later_ones(
    kind: int, lineage: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store().told(10, a=b"1")
    parent = "" if lineage == "H1" else "H1"
    for sequence in (10 + MAX_JUMP + 1, (1 << 63) - 1):
        refused = store.keep(kind, at(sequence, lineage), base=10 * (kind == KEEP_CHANGES), parent=parent)
        assert refused == answer(KEPT_OTHER_HISTORY, at(10))
    assert caplog.text.count("R7 has asked to keep sequence") == 1
    assert store.keep(KEEP_CHANGES, at(11), base=10, a=b"2").status == KEPT_DONE
    assert store.keep(KEEP_LAST_PIECE, at(11 + MAX_JUMP)).status == KEPT_DONE
    assert Store().keep(KEEP_LAST_PIECE, at((1 << 63) - 1)).status == KEPT_OTHER_HISTORY


def test_a_foreign_cluster_is_refused_whatever_it_asks() -> None:
    store = Store().told(10)
    for kind in (KEEP_QUESTION, KEEP_CHANGES, KEEP_PIECE, KEEP_LAST_PIECE):
        assert store.keep(kind, at(11), base=10 * (kind == KEEP_CHANGES), cluster="C2").status == (
            KEPT_FOREIGN_CLUSTER
        )
    assert store.head.memory == at(10)


def test_a_new_lineage_takes_the_place_of_its_parent_by_a_whole_copy() -> None:
    store = Store().told(10, a=b"1")
    assert store.keep(KEEP_CHANGES, at(3, "H2"), base=10, parent="H1").status == KEPT_OUT_OF_TURN
    assert store.keep(KEEP_LAST_PIECE, at(3, "H2"), parent="H1", b=b"2") == answer(KEPT_DONE, at(3, "H2"), 1)
    assert store.entries == {"b": b"2"}
    assert store.keep(KEEP_CHANGES, at(11), base=10).status == KEPT_OTHER_HISTORY


def test_a_copy_in_pieces_counts_with_the_last_one() -> None:
    store = Store().told(10, a=b"1")
    assert store.keep(KEEP_PIECE, at(20), base=0, b=b"2") == answer(KEPT_DONE, at(10), 1)
    assert store.keep(KEEP_PIECE, at(20), base=1, c=b"3") == answer(KEPT_DONE, at(10), 2)
    assert store.entries == {"a": b"1"}
    assert store.keep(KEEP_LAST_PIECE, at(20), base=2, d=b"4") == answer(KEPT_DONE, at(20), 3)
    assert store.entries == {"b": b"2", "c": b"3", "d": b"4"}
    assert len(store.disk) == 3


def test_a_piece_may_come_twice_and_none_may_be_left_out() -> None:
    store = Store().told(10)
    for _ in range(2):
        assert store.keep(KEEP_PIECE, at(20), base=0, b=b"2") == answer(KEPT_DONE, at(10), 1)
    store.keep(KEEP_PIECE, at(20), base=1, c=b"3")
    assert store.keep(KEEP_PIECE, at(20), base=1, c=b"3") == answer(KEPT_DONE, at(10), 2)
    assert store.keep(KEEP_LAST_PIECE, at(20), base=3) == answer(KEPT_OUT_OF_TURN, at(10), 2)
    assert store.keep(KEEP_LAST_PIECE, at(21), base=2) == answer(KEPT_OUT_OF_TURN, at(10))
    for _ in range(2):
        assert store.keep(KEEP_LAST_PIECE, at(20), base=2).memory == at(20)


def test_a_copy_that_was_not_finished_is_begun_anew_and_leaves_nothing() -> None:
    store = Store().told(10, a=b"1")
    store.keep(KEEP_PIECE, at(20), base=0, b=b"2")
    store.start_again()
    assert store.keep(KEEP_LAST_PIECE, at(20), base=1, c=b"3") == answer(KEPT_OUT_OF_TURN, at(10))
    assert store.keep(KEEP_LAST_PIECE, at(21), base=0, c=b"3") == answer(KEPT_DONE, at(21), 1)
    assert store.entries == {"c": b"3"}
    assert len(store.disk) == 1


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog_memory, "MAX_COPY_BYTES", 10)
    monkeypatch.setattr(catalog_memory, "MAX_CHANGED_BYTES", 10)
    store = Store().told(10)
    store.keep(KEEP_PIECE, at(20), base=0, a=b"12345")
    assert store.keep(KEEP_LAST_PIECE, at(20), base=1, b=b"12345").status == KEPT_TOO_LARGE
    assert store.keep(KEEP_CHANGES, at(11), base=10, a=b"0" * 10) == answer(KEPT_DONE, at(11))
    assert store.keep(KEEP_CHANGES, at(12), base=11) == answer(KEPT_OUT_OF_TURN, at(11))
    store.told(12)
    assert store.keep(KEEP_CHANGES, at(13), base=12, a=b"0").status == KEPT_DONE


def test_what_cannot_be_read_is_said_and_a_whole_copy_takes_its_place() -> None:
    store = Store().told(10, a=b"1")
    store.memory.begin(None)
    assert store.keep(KEEP_QUESTION) == answer(KEPT_STORAGE_ERROR, NEW)
    assert store.keep(KEEP_CHANGES, at(11), base=10) == answer(KEPT_STORAGE_ERROR, NEW)
    assert store.keep(KEEP_PIECE, at(12), base=0, b=b"2").status == KEPT_DONE
    assert store.keep(KEEP_LAST_PIECE, at(12), base=1, c=b"2") == answer(KEPT_DONE, at(12), 2)
    assert store.entries == {"b": b"2", "c": b"2"}
    assert len(store.disk) == 2


@pytest.mark.parametrize(
    "value", [b"", b"\0" * 17, MemoryHead(at(1)).pack()[:-1], MemoryHead(at(1)).pack() + b"x"]
)
def test_a_head_that_was_written_by_nobody_is_refused(value: bytes) -> None:
    with pytest.raises((ValueError, Exception), match=r"version|bytes|unpack"):
        MemoryHead.unpack(value)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 8), st.integers(0, 8), st.sampled_from("ab"))))
def test_whatever_comes_the_sequence_never_falls(steps: list[tuple[int, int, int, str]]) -> None:
    store = Store()
    highest = -1
    for kind, sequence, base, key in steps:
        place = NEW if kind == KEEP_QUESTION else at(sequence)
        told = store.keep(kind, place, {key: b"%d" % sequence}, base=base)
        assert told.memory == store.head.memory
        assert told.memory.sequence >= highest
        highest = told.memory.sequence
