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
