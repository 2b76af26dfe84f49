"""What a store fetches from other stores: which ranges, from whom, how many at once, and when again.

Rules: what was fetched goes through `Ingest.on_copy`, in order and checked there; a source that has not the
range, cannot read it, gives a bad copy of it or keeps silent is left alone for a while and another is asked;
live traffic goes first; what is on its way or waits here is bounded.

Theory of operation: `Ingest.take_wants` names addresses (`Want`). Each has its ranges: asked for, or here and
waiting for those before them. Addresses take turns, and so do an address's sources; a first range shows how
large its records are, then up to `RANGES_AN_ADDRESS` are under way. A range asks for so many records as fit
`RANGE_BYTES` and gives back what did not come (`_Address.holes`), which is asked for before anything new. Who
has nothing to be asked for rests in a heap until its sources may be asked again.

Time comes with every call; `take_effects` is to be called whenever messages were handled, a commit is
durable, and at `next_due`.
"""

import heapq
import logging
from collections import deque
from collections.abc import Callable
from functools import partial

from mesh.protocol.copied_address import RANGE_BYTES, REST_LAST_SECONDS, Copied, Range, Rest
from mesh.protocol.copying import Taken, Want
from mesh.protocol.ingest import Ingest
from mesh.protocol.token_bucket import TokenBucket
from wireproto.dafka.additions import STATUS_DONE, STATUS_NOT_HERE, End
from wireproto.dafka.fields import MAX_TOPIC_BYTES
from wireproto.dafka.messages import DirectRecord, Fetch, directed_topic

RANGES_AT_ONCE = 8
"""Ranges asked for at the same time, of all addresses: enough to keep a link and two read threads busy."""

MAX_HELD_BYTES = 32 * 1024 * 1024
"""Content that is asked for or waits for what lies before it, beyond which only what is first is asked for. A
record larger than a range comes on top of it, once for each range."""

CATCH_UP_BYTES_PER_SECOND = 1024 * 1024 * 1024
"""Content asked for in a second: more than a disk takes, so that only the rules for live traffic bound it. To
be set lower where copies must leave room on a network or a source's disk."""

LIVE_FIRST_BYTES = 4 * 1024 * 1024
"""Records that wait for a commit, beyond which nothing more is asked for: producers have the disk busy."""

RECORDS_AT_ONCE = 1024
"""Records given to `Ingest` in one call, about 12 ms of checks; then others have their turn."""

UNLINKED_SECONDS = 0.5
"""How often is looked whether a source is linked by now."""

ANSWER_SECONDS = 5.0
"""A source that sends nothing for so long keeps silent; its range goes to another."""

BAD_COPY_SECONDS = 60.0
"""How long a source is left alone about an address of which it gave a bad copy."""

logger = logging.getLogger(__name__)


