"""Which request meets which fault."""

from __future__ import annotations

from dafka.chaos.faults import Fault, Faults, Kind
from wireproto.kafka.errors import ErrorCode


def faults(*ordered: Fault) -> Faults:
    made = Faults()
    for fault in ordered:
        made.add(fault)
    return made


def test_so_many_requests_meet_a_fault_and_no_more() -> None:
    one = Fault(Kind.ERROR, "Produce", ErrorCode.INVALID_RECORD, left=2)
    ordered = faults(one)
    assert [ordered.meet("Produce", "", ()) for _ in range(3)] == [(0, one), (0, one), (0, None)]
    assert (one.met, ordered.ordered) == (2, [])


def test_a_fault_without_a_number_stays() -> None:
    ordered = faults(Fault(Kind.DROP, "Fetch", left=None))
    for _ in range(5):
        assert ordered.meet("Fetch", "", ())[1] is not None
    assert [fault.met for fault in ordered.ordered] == [5]
    ordered.clear()
    assert ordered.meet("Fetch", "", ()) == (0, None)


def test_only_those_that_are_meant_meet_it_and_count() -> None:
    ordered = faults(
        Fault(Kind.DROP, "Fetch", topic="orders"),
        Fault(Kind.DROP, "Produce", client_id="mine", topic="orders"),
    )
    assert ordered.meet("Fetch", "", {"other"}) == (0, None)
    assert ordered.meet("Produce", "mine", {"other"}) == (0, None)
    assert ordered.meet("Produce", "another", {"orders"}) == (0, None)
    assert ordered.meet("Heartbeat", "mine", ()) == (0, None)
    assert [fault.met for fault in ordered.ordered] == [0, 0]
    assert ordered.meet("Produce", "mine", {"other", "orders"})[1] is not None
    assert [fault.api for fault in ordered.ordered] == ["Fetch"]


def test_delays_add_up_and_the_first_of_the_others_decides() -> None:
    error = Fault(Kind.ERROR, "Fetch", ErrorCode.OFFSET_OUT_OF_RANGE)
    drop = Fault(Kind.DROP, "Fetch")
    ordered = faults(
        Fault(Kind.DELAY, "Fetch", delay_ms=5), error, Fault(Kind.DELAY, "Fetch", delay_ms=7, left=None), drop
    )
    assert ordered.meet("Fetch", "", ()) == (12, error)
    assert ordered.meet("Fetch", "", ()) == (7, drop)
    assert ordered.meet("Fetch", "", ()) == (7, None)


def test_what_no_request_can_meet_is_not_looked_for() -> None:
    ordered = faults(Fault(Kind.DROP, "Fetch"))
    assert [ordered.wanted(api) for api in ("Fetch", "Produce")] == [True, False]


def test_who_clears_his_own_leaves_those_of_others() -> None:
    mine, theirs = Fault(Kind.DROP, "Fetch", owner="a"), Fault(Kind.DROP, "Fetch", owner="b")
    ordered = faults(mine, theirs)
    ordered.clear("a")
    assert ordered.ordered == [theirs]
    ordered.clear()
    assert ordered.ordered == []
