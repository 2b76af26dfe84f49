"""Reads closed segments again and again in the background, and mends what is damaged before readers need it.

A disk loses bits silently; RocksDB notices when it reads them, and what it cannot notice the checks of
`checking` do. One segment is read at a time, in slices (`slices`) in a worker thread, with rests between that
keep a bounded rate. What fails is marked at once (`damage`), so that nobody is given it, and fetched again
from another member (`mender`); what does not is compared with the other members by digest. A member that
lacks the copy that it should keep is asked to make it again (`refill`). What cannot be mended is told, by log
and metrics, and tried again by each pass.

A segment in which a reader met damage is looked at without waiting for its turn.

Of each segment that is whole the digest of its records is kept: those of all members are equal.
"""

import logging
from itertools import groupby
from typing import NamedTuple

import trio

from mesh.protocol.address_state import AddressState, Phase
from mesh.protocol.disk import StoreCorrupt
from mesh.protocol.scrubbing import Verdict
from mesh.store.checking import AddressCheck, digest_of
from mesh.store.damage import BadRange, Damage
from mesh.store.db import Database
from mesh.store.mender import Mender
from mesh.store.slices import Slice, read_slice

SCRUB_BYTES_PER_SECOND = 4 * 1024 * 1024
"""How fast a store reads its own records again: a terabyte in three days, and a few hundredths of a disk. It
reads as much again for each other member that compares with it."""

SCRUB_FIRST_SECONDS = 300.0
"""How long after a start the first pass begins, if passes do not rest for less: a start has better things to
do."""

SCRUB_REST_SECONDS = 3600.0
"""Rest between two passes."""

MAX_DIGESTS = 10_000
"""Segments whose digests are kept in memory, the latest ones, and those in which stores differ."""

MAX_HURRIED = 1024
"""Segments that wait for a look out of turn; others wait for the next pass."""

HURRY_SECONDS = 60.0
"""How long after a look a segment is not looked at out of turn again: readers may meet the same damage often.
"""

ADDRESSES_AT_ONCE = 256
"""Addresses listed at once."""

RENEW = (
    "If other stores keep the same segments, give this store a new disk: start an empty store and let it "
    "take this one's place (dafka store replace)"
)

START_OTHERS = "Start the stores that are away: it is tried again with each pass"

NO_COPY = (
    "No other store has a good copy: restore one of these stores from a copy of its directory; readers get "
    "an error for this range until then"
)

LOOK_AT_THE_DISK = (
    "A store that lost what it had still counts as one that has it: see whether its disk is mounted, and the "
    "data on it is its own"
)

logger = logging.getLogger(__name__)


