"""What a store fetches from others: whom it asks for what, how much at once, and what it makes of answers."""

from __future__ import annotations

import itertools
import random

import pytest

from mesh.protocol.catch_up import (
    ANSWER_SECONDS,
    BAD_COPY_SECONDS,
    RANGES_AT_ONCE,
    UNLINKED_SECONDS,
    CatchUp,
)
from mesh.protocol.copied_address import RANGE_BYTES, RANGE_RECORDS, RANGES_AN_ADDRESS, REST_LAST_SECONDS
from mesh.protocol.gaps import LOOK_AGAIN_SECONDS, LOOK_FIRST_SECONDS
from tests.unit.mesh.protocol.test_copy import PEERS, batch, copy_request, segment
from tests.unit.mesh.protocol.test_ingest import ADDRESS, STORE, Machine, open_request, record, request
from wireproto.dafka.additions import (
    STATUS_DONE,
    STATUS_NOT_HERE,
    STATUS_STORAGE_ERROR,
    AddressStatus,
    End,
    Request,
)
from wireproto.dafka.messages import DirectRecord, Fetch, Head

OWN_LIFE = "1234567890ABCDEF"
FIRST, SECOND = PEERS
RECORD_BYTES = len(batch(0))


class Store:
    """An ingest with its catch-up, and the sources' answers as a test gives them."""

    def __init__(self, end: int = -1, *, sources: tuple[str, ...] = PEERS, rate: float = 1e12) -> None:
        self.machine = Machine()
        self.catch_up = CatchUp(self.machine, OWN_LIFE, rate)
        self.now = 0.0
        if end >= 0:
            self.want(end, sources)

    def want(self, end: int, sources: tuple[str, ...] = PEERS, address: str = ADDRESS) -> None:
        of = segment(address, log=f"log/{address}")
        self.machine.answers(copy_request(end, of=of, sources=sources))

    def asks(self, seconds: float = 0.0) -> list[Fetch]:
        """What is asked for `seconds` later."""
        self.now += seconds
        return self.catch_up.take_effects(self.now)

    def hears(self, fetch: Fetch, count: int, *, source: str | None = None, bad: int = -1) -> None:
        """`count` records of what `fetch` asked for."""
        for number in range(fetch.sequence, fetch.sequence + count):
            content = batch(number) if number != bad else b"bad"
            sent = DirectRecord(
                fetch.requester, source or fetch.store, fetch.address, "orders", number, content
            )
            self.catch_up.on_record(sent, self.now)

    def ends(self, fetch: Fetch, last: int, status: int = STATUS_DONE, *, source: str | None = None) -> None:
        store = fetch.store if source is None else source
        self.catch_up.on_end(
            End(fetch.requester, store, AddressStatus(fetch.address, status, last)), self.now
        )

    def gets(self, fetch: Fetch, count: int) -> None:
        """An answer of `count` records."""
        self.hears(fetch, count)
        self.ends(fetch, fetch.sequence + count - 1)

    def head(self, address: str = ADDRESS) -> int:
        self.machine.settle()
        state = self.machine.known(address)
        return -1 if state is None else state.head


def spans(fetches: list[Fetch]) -> list[tuple[int, int]]:
    return [(fetch.sequence, fetch.sequence + fetch.count - 1) for fetch in fetches]


def test_one_range_shows_how_large_records_are_and_then_several_are_under_way() -> None:
    store = Store(20_000)
    (fetch,) = store.asks()
    assert fetch == Fetch(ADDRESS, f"{OWN_LIFE}{1:016X}", "orders", 0, RANGE_RECORDS, FIRST, RANGE_BYTES)
    assert store.asks() == []
    store.gets(fetch, 10)
    fetches = store.asks()
    assert spans(fetches)[0] == (10, 10 + RANGE_RECORDS - 1)
    assert len(fetches) == RANGES_AN_ADDRESS
    assert [fetch.store for fetch in fetches] == [SECOND, FIRST] * 2, "the sources take turns"
    assert store.head() == 9


def test_ranges_are_as_large_as_the_records_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mesh.protocol.copied_address.RANGE_BYTES", 10 * RECORD_BYTES)
    store = Store(100)
    (fetch,) = store.asks()
    store.gets(fetch, 7)
    assert spans(store.asks()) == [(7, 16), (17, 26), (27, 36), (37, 46)]


