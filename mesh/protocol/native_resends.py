"""Whose FETCHes may be sent, and which answers are believed: a C producer sends wrong contents again.

A C producer that is asked for records of which it has heard no acknowledgement answers with other records'
contents: always behind its first 256, and wherever it has heard of a part of them (docs/mesh-protocol.md,
section 13). For what it knows to be acknowledged it does not answer. So of an address that is not one of our
producers' a FETCH is sent only for what some store says that it has, or for the first 256 records from 0 on.
What lies behind that is missing, and stays missing: better than wrong.

The producer hears each FETCH, and may not have heard the acknowledgement: its answer would race with the
store's. So an answer counts if a store of ours gives its name with it. One without a name is the producer's,
or a C store's: it counts up to the head that one of these has told, without a name as well; and where records
were asked for from 0 on, because a producer that answers that has heard no acknowledgement at all.

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
    """What may be asked for, of one store or consumer, and what is believed. With `ours_alone` all stores are
    ours, as a gateway's are.
    """

    def __init__(self, *, ours_alone: bool = False) -> None:
        self._ours_alone = ours_alone
        self.held_back = 0
        """FETCHes that were not sent."""
        self.disbelieved = 0
        """Answers that may be a producer's wrong ones."""
        self._heads: dict[str, int] = {}
        """Address -> how far some store has it."""
        self._unnamed: dict[str, int] = {}
        """The same, of stores that did not say which one they are."""
        self._from_first: dict[str, None] = {}
        """Addresses that were last asked for from 0 on."""
        self._asked: dict[str, float] = {}
        self.unasked: dict[str, None] = {}
        """Subjects of which `take_subjects` has something to tell."""

    def on_head(self, address: str, sequence: int, store: str) -> None:
        """A store has this address up to `sequence`; `store` is "" if it does not say which one it is."""
        if address.startswith(OURS):
            return
        _note(self._heads, address, sequence)
        if not store and not self._ours_alone:
            _note(self._unnamed, address, sequence)

    def allowed(self, fetch: Fetch, now: float) -> Fetch | None:
        """The FETCH as it may be sent, or None."""
        if fetch.address.startswith(OURS):
            return fetch
        count = min(fetch.count, self._heads.get(fetch.address, -1) - fetch.sequence + 1)
        if count < 1 and fetch.sequence == 0:
            count = min(fetch.count, FAITHFUL_RECORDS)
        if count < fetch.count and now >= self._asked.get(fetch.subject, now):
            self.unasked[fetch.subject] = None
        if count < 1:
            self.held_back += 1
            return None
        self._from_first.pop(fetch.address, None)
        if fetch.sequence == 0:
            self._from_first[fetch.address] = None
            if len(self._from_first) > MAX_TOLD_HEADS:
                del self._from_first[next(iter(self._from_first))]
        return fetch._replace(count=count)

    def takes(self, record: DirectRecord, by_store: bool | None = None) -> bool:
        """Whether an answer is to be believed. `by_store`: whether a store has sent it, where keys tell."""
        address, sequence = record.address, record.sequence
        if address.startswith(OURS) or by_store:
            return True
        if by_store is None and (record.store or sequence <= self._unnamed.get(address, -1)):
            return True
        if sequence < FAITHFUL_RECORDS and address in self._from_first:
            return True
        self.disbelieved += 1
        return False

    def take_subjects(self, now: float) -> list[str]:
        """The subjects of which stores are to be asked for their heads, now."""
        subjects = list(self.unasked)
        self.unasked.clear()
        self._asked = {subject: due for subject, due in self._asked.items() if due > now}
        self._asked |= dict.fromkeys(subjects, now + ASK_HEADS_SECONDS)
        return subjects


def _note(heads: dict[str, int], address: str, sequence: int) -> None:
    heads[address] = max(heads.pop(address, -1), sequence)
    if len(heads) > MAX_TOLD_HEADS:
        del heads[next(iter(heads))]
