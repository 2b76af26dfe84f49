"""Where a segment ends: by every subset of answers, for every n and w up to five members."""

from itertools import combinations

import pytest

from mesh.protocol.recovery import Seal


def test_enough_answers_decide_and_fewer_do_not() -> None:
    seal = Seal("A", ["s0", "s1", "s2"], 2)
    assert seal.needed == 2
    seal.on_sealed("stranger", 99, b"")
    seal.on_sealed("s0", 4, b"row 4")
    assert not seal.decidable
    assert seal.missing() == ("s1", "s2")
    with pytest.raises(ValueError, match="1 of 2"):
        seal.end()
    seal.on_sealed("s2", 6, b"row 6")
    assert (seal.decidable, seal.complete) == (True, False)
    assert seal.end() == (6, b"row 6")


def test_a_refusal_is_no_answer_and_an_unknown_segment_holds_nothing() -> None:
    seal = Seal("A", ["s0", "s1", "s2"], 2)
    seal.on_refused("s1", 2)
    seal.on_sealed("s0", -1, b"", known=False)
    assert (seal.decidable, seal.complete, seal.known, seal.missing()) == (False, False, False, ("s2",))
    seal.on_sealed("s2", 3, b"row 3")
    assert (seal.decidable, seal.complete, seal.known) == (True, True, True)
    assert seal.end() == (3, b"row 3")


@pytest.mark.parametrize("n", range(1, 6))
def test_what_w_members_had_is_never_cut_whoever_answers(n: int) -> None:
    members = [f"s{number}" for number in range(n)]
    for w in range(1, n + 1):
        for holders in combinations(members, w):
            heads = {member: 7 if member in holders else 3 for member in members}
            for answering in combinations(members, n - w + 1):
                seal = Seal("A", members, w)
                for member in answering:
                    seal.on_sealed(member, heads[member], b"")
                assert seal.decidable
                assert seal.end()[0] == 7, (n, w, holders, answering)


def test_once_decided_the_end_stays_and_who_lacks_something_copies_it() -> None:
    seal = Seal("A", ["s0", "s1", "s2"], 2)
    seal.on_sealed("s0", 4, b"row 4")
    seal.on_sealed("s1", 6, b"row 6")
    assert seal.end() == (6, b"row 6")
    assert (seal.holders(), seal.lacking(), seal.enough) == (("s1",), ("s0",), False)
    seal.on_sealed("s2", 9, b"row 9")  # it had what nobody was told of
    assert seal.end() == (6, b"row 6")
    assert (seal.holders(), seal.lacking(), seal.enough) == (("s1", "s2"), ("s0",), True)
    seal.on_copied("s0", 6)
    assert (seal.holders(), seal.lacking()) == (("s0", "s1", "s2"), ())


def test_without_records_nothing_is_copied() -> None:
    seal = Seal("A", ["s0", "s1", "s2"], 2)
    seal.on_sealed("s0", -1, b"")
    seal.on_sealed("s1", -1, b"", known=False)
    assert seal.end() == (-1, b"")
    assert (seal.lacking(), seal.enough) == ((), True)


def test_all_members_must_have_it_where_w_is_all() -> None:
    seal = Seal("A", ["s0", "s1", "s2"], 3)
    seal.on_sealed("s1", 5, b"row")
    assert (seal.decidable, seal.enough) == (True, False)
    for member in ("s0", "s2"):
        assert member not in seal.lacking()
        seal.on_sealed(member, 2, b"other row")
        assert member in seal.lacking()
        seal.on_copied(member, 5)
    assert seal.enough


def test_a_member_that_confirmed_and_never_heard_of_it_does_not_count() -> None:
    seal = Seal("A", ["s0", "s1", "s2"], 2, confirmed=["s0", "s1"])
    seal.on_sealed("s0", -1, b"", known=False)
    seal.on_sealed("s2", -1, b"", known=False)
    assert (seal.decidable, seal.lost, seal.known, seal.hopeless) == (False, ("s0",), False, False)
    seal.on_sealed("s1", 3, b"row 3")
    assert (seal.decidable, seal.end()) == (True, (3, b"row 3"))
    both = Seal("A", ["s0", "s1", "s2"], 2, confirmed=["s0", "s1"])
    both.on_sealed("s0", -1, b"", known=False)
    both.on_sealed("s1", -1, b"", known=False)
    assert (both.hopeless, both.refused) == (True, {})
    one = Seal("A", ["s0", "s1", "s2"], 2, confirmed=["s0", "s1"])
    one.on_sealed("s0", -1, b"", known=False)
    one.on_refused("s1", 2)
    assert (one.hopeless, one.lost, one.refused) == (False, ("s0",), {"s1": 2})


def test_a_member_that_could_not_seal_may_do_it_later() -> None:
    seal = Seal("A", ["s0"], 1)
    seal.on_refused("s0", 2)
    assert (seal.hopeless, seal.decidable, seal.refused) == (False, False, {"s0": 2})
    seal.on_sealed("s0", 1, b"row")
    assert (seal.hopeless, seal.refused, seal.decidable) == (False, {}, True)
    seal.on_refused("s0", 2)
    assert seal.decidable


def test_all_that_are_left_decide_when_too_few_will_ever_answer() -> None:
    """For every set of members that is given up: who must answer, the end, and who must have it."""
    members = "abcde"
    for n, w in ((1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (5, 4)):
        for count in range(1, n + 1):
            for gone in combinations(members[:n], count):
                seal = Seal("A" * 32, list(members[:n]), w)
                seal.give_up(gone)
                left = [member for member in members[:n] if member not in gone]
                wanted = min(n - w + 1, len(left))
                for number, member in enumerate(left):
                    assert seal.decidable == (number >= wanted)
                    seal.on_sealed(member, number, b"row %d" % number)
                assert seal.decidable
                if not left:
                    assert seal.end() == (-1, b"")
                    assert seal.enough
                    continue
                end = len(left) - 1
                assert seal.end() == (end, b"row %d" % end)
                for member in left:
                    assert seal.enough == (len(seal.holders()) >= min(w, len(left)))
                    seal.on_copied(member, end)
                assert seal.enough


def test_a_member_that_was_given_up_and_answers_all_the_same_counts() -> None:
    seal = Seal("A" * 32, ["a", "b", "c"], 2)
    seal.give_up(["a", "b"])
    assert seal.has_given_up
    seal.on_sealed("a", 7, b"seven")
    assert not seal.decidable, "one that is left has not answered"
    seal.on_sealed("c", 3, b"three")
    assert seal.end() == (7, b"seven")
    assert not seal.enough
    seal.on_copied("c", 7)
    assert seal.enough


def test_nothing_changes_for_a_segment_that_lost_no_more_than_it_can_bear() -> None:
    seal = Seal("A" * 32, ["a", "b", "c"], 2)
    seal.give_up(["c", "another store"])
    seal.on_sealed("a", 7, b"seven")
    assert not seal.decidable
    seal.on_sealed("b", 5, b"five")
    assert seal.end() == (7, b"seven")
    assert not seal.enough
    other = Seal("A" * 32, ["a", "b", "c"], 2)
    other.give_up(["another store"])
    assert not other.has_given_up
