"""Whether a segment may be written to: by every set of answers, for every n and w up to five members."""

from itertools import product

import pytest

from mesh.protocol.opening import Opening
from wireproto.dafka.additions import (
    STATUS_DONE,
    STATUS_FOREIGN_CLUSTER,
    STATUS_SEALED,
    STATUS_STALE_EPOCH,
    STATUS_STORAGE_ERROR,
)


def test_single_refusals_are_weighed() -> None:
    opening = Opening("A", ["s0", "s1", "s2"], 2)
    opening.on_status("stranger", STATUS_DONE)
    opening.on_status("s0", STATUS_STALE_EPOCH)
    assert (opening.enough, opening.hopeless, opening.missing()) == (False, False, ("s1", "s2"))
    opening.on_status("s1", STATUS_DONE)
    assert (opening.enough, opening.hopeless) == (False, False)
    opening.on_status("s2", STATUS_DONE)
    assert (opening.enough, opening.hopeless, opening.missing()) == (True, False, ())


def test_a_member_that_got_over_it_confirms_and_one_that_confirmed_stays() -> None:
    opening = Opening("A", ["s0", "s1"], 2)
    opening.on_status("s0", STATUS_STORAGE_ERROR)
    assert opening.hopeless
    opening.on_status("s0", STATUS_DONE)
    opening.on_status("s1", STATUS_DONE)
    assert (opening.enough, opening.refused) == (True, {})
    opening.on_status("s1", STATUS_SEALED)
    assert opening.enough


@pytest.mark.parametrize("n", range(1, 6))
def test_never_both_and_always_one_once_all_have_answered(n: int) -> None:
    members = [f"s{number}" for number in range(n)]
    for w in range(1, n + 1):
        for answers in product((STATUS_DONE, STATUS_FOREIGN_CLUSTER, None), repeat=n):
            opening = Opening("A", members, w)
            for member, status in zip(members, answers, strict=True):
                if status is not None:
                    opening.on_status(member, status)
            confirmed = answers.count(STATUS_DONE)
            assert opening.enough == (confirmed >= max(w, n - w + 1))
            assert not (opening.enough and opening.hopeless)
            if None not in answers:
                assert opening.enough != opening.hopeless