def test_ranges_that_come_out_of_order_wait_for_those_before_them() -> None:
    store = Store(4 * RANGE_RECORDS)
    (fetch,) = store.asks()
    store.gets(fetch, 1)
    first, second, third, _ = store.asks()
    store.gets(third, RANGE_RECORDS)
    store.gets(second, RANGE_RECORDS)
    store.asks()
    assert store.head() == 0
    store.hears(first, 5)
    store.asks()
    assert store.head() == 5, "the first one is taken as it comes"
    store.hears(first._replace(sequence=6), RANGE_RECORDS - 5)
    store.ends(first, RANGE_RECORDS)
    for _ in range(3):
        store.asks()
    assert store.head() == 3 * RANGE_RECORDS


def test_one_call_gives_so_many_records_that_the_loop_is_not_held_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mesh.protocol.catch_up.RECORDS_AT_ONCE", 10)
    store = Store(24)
    (fetch,) = store.asks()
    store.gets(fetch, 25)
    heads = []
    for _ in range(4):
        store.asks()
        heads.append((store.head(), store.catch_up.has_more))
    assert heads == [(9, True), (19, True), (24, False), (24, False)]


def test_what_did_not_come_is_asked_for_again_before_anything_new() -> None:
    store = Store(10 * RANGE_RECORDS)
    (fetch,) = store.asks()
    store.gets(fetch, 1)
    first, second, *_ = store.asks()
    store.gets(first, 100)
    store.hears(second, 200)
    # Records that were lost on the link: END names more than what came.
    store.ends(second, second.sequence + second.count - 1)
    again = store.asks()
    assert spans(again) == [
        (101, RANGE_RECORDS),
        # The rest of the second range waits for a place; what is first of all does not.
    ]
    store.gets(again[0], RANGE_RECORDS - 100)
    assert spans(store.asks())[0] == (second.sequence + 200, second.sequence + second.count - 1)


def test_addresses_take_turns_and_share_the_ranges() -> None:
    store = Store()
    names = [f"{number:032X}" for number in range(20)]
    for name in names:
        store.want(5, address=name)
    fetches = store.asks()
    assert [fetch.address for fetch in fetches] == names[:RANGES_AT_ONCE]
    for fetch in fetches:
        store.gets(fetch, 2)
    # Those that have something left go behind those that had no turn.
    assert [fetch.address for fetch in store.asks()] == names[RANGES_AT_ONCE : 2 * RANGES_AT_ONCE]


@pytest.mark.parametrize(
    ("status", "again_after"), [(STATUS_NOT_HERE, 1.0), (STATUS_STORAGE_ERROR, REST_LAST_SECONDS)]
)
def test_a_source_that_has_not_or_cannot_read_it_is_left_alone_for_a_while(
    status: int, again_after: float
) -> None:
    store = Store(5)
    (fetch,) = store.asks()
    store.ends(fetch, -1, status)
    (fetch,) = store.asks()
    assert fetch.store == SECOND
    store.ends(fetch, -1, status)
    assert store.asks() == []
    assert store.catch_up.next_due() == pytest.approx(again_after)
    assert store.asks(again_after - 0.01) == []
    (fetch,) = store.asks(0.02)
    assert store.catch_up.refusals == 2
    store.gets(fetch, 6)
    store.asks()
    assert store.head() == 5


def test_the_rests_of_a_source_grow() -> None:
    store = Store(5, sources=(FIRST,))
    asked = []
    for _ in range(8):
        (fetch,) = store.asks()
        asked.append(store.now)
        store.ends(fetch, -1, STATUS_NOT_HERE)
        store.asks()
        due = store.catch_up.next_due()
        assert due is not None
        store.now = due
    assert [later - before for before, later in itertools.pairwise(asked)] == [
        1, 2, 4, 8, 16, REST_LAST_SECONDS, REST_LAST_SECONDS,
    ]  # fmt: skip


def test_a_silent_source_loses_its_ranges_and_is_not_asked_about_anything() -> None:
    store = Store(5)
    store.want(5, address="B" * 32)
    first, second = store.asks()
    assert (first.store, second.store) == (FIRST, FIRST)
    store.hears(first, 2)
    assert store.asks(ANSWER_SECONDS - 0.1) == []
    store.hears(second, 1)
    (again,) = store.asks(0.2)
    assert (again.address, again.store, spans([again])) == (ADDRESS, SECOND, [(2, 5)])
    # What it sends now was asked of another.
    store.hears(first._replace(sequence=2), 1)
    store.ends(first, 5)
    assert store.catch_up.unasked == 2
    assert store.head() == 1


def test_a_source_that_is_not_linked_is_not_asked_until_it_is() -> None:
    store = Store(5)
    linked: set[str] = set()
    store.catch_up._is_linked = linked.__contains__
    assert store.asks() == []
    assert store.catch_up.next_due() == UNLINKED_SECONDS
    linked.add(SECOND)
    (fetch,) = store.asks(UNLINKED_SECONDS)
    assert fetch.store == SECOND
    store.gets(fetch, 6)
    store.asks()
    assert store.head() == 5