class CatchUp:
    """One store's. `life` begins the requester ids of its FETCHes; `is_linked` says whether a store would
    hear them: one that would not is not asked.
    """

    def __init__(
        self,
        ingest: Ingest,
        life: str,
        bytes_per_second: float = CATCH_UP_BYTES_PER_SECOND,
        is_linked: Callable[[str], bool] = lambda _store: True,
    ) -> None:
        self.ranges = 0
        """Ranges that were asked for."""
        self.silences = 0
        """Those whose source did not answer in time."""
        self.refusals = 0
        """Those whose source had nothing of them, or could not read it."""
        self.has_more = False
        """Whether `take_effects` left records that it is to be called for again, at once."""
        self.unasked = 0
        """Records and ENDs that nobody had asked for."""
        self._ingest = ingest
        self._life = life
        self._is_linked = is_linked
        self._bucket = TokenBucket(bytes_per_second)
        self._count = 0
        self._copied: dict[str, Copied] = {}
        self._turns: deque[Copied] = deque()
        """Those that may have something to be asked for."""
        self._resting: list[tuple[float, int, Copied]] = []
        """A heap: (until when, number, who)."""
        self._asked: dict[str, Range] = {}
        """requester -> the range that it stands for."""
        self._arrived: dict[str, Copied] = {}
        """Those whose first range has records that `Ingest` may take."""
        self._silent: dict[str, Rest] = {}
        self._held = 0
        self._room = 0
        """Records that this call of `take_effects` may still give."""

    @property
    def lacking(self) -> int:
        """Addresses whose records are being fetched."""
        return len(self._copied)

    # events -----------------------------------------------------------------------------------------------

    def on_record(self, record: DirectRecord, now: float) -> None:
        """A record that some store sent. What was not asked for, or comes out of turn, is dropped."""
        asked = self._asked.get(record.requester)
        if asked is None or (record.store, record.address) != (asked.source, asked.address):
            self.unasked += 1
            return
        asked.deadline = now + ANSWER_SECONDS
        self._silent.pop(asked.source, None)
        if asked.wants(record.sequence):
            self._held -= asked.cost
            asked.put(bytes(record.content))
            self._held += asked.cost
            self._arrived[asked.address] = self._copied[asked.address]

    def on_end(self, end: End, now: float) -> None:
        """A store has answered a range; `end.last` says how far, or why not at all."""
        asked = self._asked.get(end.requester)
        if asked is None or (end.store, end.last.address) != (asked.source, asked.address):
            self.unasked += 1
            return
        copied = self._copied[asked.address]
        self._silent.pop(asked.source, None)
        if asked.received:
            copied.rests.pop(asked.source, None)
            copied.learn(asked)
        elif end.last.status == STATUS_DONE:
            # Lost on the link, all of it.
            copied.rest(asked.source, now)
        else:
            self.refusals += 1
            soon = end.last.status == STATUS_NOT_HERE and copied.want.lasting
            copied.rest(asked.source, now, 0.0 if soon else REST_LAST_SECONDS)
        self._finish(copied, asked)

    def take_effects(self, now: float) -> list[Fetch]:
        """Give what is here to `Ingest`; the FETCHes that are to be sent."""
        self.has_more = False
        wants = self._ingest.take_wants()
        if not wants and not self._copied:
            # What is still in turn or rests is of addresses that are no longer copied.
            if self._turns or self._resting:
                self._turns.clear()
                self._resting.clear()
            return []
        for address, want in wants.items():
            self._take_want(address, want)
        self._expire(now)
        self._give(now)
        while self._resting and self._resting[0][0] <= now:
            self._queue(heapq.heappop(self._resting)[2])
        return self._ask(now)

    def next_due(self) -> float | None:
        """When `take_effects` has something to do though nothing happened; None for never."""
        if not self._copied:
            return None
        if self._arrived or self._turns:
            return 0.0
        due = min((asked.deadline for asked in self._asked.values()), default=None)
        if self._resting and (due is None or self._resting[0][0] < due):
            return self._resting[0][0]
        return due

    # wants ------------------------------------------------------------------------------------------------

    def _take_want(self, address: str, want: Want | None) -> None:
        copied = self._copied.get(address)
        if copied is not None and (want is None or want.state is not copied.state):
            self._drop(copied)
            copied = None
        if want is None:
            return
        sources = tuple(source for source in want.sources if _fits(address, source))
        if not sources:
            logger.error("address %s lacks records, and its name is too long to ask for them", address)
        elif copied is None:
            self._queue_new(Copied(want._replace(sources=sources)))
        else:
            last = want.last if want.lasting else max(want.last, copied.want.last)
            copied.want = want._replace(sources=sources, last=last)
            self._queue(copied)

    def _queue_new(self, copied: Copied) -> None:
        self._copied[copied.state.address] = copied
        self._queue(copied)

    def _queue(self, copied: Copied) -> None:
        if not copied.is_queued and self._is_current(copied):
            copied.is_queued = True
            self._turns.append(copied)

    def _is_current(self, copied: Copied) -> bool:
        return self._copied.get(copied.state.address) is copied

    def _drop(self, copied: Copied) -> None:
        address = copied.state.address
        del self._copied[address]
        self._arrived.pop(address, None)
        for one in copied.ranges:
            self._asked.pop(one.requester, None)
            self._held -= one.cost
        copied.ranges.clear()

    # records ----------------------------------------------------------------------------------------------

    def _give(self, now: float) -> None:
        """Have `Ingest` take what is next of each address."""
        self._room = RECORDS_AT_ONCE
        for address, copied in list(self._arrived.items()):
            if not self._give_ranges(copied, now):
                self._arrived.pop(address, None)
        self.has_more = not self._room

    def _give_ranges(self, copied: Copied, now: float) -> bool:
        """True if there is more to give, at once or as soon as `Ingest` has room for it."""
        while copied.ranges:
            front = copied.ranges[0]
            self._skip(front, copied.state.accepted)
            if front.is_used_up or front.last <= copied.state.accepted:
                self._remove(copied, front)
            elif not front.records or front.first != copied.state.accepted + 1:
                return False
            elif not self._room:
                return True
            else:
                self._room -= 1
                taken = self._ingest.on_copy(
                    copied.state.address, front.first, front.records[0], front.source, now
                )
                if taken is Taken.NOT_NOW:
                    return True
                if taken is Taken.UNWANTED:
                    self._drop(copied)
                elif taken is Taken.BAD:
                    copied.rest(front.source, now, BAD_COPY_SECONDS)
                    copied.put_back(front.first, front.last)
                    self._remove(copied, front)
        return False

    def _skip(self, front: Range, accepted: int) -> None:
        """What was accepted, from here or from the writer, is not held any longer."""
        self._held -= front.cost
        front.skip(accepted)
        self._held += front.cost

    def _remove(self, copied: Copied, one: Range) -> None:
        """Nothing of this range is held or expected any more."""
        self._asked.pop(one.requester, None)
        self._held -= one.cost
        copied.ranges.remove(one)
        self._queue(copied)

    def _finish(self, copied: Copied, asked: Range) -> None:
        """Nothing more comes of this range; what did not come is to be asked for again."""
        del self._asked[asked.requester]
        self._bucket.give_back(RANGE_BYTES - asked.received)
        self._held -= asked.cost
        asked.is_here = True
        self._held += asked.cost
        copied.put_back(asked.next, asked.last)
        asked.last = asked.next - 1
        self._arrived[asked.address] = copied
        self._queue(copied)

    def _expire(self, now: float) -> None:
        for asked in [asked for asked in self._asked.values() if asked.deadline <= now]:
            self.silences += 1
            rest = self._silent.setdefault(asked.source, Rest())
            if rest.until <= now:
                logger.warning("store %s does not answer: %s is asked of others", asked.source, asked.address)
                rest.begin(now)
            self._finish(self._copied[asked.address], asked)

    # asking -----------------------------------------------------------------------------------------------

    def _ask(self, now: float) -> list[Fetch]:
        fetches: list[Fetch] = []
        blocked: list[Copied] = []
        while (
            self._turns
            and len(self._asked) < RANGES_AT_ONCE
            and len(blocked) < RANGES_AT_ONCE
            and self._ingest.queued_bytes <= LIVE_FIRST_BYTES
            and self._bucket.has_some(now)
        ):
            copied = self._turns.popleft()
            copied.is_queued = False
            if not self._is_current(copied):
                continue
            wanted = copied.wanted_range()
            if wanted is None:
                if not copied.want.lasting and not copied.ranges:
                    self._drop(copied)
            elif wanted[0] != copied.state.accepted + 1 and self._held >= MAX_HELD_BYTES:
                blocked.append(copied)
            elif (source := copied.source(partial(self._may_be_asked, now), now)) is None:
                self._rest(copied, now)
            else:
                fetches.append(self._fetch(copied, wanted, source, now))
                self._queue(copied)
        for copied in blocked:
            self._queue(copied)
        return fetches

    def _fetch(self, copied: Copied, wanted: tuple[int, int], source: str, now: float) -> Fetch:
        first, last = wanted
        self._count += 1
        self.ranges += 1
        requester = f"{self._life}{self._count:016X}"
        state = copied.state
        asked = Range(state.address, first, last, source, requester, now + ANSWER_SECONDS)
        copied.ask(asked)
        self._asked[requester] = asked
        self._held += asked.cost
        self._bucket.take(RANGE_BYTES)
        return Fetch(state.address, requester, state.subject, first, last - first + 1, source, RANGE_BYTES)

    def _may_be_asked(self, now: float, source: str) -> float:
        """When a source may be asked about anything."""
        rest = self._silent.get(source)
        until = 0.0 if rest is None else rest.until
        return until if self._is_linked(source) else max(until, now + UNLINKED_SECONDS)

    def _rest(self, copied: Copied, now: float) -> None:
        """None of its sources may be asked now."""
        if copied.want.lasting or not copied.is_exhausted:
            if copied.want.lasting and not copied.was_said:
                copied.was_said = True
                logger.warning(
                    "address %s lacks the records from %d to %d: the stores %s do not give them now",
                    copied.state.address,
                    copied.state.accepted + 1,
                    copied.want.last,
                    ", ".join(copied.want.sources),
                )
            self._count += 1
            due = copied.may_go_on(partial(self._may_be_asked, now))
            heapq.heappush(self._resting, (due, self._count, copied))
        elif not copied.ranges:
            self._drop(copied)


def _fits(address: str, source: str) -> bool:
    """Whether a FETCH of this address may be directed at this store."""
    return len(directed_topic(source, address)) <= MAX_TOPIC_BYTES
