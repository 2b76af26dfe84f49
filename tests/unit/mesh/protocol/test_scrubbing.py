"""What a store does about a range that it has read again, for all answers that two other members may give."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from mesh.protocol.scrubbing import AskDigests, Decided, RangeScrub, Take, Verdict

ONE, TWO = "one", "two"
OURS, OTHERS, THIRD = b"O" * 32, b"X" * 32, b"Y" * 32

ANSWERS: dict[str, Callable[[RangeScrub, str], None]] = {
    "ours": lambda scrub, member: scrub.on_digest(member, OURS),
    "others": lambda scrub, member: scrub.on_digest(member, OTHERS),
    "third": lambda scrub, member: scrub.on_digest(member, THIRD),
    "damaged": lambda scrub, member: scrub.on_damaged(member),
    "absent": lambda scrub, member: scrub.on_absent(member),
    "silent": lambda scrub, member: scrub.on_silent(member),
}


def asked(own: bytes, first: str, second: str) -> RangeScrub:
    scrub = RangeScrub(own, [ONE, TWO])
    assert scrub.next_step() == AskDigests((ONE, TWO))
    ANSWERS[first](scrub, ONE)
    assert scrub.next_step() == AskDigests((TWO,))
    ANSWERS[second](scrub, TWO)
    return scrub


def verdict(scrub: RangeScrub) -> Verdict:
    step = scrub.next_step()
    assert isinstance(step, Decided), step
    return step.verdict


@pytest.mark.parametrize(("first", "second"), list(product(ANSWERS, repeat=2)))
def test_what_is_good_here_is_never_replaced(first: str, second: str) -> None:
    """Not even when both others agree on something else: each copy is good for itself."""
    differs = {first, second} & {"others", "third"}
    absent = tuple(member for member, it in ((ONE, first), (TWO, second)) if it == "absent")
    expected = Verdict.DIFFERS if differs else Verdict.ABSENT if absent else Verdict.GOOD
    decided = asked(OURS, first, second).next_step()
    assert isinstance(decided, Decided)
    assert (decided.verdict, decided.absent) == (expected, absent)


@pytest.mark.parametrize(("first", "second"), list(product(ANSWERS, repeat=2)))
def test_what_is_damaged_here_is_taken_only_where_nobody_contradicts(first: str, second: str) -> None:
    digests = {"ours": OURS, "others": OTHERS, "third": THIRD}
    told = [(member, digests[it]) for member, it in ((ONE, first), (TWO, second)) if it in digests]
    scrub = asked(b"", first, second)
    if not told:
        expected = Verdict.LATER if "silent" in (first, second) else Verdict.NO_COPY
        assert verdict(scrub) is expected
        return
    if len({digest for _, digest in told}) > 1:
        assert verdict(scrub) is Verdict.NO_COPY
        return
    for source, digest in told:
        assert scrub.next_step() == Take(source, digest)
        scrub.on_taken(source, b"")
    assert verdict(scrub) is Verdict.LATER, "what did not come may come with the next pass"
    again = asked(b"", first, second)
    again.on_taken(*told[0])
    assert verdict(again) is Verdict.MENDABLE


def test_what_has_not_the_digest_that_was_told_is_not_taken() -> None:
    scrub = asked(b"", "ours", "ours")
    scrub.on_taken(ONE, OTHERS)
    assert scrub.next_step() == Take(TWO, OURS)
    scrub.on_taken(TWO, OTHERS)
    assert scrub.next_step() == Decided(
        Verdict.NO_COPY,
        "store one gave other records than it told the digest of, store two gave other records than it told "
        "the digest of",
    )


def test_nobody_else_keeps_it() -> None:
    assert verdict(RangeScrub(OURS, [])) is Verdict.GOOD
    assert RangeScrub(b"", []).next_step() == Decided(Verdict.NO_COPY, "no other store keeps it")


def test_only_the_first_answer_of_those_asked_counts() -> None:
    scrub = RangeScrub(OURS, [ONE])
    scrub.on_digest("a stranger", OTHERS)
    scrub.on_digest(ONE, OURS)
    scrub.on_digest(ONE, OTHERS)
    scrub.on_damaged(ONE)
    assert verdict(scrub) is Verdict.GOOD


def test_records_of_whom_nobody_asked_are_not_taken() -> None:
    scrub = asked(b"", "ours", "damaged")
    scrub.on_taken(TWO, OURS)
    assert scrub.next_step() == Take(ONE, OURS)