def test_a_look_waits_for_somebody_who_is_linked() -> None:
    store = Store()
    linked: set[str] = set()
    store.catch_up._is_linked = linked.__contains__
    opened(store)
    to_the_writer(store)
    store.now += LOOK_FIRST_SECONDS
    to_the_writer(store)
    assert store.asks() == []
    assert store.asks(10.0) == []
    linked.add(SECOND)
    (fetch,) = store.asks(UNLINKED_SECONDS)
    store.ends(fetch, -1, STATUS_NOT_HERE)
    assert store.asks() == []
    assert store.catch_up.lacking == 0, "the other one may be gone for good"


def test_a_source_that_sends_slowly_is_not_silent() -> None:
    store = Store(100)
    (fetch,) = store.asks()
    for number in range(20):
        assert store.asks(ANSWER_SECONDS - 1) == []
        store.hears(fetch._replace(sequence=number), 1)
    assert store.catch_up.silences == 0


def test_a_bad_copy_is_asked_of_another_source_and_not_of_that_one() -> None:
    store = Store(10)
    (fetch,) = store.asks()
    store.hears(fetch, 11, bad=4)
    store.ends(fetch, 10)
    (again,) = store.asks()
    assert (again.store, spans([again])) == (SECOND, [(4, 10)])
    store.ends(again, -1, STATUS_NOT_HERE)
    assert store.asks() == []
    (again,) = store.asks(2.0)
    assert again.store == SECOND
    store.ends(again, -1, STATUS_STORAGE_ERROR)
    assert store.asks(BAD_COPY_SECONDS - 2.1) != [], "the second one rests shorter"
    assert store.head() == 3
    assert store.machine.bad_copies == 1


def test_nothing_is_taken_that_was_not_asked_of_whom_it_comes_from() -> None:
    store = Store(10)
    (fetch,) = store.asks()
    store.hears(fetch, 3, source=SECOND)
    store.ends(fetch, 2, source=SECOND)
    store.hears(fetch._replace(address="B" * 32), 1)
    store.hears(fetch._replace(requester="R1"), 1)
    store.ends(fetch._replace(address="B" * 32), 2)
    assert store.catch_up.unasked == 7
    store.hears(fetch._replace(sequence=1), 3)
    store.hears(fetch, 1)
    store.hears(fetch, 1)
    assert store.asks() == []
    assert store.head() == 0, "a range is taken in its order"


