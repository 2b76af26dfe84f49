"""How far native addresses have come into a topic for good."""

from gateway.native.taken import Committed, Seen

KEY = bytes(16), "A1"


def test_what_lies_below_the_high_watermark_is_told() -> None:
    assert Committed().look(KEY, Seen(1, 9, 4), 10) == 4


def test_what_does_not_waits() -> None:
    committed = Committed()
    assert committed.look(KEY, Seen(1, 9, 4), 9) is None
    assert committed.look(KEY, Seen(1, 9, 4), 9) is None
    assert committed.look(KEY, Seen(1, 9, 4), 10) == 4


def test_of_an_address_that_never_pauses_the_look_before_counts() -> None:
    committed = Committed()
    assert committed.look(KEY, Seen(1, 9, 4), 8) is None
    assert committed.look(KEY, Seen(1, 19, 8), 15) == 4
    assert committed.look(KEY, Seen(1, 29, 12), 19) is None
    assert committed.look(KEY, Seen(1, 39, 16), 20) == 8


def test_what_was_seen_under_another_leader_epoch_is_nothing() -> None:
    committed = Committed()
    assert committed.look(KEY, Seen(1, 9, 4), 8) is None
    assert committed.look(KEY, Seen(2, 19, 3), 15) is None
    assert committed.look(KEY, Seen(2, 29, 5), 20) == 3


def test_of_what_is_not_looked_at_any_more_nothing_is_known() -> None:
    committed = Committed()
    committed.look(KEY, Seen(1, 9, 4), 8)
    committed.keep_only({(bytes(16), "A2")})
    assert committed.look(KEY, Seen(1, 19, 8), 15) is None
