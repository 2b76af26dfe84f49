"""What of a catalog stores keep a copy of, and in which pieces."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from gateway.catalog import keys
from gateway.catalog.interface import Change
from gateway.catalog.snapshot import snapshot
from gateway.cluster import kept_entries
from gateway.cluster.kept_entries import KEPT_PREFIXES, Changes, changes_in_pieces, in_pieces
from tests.unit.gateway.catalog.memory import MemoryCatalog

NOT_KEPT = {
    keys.CLUSTER, keys.SEGMENTS, keys.CLOSING, keys.SEGMENT_TOMBSTONES, keys.REPLACING, keys.COMPACTING,
    keys.STORE_LIVES, keys.LEFT_OVER, keys.SLOTS, keys.ALIVE, keys.DRAINING, keys.LEAVING,
    keys.MISSED, keys.STANDBYS, keys.GATEWAYS, keys.REGISTERED, keys.PREFERRED,
}  # fmt: skip


def test_of_every_kind_of_key_it_is_decided_whether_it_is_kept() -> None:
    known = {value for name, value in vars(keys).items() if name.isupper() and isinstance(value, str)}
    assert set(KEPT_PREFIXES) | NOT_KEPT == known
    assert not set(KEPT_PREFIXES) & NOT_KEPT
    assert not [key for key in NOT_KEPT if key.startswith(KEPT_PREFIXES)]


def test_all_that_is_kept_is_of_one_moment() -> None:
    catalog = MemoryCatalog()
    entries = {f"{prefix}x": b"1" for prefix in (*KEPT_PREFIXES, *NOT_KEPT)}
    trio.run(catalog.transact, [], entries)
    kept = trio.run(snapshot, catalog, KEPT_PREFIXES)
    assert kept == (catalog.revision, {f"{prefix}x": b"1" for prefix in KEPT_PREFIXES})


def test_entries_go_into_as_few_messages_as_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(in_pieces([])) == [{}]
    monkeypatch.setattr(kept_entries, "PIECE_BYTES", 6)
    monkeypatch.setattr(kept_entries, "MAX_LIST_ENTRIES", 3)
    entries = [
        ("a", b"12"),
        ("b", b"12"),
        ("c", b"123456789"),
        ("d", b""),
        ("e", b""),
        ("f", b""),
        ("g", b""),
    ]
    assert [list(piece) for piece in in_pieces(entries)] == [["a", "b"], ["c"], ["d", "e", "f"], ["g"]]


def topic(name: str) -> str:
    return keys.topic_key(name)


def test_changes_are_the_last_word_on_each_key() -> None:
    changes = [
        Change(6, topic("a"), b"1"), Change(6, topic("b"), b"1"), Change(7, keys.closing_key("x"), b""),
        Change(8, topic("a"), b"2"), Change(8, topic("b"), None),
    ]  # fmt: skip
    assert changes_in_pieces(changes, 5, 9) == [Changes(5, 9, {topic("a"): b"2"}, (topic("b"),))]


def test_what_is_not_kept_moves_the_sequence_alone() -> None:
    assert changes_in_pieces([Change(6, keys.closing_key("x"), b"")], 5, 6) == [Changes(5, 6, {}, ())]
    assert changes_in_pieces([], 5, 6) == [Changes(5, 6, {}, ())]


def test_a_transaction_is_never_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_entries, "MAX_LIST_ENTRIES", 2)
    changes = [Change(6, topic("a"), b""), Change(7, topic("b"), b""), Change(7, topic("c"), b"")]
    assert changes_in_pieces(changes, 5, 9) == [
        Changes(5, 6, {topic("a"): b""}, ()),
        Changes(6, 9, {topic("b"): b"", topic("c"): b""}, ()),
    ]
    assert changes_in_pieces([*changes, Change(7, topic("d"), b"")], 5, 9) is None


@given(
    st.lists(
        st.lists(
            st.tuples(st.sampled_from("abcd"), st.sampled_from([None, b"", b"123"])), min_size=1, max_size=3
        ),
        max_size=8,
    )
)
def test_pieces_one_after_the_other_are_all_changes(
    transactions: Sequence[Sequence[tuple[str, bytes | None]]],
) -> None:
    changes = [
        Change(revision, topic(name), value)
        for revision, its in enumerate(transactions, 11)
        for name, value in dict(its).items()
    ]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(kept_entries, "MAX_LIST_ENTRIES", 3)
        pieces = changes_in_pieces(changes, 10, 10 + len(transactions))
    assert pieces is not None
    assert [piece.base for piece in pieces] == [10, *(piece.sequence for piece in pieces[:-1])]
    assert pieces[-1].sequence == 10 + len(transactions)
    store: dict[str, bytes] = {}
    for piece in pieces:
        store |= piece.puts
        for key in piece.deletes:
            store.pop(key, None)
        upto = {key: value for revision, key, value in changes if revision <= piece.sequence}
        assert store == {key: value for key, value in upto.items() if value is not None}
