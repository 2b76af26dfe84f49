"""Which FETCHes may be sent, and which answers are believed: a C producer sends wrong contents again.

A C producer that is asked for records of which it has heard no acknowledgement answers with other records'
contents: always behind its first 256, and once it has heard an acknowledgement of some of them
(docs/mesh-protocol.md, section 13). For what it knows to be acknowledged it does not answer. So of an address
that is not one of our producers' a FETCH is sent only for what some store says that it has, or for up to 256
records from 0 on. What lies behind that is missing, and stays missing: better than wrong.

The producer hears each FETCH, and may not have heard the acknowledgement: its answer would race with the
store's. So an answer counts if a store of ours gives its name with it. One without a name is the producer's,
or a C store's. It counts where a store without a name has told lately that it has the record, and none of
ours has; and of the first 256 records if they were asked for from 0 on, because a producer that answers that
has heard no acknowledgement at all. What a C store alone has remains in danger while its producer has not
heard so.

Our own producers' addresses begin with a letter that C's never have.
"""

from typing import NamedTuple, TypeVar
from uuid import uuid4

from wireproto.dafka.messages import DirectRecord, Fetch

_Value = TypeVar("_Value")

OURS = "d"
"""Begins the addresses of our native producers; C's are hex in upper case."""

FAITHFUL_RECORDS = 256
"""So many records from 0 on a C producer sends again as they were, while nobody has acknowledged any."""

ASK_HEADS_SECONDS = 0.5
"""How often stores are asked for the heads of a subject of which a FETCH was held back."""

TOLD_SECONDS = 15.0
"""How long it counts what a store has told: readers ask for heads three times meanwhile."""

MAX_TOLD_ADDRESSES = 65_536
"""Addresses of which is remembered what stores told; the oldest go first."""

MAX_TOLD_STORES = 16
"""Stores of which that is remembered for one address."""


def new_address() -> str:
    """An address for a producer of ours."""
    return OURS + uuid4().hex[1:]


class Told(NamedTuple):
    """What a store has told of one address: it has it from `first` to `head`, for all that is known until
    then.
    """

    first: int
    head: int
    until: float

    def has(self, sequence: int, now: float) -> bool:
        """Whether it has this record, and has said so lately."""
        return now < self.until and self.first <= sequence <= self.head


class Resends:
    """What may be asked for, of one store or consumer, and what is believed."""

    def __init__(self) -> None:
        self.held_back = 0
        """FETCHes that were not sent."""
        self.disbelieved = 0
        """Answers that may be a producer's wrong ones."""
        self._told: dict[str, dict[str, Told]] = {}
        """Address -> store -> what it told; "" are those that did not say which one they are."""
        self._from_first: dict[str, None] = {}
        """Addresses that were last asked for from 0 on."""
        self._asked: dict[str, float] = {}
        self.unasked: dict[str, None] = {}
        """Subjects of which `take_subjects` has something to tell."""

    def on_head(self, address: str, sequence: int, store: str, now: float) -> None:
        """A store has this address up to `sequence`; `store` is "" if it does not say which one it is."""
        if address.startswith(OURS):
            return
        told = self._told.get(address, {}).get(store)
        first = 0 if told is None else told.first
        if not store and told is not None and now < told.until:
            sequence = max(sequence, told.head)  # there may be several
        self._note(address, store, Told(first, sequence, now + TOLD_SECONDS))

    def on_begins(self, address: str, first: int, store: str, now: float) -> None:
        """This store of ours has nothing of an address before `first`."""
        if not address.startswith(OURS):
            told = self._told.get(address, {}).get(store)
            head = first - 1 if told is None else max(told.head, first - 1)
            self._note(address, store, Told(first, head, now + TOLD_SECONDS))

    def _note(self, address: str, store: str, told: Told) -> None:
        stores = self._told.get(address, {})
        _put_last(stores, store, told, MAX_TOLD_STORES)
        _put_last(self._told, address, stores, MAX_TOLD_ADDRESSES)

    def is_others(self, address: str) -> bool:
        """Whether stores that may be in C have told of it."""
        return "" in self._told.get(address, ())

    def allowed(self, fetch: Fetch, now: float) -> Fetch | None:
        """The FETCH as it may be sent, or None."""
        if fetch.address.startswith(OURS):
            return fetch
        head = max((told.head for told in self._told.get(fetch.address, {}).values()), default=-1)
        count = min(fetch.count, head - fetch.sequence + 1)
        if count < 1 and fetch.sequence == 0:
            count = min(fetch.count, FAITHFUL_RECORDS)
        if count < fetch.count:
            self._want_heads(fetch.subject, now)
        if count < 1:
            self.held_back += 1
            return None
        if fetch.sequence == 0:
            _put_last(self._from_first, fetch.address, None, MAX_TOLD_ADDRESSES)
        else:
            self._from_first.pop(fetch.address, None)
        return fetch._replace(count=count)

    def takes(self, record: DirectRecord, now: float, by_store: bool | None = None) -> bool:
        """Whether an answer is to be believed. `by_store`: whether a store has sent it, where keys tell."""
        address, sequence = record.address, record.sequence
        if address.startswith(OURS) or by_store:
            return True
        stores = self._told.get(address, {})
        is_ours = any(store and told.has(sequence, now) for store, told in stores.items())
        if by_store is None:
            others = stores.get("")
            if record.store or (not is_ours and others is not None and others.has(sequence, now)):
                return True
        if sequence < FAITHFUL_RECORDS and address in self._from_first:
            return True
        self.disbelieved += 1
        if not is_ours:
            self._want_heads(record.subject, now)
        return False

    def _want_heads(self, subject: str, now: float) -> None:
        if now >= self._asked.get(subject, now):
            self.unasked[subject] = None

    def take_subjects(self, now: float) -> list[str]:
        """The subjects of which stores are to be asked for their heads, now."""
        subjects = list(self.unasked)
        self.unasked.clear()
        self._asked = {subject: due for subject, due in self._asked.items() if due > now}
        self._asked |= dict.fromkeys(subjects, now + ASK_HEADS_SECONDS)
        return subjects


def _put_last(of: dict[str, _Value], key: str, value: _Value, most: int) -> None:
    """Remember it as the latest; the oldest goes if there are more."""
    of.pop(key, None)
    of[key] = value
    if len(of) > most:
        del of[next(iter(of))]