class Scrub:
    """One store's. The counters are since the start."""

    def __init__(
        self,
        database: Database,
        damage: Damage,
        mender: Mender,
        bytes_per_second: float = SCRUB_BYTES_PER_SECOND,
        rest_seconds: float = SCRUB_REST_SECONDS,
    ) -> None:
        self.passes = 0
        self.segments = 0
        self.bytes = 0
        self.bad_ranges = 0
        """Ranges that were found damaged, each once until it is mended."""
        self.repaired_ranges = 0
        self.differing: dict[str, str] = {}
        """address -> which members have other records, each good for itself, of the latest pass over it."""
        self.absent: dict[str, str] = {}
        """address -> which members lacked it, and were asked to copy it again, of the latest pass over it."""
        self.unreadable: dict[str, str] = {}
        """address -> why its head or phase cannot be read."""
        self.digests: dict[str, str] = {}
        """address -> digest, as `AddressCheck.digest`."""
        self.damage = damage
        self._database = database
        self._mender = mender
        self._rate = bytes_per_second
        self._rest = rest_seconds
        self._hurried: dict[str, None] = {}
        self._looked: dict[str, float] = {}
        """address -> when it was looked at out of turn."""
        self._lacking: dict[str, int] = {}
        """Member -> how many segments it lacked in this pass, as far as it has come."""
        self._unended: dict[str, int] = {}
        """Member -> of how many it did not know the end."""
        self._wake = trio.Event()

    def hurry(self, address: str) -> None:
        """A reader met damage in this segment: look at it soon."""
        now = trio.current_time()
        if len(self._hurried) < MAX_HURRIED and self._looked.get(address, 0.0) <= now:
            self._looked.pop(address, None)
            self._looked[address] = now + HURRY_SECONDS
            if len(self._looked) > MAX_HURRIED:
                del self._looked[next(iter(self._looked))]
            self._hurried[address] = None
            self._wake.set()

    async def run(self) -> None:
        """Scrub for ever. Nothing that goes wrong here ends the store."""
        due = trio.current_time() + min(SCRUB_FIRST_SECONDS, self._rest)
        while True:
            with trio.move_on_at(due):
                await self._wake.wait()
            try:
                await self._scrub_hurried()
                if trio.current_time() >= due:
                    await self.scrub_all()
            except StoreCorrupt as error:
                logger.error("the addresses cannot be listed, and are not scrubbed: %s. %s", error, RENEW)
            except Exception:
                logger.exception("the scrub failed unexpectedly, and goes on later")
            if trio.current_time() >= due:
                due = trio.current_time() + self._rest

    async def scrub_all(self) -> None:
        """One pass over all closed segments. Raises `StoreCorrupt` when they cannot be listed."""
        last = ""
        while True:
            addresses = await trio.to_thread.run_sync(self._list_behind, last)
            for address in addresses:
                await self._scrub_hurried()
                if self.damage.is_full:
                    logger.error("too much is damaged for more to be looked for. %s", RENEW)
                    return
                await self.scrub(address)
            if len(addresses) < ADDRESSES_AT_ONCE:
                break
            last = addresses[-1]
        self.passes += 1
        self._say_what_was_lacking()

    async def _scrub_hurried(self) -> None:
        self._wake = trio.Event()
        while self._hurried:
            address = next(iter(self._hurried))
            del self._hurried[address]
            await self.scrub(address)

    def _list_behind(self, last: str) -> list[str]:
        return self._database.addresses(last, ADDRESSES_AT_ONCE, behind=bool(last))

    # one segment ------------------------------------------------------------------------------------------

    async def scrub(self, address: str) -> None:
        """One segment, if it is closed and whole. Everything else may change meanwhile."""
        try:
            state = await self._load(address)
        except StoreCorrupt as error:
            self._tell_unreadable(address, str(error))
            return
        self.unreadable.pop(address, None)
        if state is None:
            self._forget(address)
            return
        others = _Others()
        digest = await self._scrub_slices(state, others)
        self.segments += 1
        if await self._is_gone(address):
            self._forget(address)
            return
        lacking = [member for member in others.absent if await self._refill(state, member)]
        _put(self.absent, address, ", ".join(f"store {member} does not have it" for member in lacking))
        _put(self.differing, address, others.differing)
        _put(self.digests, address, digest)

    async def _load(self, address: str) -> AddressState | None:
        """The state of a segment that is closed and whole, else None. Raises `StoreCorrupt`."""
        state = await trio.to_thread.run_sync(self._database.load, address)
        if state is None or state.announcement is None or state.phase is not Phase.CLOSED:
            return None
        return state if state.head == state.end else None

    async def _is_gone(self, address: str) -> bool:
        try:
            return await self._load(address) is None
        except StoreCorrupt:
            return False

    def _forget(self, address: str) -> None:
        """It was deleted, or is no closed segment."""
        self.damage.forget(address)
        self.differing.pop(address, None)
        self.absent.pop(address, None)
        self.digests.pop(address, None)

    async def _scrub_slices(self, state: AddressState, others: "_Others") -> str:
        """All of it, slice by slice; the digest of all its records, "" if some were damaged."""
        check = AddressCheck(state)
        bad: list[BadRange] = []
        while check.next <= state.head:
            looked = await trio.to_thread.run_sync(_look, self._database, state, check)
            if looked.bad:
                bad += looked.bad
                await self._mend_all(state, _runs(looked.bad))
            else:
                self.damage.mended(state.address, looked.first, looked.last)
                await self._compare(state, looked, others)
            self.bytes += looked.size
            await trio.sleep(looked.size / self._rate)
        if not bad or bad[-1].last != state.head:
            wrong = check.end()
            if wrong:
                await self._mend_all(state, [BadRange(state.head, state.head, wrong)])
        return "" if bad else check.digest

    async def _compare(self, state: AddressState, looked: "_Looked", others: "_Others") -> None:
        decided = await self._mender.compare(state, looked.first, looked.last, looked.digest)
        others.absent.update(dict.fromkeys(decided.absent))
        if decided.verdict is not Verdict.DIFFERS or others.differing or await self._is_gone(state.address):
            return
        others.differing = f"sequence {looked.first} to {looked.last}: {decided.text}"
        logger.error(
            "address %s (%s), %s. Each copy is good for itself, so nothing is changed: see which of these "
            "stores is wrong, and replace it",
            state.address,
            state.subject,
            others.differing,
        )

    async def _refill(self, state: AddressState, member: str) -> bool:
        """Whether a member lacks a segment; it copies it again then."""
        knew = await self._mender.refill(state, member)
        if knew is None:
            return False
        if knew is not Phase.NATIVE:
            logger.log(
                logging.DEBUG if member in self._unended else logging.INFO,
                "store %s did not know the end of segment %s (%s)",
                member,
                state.address,
                state.subject,
            )
            self._unended[member] = self._unended.get(member, 0) + 1
            return True
        logger.log(
            logging.DEBUG if member in self._lacking else logging.ERROR,
            "store %s lacks a segment that it should keep, %s (%s): it copies it again. %s",
            member,
            state.address,
            state.subject,
            LOOK_AT_THE_DISK,
        )
        self._lacking[member] = self._lacking.get(member, 0) + 1
        return True

    def _say_what_was_lacking(self) -> None:
        for member, count in self._lacking.items():
            logger.warning("store %s lacked %d segments in this pass, and copies them again", member, count)
        for member, count in self._unended.items():
            logger.info("store %s did not know the ends of %d segments in this pass", member, count)
        self._lacking.clear()
        self._unended.clear()

    async def _mend_all(self, state: AddressState, bad: list[BadRange]) -> None:
        """Keep damaged ranges from readers, and have them written again."""
        if await self._is_gone(state.address):
            self._forget(state.address)
            return
        for one in bad:
            if self.damage.mark(state.address, one):
                self.bad_ranges += 1
                logger.error(
                    "address %s (%s) is damaged on this disk, sequence %d to %d: %s. It is served by other "
                    "stores, and fetched from them",
                    state.address,
                    state.subject,
                    one.first,
                    one.last,
                    one.why,
                )
        for one in bad:
            await self._mend(state, one)

    async def _mend(self, state: AddressState, bad: BadRange) -> None:
        decided = await self._mender.mend(state, bad.first, bad.last)
        if decided.verdict is Verdict.GOOD:
            self.damage.mended(state.address, bad.first, bad.last)
            self.repaired_ranges += 1
            logger.warning(
                "address %s (%s), sequence %d to %d is repaired, %s. Replace a disk that loses bits",
                state.address,
                state.subject,
                bad.first,
                bad.last,
                decided.text,
            )
            return
        self.damage.mark(state.address, bad._replace(is_irreparable=decided.verdict is Verdict.NO_COPY))
        logger.error(
            "address %s (%s), sequence %d to %d cannot be repaired now: %s. %s",
            state.address,
            state.subject,
            bad.first,
            bad.last,
            decided.text,
            START_OTHERS if decided.verdict is Verdict.LATER else NO_COPY,
        )

    def _tell_unreadable(self, address: str, wrong: str) -> None:
        _put(self.unreadable, address, wrong)
        self.digests.pop(address, None)
        logger.error("address %s cannot be looked at: %s. %s", address, wrong, RENEW)


