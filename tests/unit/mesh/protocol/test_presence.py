"""Who is there: by what was heard, and not by what the process itself has slept through."""

from mesh.protocol.presence import LIVE_SECONDS, MAX_SEEN_STORES, ROUND_SECONDS, Presence

A, B = "A" * 32, "B" * 32


def rounds(presence: Presence, first: float, last: float) -> list[tuple[float, list[str]]]:
    """(when, who is gone) of each round from `first` to `last` in which somebody went."""
    gone = []
    now = first
    while now <= last:
        if names := presence.round(now):
            gone.append((now, sorted(names)))
        now += ROUND_SECONDS
    return gone


def test_a_store_is_live_from_its_first_pong_until_it_was_silent_for_long() -> None:
    presence = Presence()
    presence.round(0.0)
    assert presence.heard(A, 0.1)
    assert presence.seen[A].name == ""
    assert not presence.introduced(A, "a", "cluster", 5, 0.2)
    assert not presence.introduced(A, "a", "cluster", 4, 0.9)
    assert presence.introduced(B, "b", "", None, 0.9)
    presence.round(1.0)
    assert presence.live == {A, B}
    assert presence.due() == []
    assert not presence.heard(B, 1.5)
    assert rounds(presence, 2.0, 10.0) == [(4.0, [A]), (5.0, [B])]
    assert LIVE_SECONDS == 3
    assert (presence.live, presence.due()) == (set(), [A, B])
    assert presence.heard(A, 11.0)
    assert presence.live == {A}
    assert presence.free_bytes(A) == 4
    assert presence.free_bytes(B) is None
    assert (presence.seen[A].name, presence.seen[A].cluster_id) == ("a", "cluster")


def test_what_the_process_slept_through_is_nobodys_silence() -> None:
    presence = Presence()
    presence.round(0.0)
    presence.introduced(A, "a", "", None, 0.5)
    presence.introduced(B, "b", "", None, 0.5)
    assert presence.round(20.0) == []
    assert presence.live == {A, B}
    presence.heard(A, 20.5)
    assert rounds(presence, 21.0, 23.0) == [(23.0, [B])]


def test_strangers_fill_no_memory_and_displace_nobody_who_is_there() -> None:
    presence = Presence()
    presence.round(0.0)
    for number in range(MAX_SEEN_STORES):
        assert presence.introduced(f"{number:032X}", "s", "", None, number / MAX_SEEN_STORES)
    assert not presence.introduced(A, "a", "", None, 1.0)
    assert A not in presence.seen
    presence.heard(f"{0:032X}", 3.9)
    rounds(presence, 1.0, 4.0)
    assert presence.introduced(A, "a", "", None, 4.0)
    assert len(presence.seen) == MAX_SEEN_STORES
    assert f"{0:032X}" in presence.seen
    assert f"{1:032X}" not in presence.seen