def test_a_range_ends_with_the_record_that_passes_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a source sends beyond what was asked for is not held."""
    monkeypatch.setattr("mesh.protocol.copied_address.RANGE_BYTES", 2 * RECORD_BYTES + 1)
    store = Store(10)
    (fetch,) = store.asks()
    store.hears(fetch, 11)
    store.ends(fetch, 10)
    assert spans(store.asks())[0] == (3, 4)
    assert store.head() == 2


def test_what_is_held_is_bounded_and_what_is_first_is_asked_for_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mesh.protocol.catch_up.MAX_HELD_BYTES", 2 * RANGE_BYTES)
    store = Store(10 * RANGE_RECORDS)
    (fetch,) = store.asks()
    store.gets(fetch, 1)
    first, second = store.asks()
    assert store.asks() == []
    store.ends(first, -1, STATUS_NOT_HERE)
    assert [fetch.sequence for fetch in store.asks()] == [1]
    assert second.sequence > 1


def test_live_traffic_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mesh.protocol.catch_up.LIVE_FIRST_BYTES", 0)
    store = Store(10)
    store.machine.on_record(record(0, b"native", "9" * 32), 0.0)
    assert store.asks() == []
    assert store.catch_up.next_due() == 0.0, "it is asked about again, and soon"
    store.machine.settle()
    (fetch,) = store.asks()
    store.machine.on_record(record(1, b"native", "9" * 32), 0.0)
    monkeypatch.setattr("mesh.protocol.ingest.MAX_COPIED_BYTES", 1)
    store.gets(fetch, 11)
    assert store.asks() == []
    assert store.head() == -1, "nor does a copy take the place of a record in a commit"
    for _ in range(11):
        store.asks()
        store.head()
    assert store.head() == 10


def test_the_rate_is_bounded() -> None:
    store = Store(rate=2 * RANGE_BYTES)
    for number in range(20):
        store.want(5, address=f"{number:032X}")
    fetches = store.asks()
    assert len(fetches) == 2
    assert store.asks() == []
    for fetch in fetches:
        store.gets(fetch, 6)
    assert len(store.asks()) == 2, "what did not come does not count"
    assert store.asks() == []
    assert len(store.asks(0.6)) == 1 + 1
    assert len(store.asks(60.0)) <= 3, "what was not used is not saved up"


@pytest.mark.parametrize("letter", [b"X", b"C"], ids=["DELETE", "CLOSE"])
def test_what_is_not_wanted_any_more_is_dropped(letter: bytes) -> None:
    store = Store(10)
    (fetch,) = store.asks()
    store.hears(fetch, 3)
    store.asks()
    store.want(5, address="B" * 32)
    (other,) = store.asks()
    store.ends(other, -1, STATUS_NOT_HERE)
    for fetch_again in store.asks():
        store.ends(fetch_again, -1, STATUS_NOT_HERE)
    assert store.asks() == []
    store.machine.on_request(request(letter, sequence=2))
    store.machine.on_request(Request(b"X", STORE, "R2", request(b"X", "B" * 32).entries))
    assert store.asks() == []
    assert (store.catch_up.lacking, store.catch_up.next_due()) == (0, None)
    store.hears(fetch._replace(sequence=3), 3)
    store.ends(fetch, 5)
    assert store.catch_up.unasked == 4
    assert store.asks(100.0) == []


def test_a_close_before_the_end_that_was_wanted_ends_it_there() -> None:
    store = Store(10)
    (fetch,) = store.asks()
    store.hears(fetch, 3)
    store.machine.on_request(request(b"C", sequence=5))
    store.hears(fetch._replace(sequence=3), 8)
    store.ends(fetch, 10)
    store.asks()
    assert store.head() == 5
    assert store.asks(100.0) == []
    assert store.catch_up.lacking == 0


def test_a_name_that_fits_no_topic_is_not_asked_about(caplog: pytest.LogCaptureFixture) -> None:
    store = Store()
    store.want(5, ("S" * 200, "T" * 200), address="A" * 100)
    assert store.asks() == []
    assert "too long" in caplog.text


# open addresses ---------------------------------------------------------------------------------------------


def opened(store: Store, accepted: int = 0) -> None:
    store.machine.answers(open_request(segment()))
    for number in range(accepted):
        store.machine.on_record(record(number, batch(number)), store.now)
    store.machine.settle()


def to_the_writer(store: Store) -> list[Fetch]:
    return [effect for effect in store.machine.take_effects(store.now) if isinstance(effect, Fetch)]


def test_the_writer_is_asked_first_and_the_members_when_it_gave_nothing_twice() -> None:
    store = Store()
    opened(store, 3)
    store.machine.on_head(Head(ADDRESS, "orders", 9), store.now)
    asked: list[tuple[float, list[Fetch]]] = []
    for _ in range(8):
        own = to_the_writer(store)
        assert all(fetch.store == "" for fetch in own)
        asked.append((len(own), store.asks(0.1)))
    fetches = [fetch for _, others in asked for fetch in others]
    before = next(number for number, (_, others) in enumerate(asked) if others)
    assert sum(own for own, _ in asked[:before]) == 2
    assert (fetches[0].store, spans(fetches[:1])) == (FIRST, [(3, 9)])
    store.gets(fetches[0], 4)
    assert spans(store.asks()) == [(7, 9)]
    # The writer gives the rest.
    for number in range(7, 10):
        store.machine.on_record(record(number, batch(number)), store.now)
    assert store.head() == 9
    assert store.asks(100.0) == []


def test_peers_that_have_no_more_are_not_asked_for_ever() -> None:
    store = Store()
    opened(store, 1)
    store.machine.on_head(Head(ADDRESS, "orders", 9), store.now)
    for _ in range(5):
        to_the_writer(store)
        store.now += 0.2
    for fetch in store.asks():
        store.ends(fetch, 0, STATUS_NOT_HERE)
    for fetch in store.asks():
        store.ends(fetch, 0, STATUS_NOT_HERE)
    assert store.asks() == []
    assert store.catch_up.lacking == 0, "the gap asks again"


def test_a_silent_open_address_is_looked_at_now_and_then() -> None:
    store = Store()
    opened(store)
    looks = []
    for _ in range(2 * int(LOOK_AGAIN_SECONDS)):
        to_the_writer(store)
        for fetch in store.asks(1.0):
            looks.append((store.now, fetch.store))
            store.ends(fetch, -1, STATUS_NOT_HERE)
            for other in store.asks():
                looks.append((store.now, other.store))
                store.ends(other, -1, STATUS_NOT_HERE)
    assert [store for _, store in looks] == [FIRST, SECOND] * 2
    assert looks[0][0] == pytest.approx(LOOK_FIRST_SECONDS, abs=1.1)
    assert looks[2][0] - looks[0][0] == pytest.approx(LOOK_AGAIN_SECONDS, abs=1.1)


def test_a_look_takes_whatever_the_peers_have() -> None:
    store = Store()
    opened(store)
    to_the_writer(store)
    store.now += LOOK_FIRST_SECONDS
    to_the_writer(store)
    (fetch,) = store.asks()
    assert fetch.count == RANGE_RECORDS
    store.gets(fetch, 7)
    (fetch,) = store.asks()
    assert (fetch.sequence, fetch.store) == (7, SECOND)
    assert store.head() == 6
    store.ends(fetch, 6, STATUS_NOT_HERE)
    (fetch,) = store.asks()
    store.ends(fetch, 6, STATUS_NOT_HERE)
    assert store.asks() == []
    assert store.catch_up.lacking == 0


def test_an_address_that_is_written_is_not_looked_at() -> None:
    store = Store()
    opened(store)
    to_the_writer(store)
    store.machine.on_record(record(0, batch(0)), store.now)
    store.now += LOOK_FIRST_SECONDS
    to_the_writer(store)
    assert store.asks() == []


# schedules --------------------------------------------------------------------------------------------------


class Source:
    """A store that has records up to `head` and answers as stores do, unless it is `damaged` or `dead`."""

    def __init__(self, chance: random.Random, head: int) -> None:
        self.chance = chance
        self.head = head
        self.dead = False
        self.damaged: set[int] = set()

    def answer(self, fetch: Fetch) -> list[DirectRecord | End]:
        def end(status: int, last: int) -> End:
            return End(fetch.requester, fetch.store, AddressStatus(fetch.address, status, last))

        if self.dead:
            return []
        if self.chance.random() < 0.05:
            return [end(STATUS_STORAGE_ERROR, -1)]
        if fetch.sequence > self.head:
            return [end(STATUS_NOT_HERE, self.head)]
        last = min(self.head, fetch.sequence + fetch.count - 1, fetch.sequence + self.chance.randrange(1, 60))
        records = [
            DirectRecord(
                fetch.requester,
                fetch.store,
                fetch.address,
                fetch.subject,
                number,
                b"damaged" if number in self.damaged else batch(number),
            )
            for number in range(fetch.sequence, last + 1)
            if self.chance.random() > 0.01
        ]
        return [*records, end(STATUS_DONE, last)]


class Links:
    """What the sources sent and is on its way: on one link in order, and some of it is lost."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.messages: list[tuple[float, DirectRecord | End]] = []
        self._arrival = dict.fromkeys(PEERS, 0.0)

    def send(self, source: str, message: DirectRecord | End, now: float) -> None:
        self._arrival[source] = max(self._arrival[source], now + self.chance.random())
        if self.chance.random() > 0.005:
            self.messages.append((self._arrival[source], message))

    def deliver(self, store: Store) -> None:
        due = [one for one in self.messages if one[0] <= store.now]
        self.messages = [one for one in self.messages if one[0] > store.now]
        for _, message in sorted(due, key=lambda one: one[0]):
            if isinstance(message, End):
                store.catch_up.on_end(message, store.now)
            else:
                store.catch_up.on_record(message, store.now)