class _Others:
    """What the other members have of one segment."""

    def __init__(self) -> None:
        self.differing = ""
        """Who has other records, of the first range where that is so."""
        self.absent: dict[str, None] = {}
        """Who has not all of it."""


class _Looked(NamedTuple):
    """What is in a slice: records `first` to `last`, `size` bytes that could be read."""

    first: int
    last: int
    size: int
    bad: list[BadRange]
    digest: bytes
    """The digest of all of them, if none is bad."""


def _look(database: Database, state: AddressState, check: AddressCheck) -> _Looked:
    """Read the next slice and check it. Blocking: for a worker thread."""
    piece = read_slice(database, state, check.next)
    contents = [content for content, _ in piece.records if content is not None]
    bad = _check(check, piece)
    digest = b"" if bad else digest_of(contents)
    return _Looked(piece.first, piece.last, sum(map(len, contents)), bad, digest)


def _check(check: AddressCheck, piece: Slice) -> list[BadRange]:
    """The records of a slice that are not as they must be, one by one."""
    bad = []
    for sequence, (content, row) in enumerate(piece.records, piece.first):
        if content is None:
            check.skip(sequence + 1)
            wrong = piece.trouble
        else:
            wrong = check.take(sequence, content, row)
            if row is None and piece.trouble:
                wrong = piece.trouble
        if wrong:
            bad.append(BadRange(sequence, sequence, wrong))
    return bad


def _runs(bad: list[BadRange]) -> list[BadRange]:
    """Neighbours as one range."""
    runs = []
    for _, numbered in groupby(enumerate(bad), lambda entry: entry[1].first - entry[0]):
        run = [one for _, one in numbered]
        runs.append(run[0]._replace(last=run[-1].last))
    return runs


def _put(kept: dict[str, str], address: str, value: str) -> None:
    """Keep what was found of a segment; "" for nothing."""
    kept.pop(address, None)
    if not value:
        return
    kept[address] = value
    if len(kept) > MAX_DIGESTS:
        del kept[next(iter(kept))]
