"""Which FETCHes may be sent, and which answers are believed: a C producer sends wrong contents again.

A C producer that is asked for records of which it has heard no acknowledgement answers with other records'
contents: always behind its first 256, and once it has heard an acknowledgement of some of them
(docs/mesh-protocol.md, section 13). For what it knows to be acknowledged it does not answer. So of an address
that is not one of our producers' a FETCH is sent only for what some store says that it has, or for up to 256
records from 0 on. What lies behind that is missing, and stays missing: better than wrong.

The producer hears each FETCH, and may not have heard the acknowledgement: its answer would race with the
store's. So an answer counts if a store of ours gives its name with it. One without a name is the producer's,
or a C store's. It counts where a store without a name has told that it has the record, and none of ours has;
and of the first 256 records if they were asked for from 0 on, because a producer that answers that has heard
no acknowledgement at all. What a C store alone has remains in danger while its producer has not heard so.

Our own producers' addresses begin with a letter that C's never have.
"""

from uuid import uuid4

from wireproto.dafka.messages import DirectRecord, Fetch

OURS = "d"
"""Begins the addresses of our native producers; C's are hex in upper case."""

FAITHFUL_RECORDS = 256
"""So many records from 0 on a C producer sends again as they were, while nobody has acknowledged any."""

ASK_HEADS_SECONDS = 0.5
"""How often stores are asked for the heads of a subject of which a FETCH was held back."""

MAX_TOLD_HEADS = 65_536
"""Heads that stores told, of addresses whose records may be asked of stores alone; the oldest go first."""


def new_address() -> str:
    """An address for a producer of ours."""
    return OURS + uuid4().hex[1:]


class Resends:
    """What may be asked for, of one store or consumer, and what is believed."""

    def __init__(self) -> None:
        self.held_back = 0
        """FETCHes that were not sent."""
        self.disbelieved = 0
        """Answers that may be a producer's wrong ones."""
        self._named: dict[str, int] = {}
        """Address -> how far a store has it that said which one it is: one of ours."""
        self._unnamed: dict[str, int] = {}
        """The same, of stores that did not say that."""
        self._begins: dict[str, int] = {}
        """Address -> the lowest sequence from which on stores said that they have it."""
        self._from_first: dict[str, int] = {}
        """Addresses that were last asked for from 0 on."""
        self._asked: dict[str, float] = {}
        self.unasked: dict[str, None] = {}
        """Subjects of which `take_subjects` has something to tell."""

    def on_head(self, address: str, sequence: int, store: str) -> None:
        """A store has this address up to `sequence`; `store` is "" if it does not say which one it is."""
        if address.startswith(OURS):
            return
        heads = self._named if store else self._unnamed
        _note(heads, address, max(heads.get(address, -1), sequence))

    def on_begins(self, address: str, first: int) -> None:
        """A store of ours has nothing of this address before `first`."""
        if not address.startswith(OURS):
            _note(self._begins, address, min(self._begins.get(address, first), first))

    def is_others(self, address: str) -> bool:
        """Whether stores that may be in C have told of it."""
        return address in self._unnamed

    def allowed(self, fetch: Fetch, now: float) -> Fetch | None:
        """The FETCH as it may be sent, or None."""
        if fetch.address.startswith(OURS):
            return fetch
        count = min(fetch.count, self._head(fetch.address) - fetch.sequence + 1)
        if count < 1 and fetch.sequence == 0:
            count = min(fetch.count, FAITHFUL_RECORDS)
        if count < fetch.count and now >= self._asked.get(fetch.subject, now):
            self.unasked[fetch.subject] = None
        if count < 1:
            self.held_back += 1
            return None
        self._from_first.pop(fetch.address, None)
        if fetch.sequence == 0:
            _note(self._from_first, fetch.address, 0)
        return fetch._replace(count=count)

    def takes(self, record: DirectRecord, by_store: bool | None = None) -> bool:
        """Whether an answer is to be believed. `by_store`: whether a store has sent it, where keys tell."""
        address, sequence = record.address, record.sequence
        if address.startswith(OURS) or by_store:
            return True
        if by_store is None and (record.store or self._is_others_alone(address, sequence)):
            return True
        if sequence < FAITHFUL_RECORDS and address in self._from_first:
            return True
        self.disbelieved += 1
        return False

    def _head(self, address: str) -> int:
        return max(self._named.get(address, -1), self._unnamed.get(address, -1))

    def _is_others_alone(self, address: str, sequence: int) -> bool:
        """Whether a store has told of it that may be in C, and none of ours has it as far as is known."""
        ours = self._begins.get(address, 0) <= sequence <= self._named.get(address, -1)
        return not ours and sequence <= self._unnamed.get(address, -1)

    def take_subjects(self, now: float) -> list[str]:
        """The subjects of which stores are to be asked for their heads, now."""
        subjects = list(self.unasked)
        self.unasked.clear()
        self._asked = {subject: due for subject, due in self._asked.items() if due > now}
        self._asked |= dict.fromkeys(subjects, now + ASK_HEADS_SECONDS)
        return subjects


def _note(of: dict[str, int], address: str, number: int) -> None:
    """Remember it as the latest; the one that is the oldest goes if there are too many."""
    of.pop(address, None)
    of[address] = number
    if len(of) > MAX_TOLD_HEADS:
        del of[next(iter(of))]
