"""Whose FETCHes may be sent: a C producer sends wrong contents again, and must not be asked for them.

A C producer that is asked for records that nobody has acknowledged answers with other records' contents:
always behind its first 256, and wherever a store has acknowledged a part of them (docs/mesh-protocol.md,
section 13). For what is acknowledged it does not answer. So of an address that is not one of our producers' a
FETCH is sent only for what some store says that it has, or for the first 256 records from 0 on. What lies
behind that is missing, and stays missing: better than wrong.

Our own producers' addresses begin with a letter that C's never have.
"""

from uuid import uuid4

from wireproto.dafka.messages import Fetch

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
    """What may be asked for, of one store or consumer."""

    def __init__(self) -> None:
        self.held_back = 0
        """FETCHes that were not sent."""
        self._heads: dict[str, int] = {}
        self._asked: dict[str, float] = {}
        self.unasked: dict[str, None] = {}
        """Subjects of which `take_subjects` has something to tell."""

    def on_head(self, address: str, sequence: int) -> None:
        """A store has this address up to `sequence`."""
        if address.startswith(OURS):
            return
        known = self._heads.pop(address, -1)
        self._heads[address] = max(known, sequence)
        if len(self._heads) > MAX_TOLD_HEADS:
            del self._heads[next(iter(self._heads))]

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
        return fetch._replace(count=count)

    def take_subjects(self, now: float) -> list[str]:
        """The subjects of which stores are to be asked for their heads, now."""
        subjects = list(self.unasked)
        self.unasked.clear()
        self._asked = {subject: due for subject, due in self._asked.items() if due > now}
        self._asked |= dict.fromkeys(subjects, now + ASK_HEADS_SECONDS)
        return subjects