@pytest.mark.parametrize("seed", range(30))
def test_whatever_the_sources_do_everything_is_here_in_the_end(seed: int) -> None:
    """Answers are lost, cut, late and out of order between links, one source dies and comes back, is damaged
    and has not everything; the other one has.
    """
    chance = random.Random(seed)
    ends = {f"{number:032X}": chance.randrange(1, 400) for number in range(6)}
    store, links = Store(), Links(chance)
    sources = {name: Source(chance, 400) for name in PEERS}
    sources[FIRST].damaged = {chance.randrange(400) for _ in range(3)}
    sources[FIRST].head = chance.randrange(400)
    for address, end in ends.items():
        store.want(end, PEERS, address)
    for _ in range(4000):
        for fetch in store.asks(0.25):
            if chance.random() > 0.05:
                for message in sources[fetch.store].answer(fetch):
                    links.send(fetch.store, message, store.now)
        links.deliver(store)
        sources[FIRST].dead ^= chance.random() < 0.01
        if chance.random() < 0.5:
            store.machine.settle()
        if not store.catch_up.lacking and not links.messages:
            break
    for address, end in ends.items():
        assert store.head(address) == end
    assert (store.catch_up._held, store.catch_up._asked) == (0, {})
    assert store.machine.queued_bytes == 0
