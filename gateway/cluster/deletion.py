"""Deleting topics: the tombstone first, then the stores, for as long as it takes.

Rule: the tombstone is in the catalog before any DELETE is sent, and stays until every member has confirmed;
absence from a catalog never deletes anything. Nor is anything deleted on the word of a catalog that the
stores have not vouched for (`gateway.cluster.remembering`). A deleted topic's name may be used again at once:
its segments' addresses and its id are never used again.

Rule: nothing is deleted for the last time before it has been in the list for a while, one minute unless the
operator says otherwise. That is grace and not safety: whoever notices within it that something went which
should not have stops the gateway, and all of it is still there. What an earlier life has left waits as long
again.

The transaction that deletes a topic is small: the topic's key goes, the tombstone comes. Everything else of
it in the catalog is the worker's list of what the stores have to forget, and goes piece by piece after that.
Segments that left their chain (retention, DeleteRecords, compaction, or recovery that found them empty) take
the same way.

A store refuses to delete what a newer catalog has told it of since this one decided so, or what another one
told it: that stays in the list, too, and is said once.

What a store cannot delete, because its disk cannot be read there, or because it is away, stays in the list
and is tried again after a pause; everything else goes on meanwhile. Who has confirmed is not asked again, and
as long as all others are away nobody is: a store that is away for days may leave a hundred thousand segments.
So a round looks at what has come into the list since the one before and at what is to be tried again now, and
not at all that waits.
"""

import contextlib
import logging
import math
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import trio

from gateway.catalog import keys
from gateway.catalog.interface import Compare, CompareFailed, Entry, HistoryLost
from gateway.catalog.keys import address_of_segment, log_name
from gateway.cluster.grace import Grace
from gateway.cluster.pins import Pins
from gateway.cluster.stores import Stores
from gateway.log.context import LogContext
from gateway.log.notes import Note, take_notes
from gateway.log.recovery.verification import RESTORE
from gateway.log.topic import Topic
from mesh.segment_requests import REASONS
from wireproto.dafka.additions import (
    NO_EPOCH,
    STATUS_DONE,
    STATUS_OTHER_HISTORY,
    STATUS_STALE_EPOCH,
    AddressStatus,
    DeleteEntry,
)

SEGMENTS_AT_ONCE = 256
"""Segments whose addresses are deleted, and then their keys, in one step."""

KEYS_AT_ONCE = 100
"""Keys that are deleted in one transaction."""

LOOKED_AT_ONCE = SEGMENTS_AT_ONCE
"""Entries of the catalog looked at before other tasks run: a quarter of a millisecond."""

RETRY_SECONDS = 30.0
"""Pause before a store is asked again to delete what it could not: every try reads the bad place of its disk,
and that seldom heals by itself."""

PINNED_SECONDS = 5.0
"""Pause before it is looked again whether a backup still reads a segment that is to be deleted."""

KEPT_SECONDS = 1.0
"""How long a round waits for the stores to remember what has left the catalog."""

OTHER_CATALOGS = frozenset((STATUS_OTHER_HISTORY, STATUS_STALE_EPOCH))
"""What a store says that knows of a newer catalog than this one, or of another."""

ANSWER_SECONDS = 20.0
"""How long a store may take for one request; then it is asked again as one that could not."""

logger = logging.getLogger(__name__)


class _Unconfirmed(NamedTuple):
    """A segment that has been asked to be deleted: which members have not confirmed, and when they are asked
    again. `revision` is that of the catalog's entry then: another one may have other members.
    """

    revision: int
    members: tuple[str, ...]
    again: float


class Deletion:
    """Owns the task that empties the stores."""

    def __init__(self, context: LogContext, stores: Stores, delay_seconds: float = 0.0) -> None:
        self._context = context
        self._grace = Grace(delay_seconds)
        self._old = -math.inf
        """The revision up to which tombstones are old enough, in this round."""
        self.pins = Pins()
        """What a backup reads."""
        self._stores = stores
        self._work = trio.Event()
        self._work.set()
        self._now = -math.inf
        """When the round that is under way began."""
        self._looked = -1
        """The revision of the catalog up to which what has come into the list is known."""
        self._waiting: dict[str, int] = {}
        """Address -> revision, ascending: the tombstones of segments that nobody was asked to delete yet."""
        self._unconfirmed: dict[str, _Unconfirmed] = {}
        """By address: those that some member could not delete."""
        self._retries: deque[tuple[float, str]] = deque()
        """(when, address), ascending: the tombstones among them that are asked about again."""
        self._topics_again: dict[str, float] = {}
        """The deleted topics of which some segment is not confirmed: when they are looked at again."""
        self.refused = 0
        """Segments that a store would not delete on this catalog's word."""
        self._refusing: set[str] = set()
        """The stores of which that was said."""
        self._remembered = True
        """Enough stores remember the catalog as it was when this round began."""
        self._put_off_until = math.inf
        """When what waits for that is looked at again."""
        context.on_segments_dropped(self._work_is_there)
        context.on_segments_gained(self._look_anew)

    def _work_is_there(self) -> None:
        self._work.set()

    def _look_anew(self) -> None:
        """What was passed over as another gateway's may be this one's."""
        self._looked = -1
        self._work.set()

    async def bury(self, topic: Topic) -> None:
        """Take a topic out of the catalog, for good. Its partitions have stopped taking appends."""
        key, tombstone = keys.topic_key(topic.name), keys.tombstone_key(topic.id)
        compares = [Compare(key, topic.revision), Compare(tombstone, 0)]
        try:
            await self._context.catalog.transact(
                compares, {tombstone: keys.pack({"name": topic.name})}, [key]
            )
        except CompareFailed:
            entry = self._context.catalog.get(key)
            if entry is not None and keys.unpack(entry.value)["id"] == topic.id.hex():
                topic.revision = entry.mod_revision  # it was changed meanwhile, and is to go all the same
                await self.bury(topic)
                return
        self._work.set()

    async def run(self) -> None:
        """Work on the tombstones, those of earlier lives first, for ever."""
        await self._context.copies.wait_compared()
        while True:
            with trio.move_on_at(self._next_retry()):
                await self._work.wait()
            self._work = trio.Event()
            self._now = trio.current_time()
            self._old = self._grace.old_at(self._now)
            self._put_off_until = math.inf
            self._remembered = await self._context.copies.keep(KEPT_SECONDS)
            await self._take_changes()
            await self._delete_dropped()
            topics = self._context.catalog.range(keys.TOMBSTONES)
            for key in self._topics_again.keys() - {entry.key for entry in topics}:
                del self._topics_again[key]  # another gateway was faster
            for entry in topics:
                if not self._leads_what_is_left(entry):
                    continue
                if self._is_old(entry.mod_revision) and self._topics_again.get(entry.key, 0) <= self._now:
                    with contextlib.suppress(CompareFailed):  # another gateway has done it
                        await self._delete_topic(entry)

    def _leads_what_is_left(self, tombstone: Entry) -> bool:
        """Whether a deleted topic is this gateway's to clear away: it led the first partition, or would."""
        topic_id = bytes.fromhex(tombstone.key.removeprefix(keys.TOMBSTONES))
        return self._context.leadership.leads(topic_id, 0)

    def _next_retry(self) -> float:
        again = [self._retries[0][0]] if self._retries else []
        return min((*again, *self._topics_again.values(), self._grace.next, self._put_off_until))

    def _is_old(self, revision: int) -> bool:
        """Whether what was put then has been there for a while; else it will be looked at then."""
        if revision <= self._old:
            return True
        self._grace.note(trio.current_time(), revision)
        return False

    # what is in the list ----------------------------------------------------------------------------------

    async def _take_changes(self) -> None:
        """Note what has come into the list since the last round, or all of it."""
        catalog = self._context.catalog
        try:
            changes = catalog.changes(self._looked + 1) if self._looked >= 0 else None
        except HistoryLost:
            changes = None
        self._looked = catalog.revision
        if changes is None:
            await self._look_at_all()
            return
        for change in changes:
            if change.key.startswith(keys.SEGMENT_TOMBSTONES):
                self._note(address_of_segment(change.key), change.revision, is_there=change.value is not None)
            elif change.key.startswith(keys.SEGMENTS) and change.value is not None:
                topic_id, _, _ = change.key.removeprefix(keys.SEGMENTS).partition("/")
                self._topics_again.pop(keys.TOMBSTONES + topic_id, None)

    async def _look_at_all(self) -> None:
        found: list[tuple[int, str]] = []
        after = ""
        catalog = self._context.catalog
        while entries := catalog.range(keys.SEGMENT_TOMBSTONES, after=after, limit=LOOKED_AT_ONCE):
            found += [(entry.mod_revision, address_of_segment(entry.key)) for entry in entries]
            after = entries[-1].key
            await trio.lowlevel.checkpoint()
        self._waiting.clear()
        self._topics_again.clear()
        for revision, address in sorted(found):
            self._note(address, revision, is_there=True)

    def _note(self, address: str, revision: int, *, is_there: bool) -> None:
        """A tombstone was put, or has gone."""
        self._waiting.pop(address, None)
        asked = self._unconfirmed.get(address)
        if is_there and (asked is None or asked.revision != revision):
            self._waiting[address] = revision

    def _dropped_to_look_at(self) -> list[str]:
        """The addresses of tombstones that are to be looked at in this round: those that are old enough, and
        those that are due again.
        """
        found: list[str] = []
        while self._retries and self._retries[0][0] <= self._now:
            _, address = self._retries.popleft()
            asked = self._unconfirmed.get(address)
            if asked is not None and asked.again <= self._now:
                found.append(address)
        for address, revision in self._waiting.items():
            if not self._is_old(revision):
                self._grace.note(trio.current_time(), next(reversed(self._waiting.values())))
                break
            found.append(address)
        return found

    # deleting ---------------------------------------------------------------------------------------------

    async def _delete_topic(self, tombstone: Entry) -> None:
        catalog = self._context.catalog
        topic_id = bytes.fromhex(tombstone.key.removeprefix(keys.TOMBSTONES))
        prefix = keys.segments_prefix(topic_id)
        buried = [Compare(tombstone.key, tombstone.mod_revision)]
        segments, after = await self._due(prefix, "")
        while segments:
            gone = await self._delete(segments, tombstone.mod_revision)
            left_over = [
                *(keys.closing_key(address) for address in gone),
                *(one.key for one in gone.values()),
            ]
            for start in range(0, len(left_over), KEYS_AT_ONCE):
                await catalog.transact(buried, {}, left_over[start : start + KEYS_AT_ONCE])
            segments, after = await self._due(prefix, after)
        if left := catalog.range(prefix, limit=LOOKED_AT_ONCE):
            is_pinned = any(self._is_pinned(address_of_segment(entry.key)) for entry in left)
            pause = PINNED_SECONDS if is_pinned else RETRY_SECONDS
            self._topics_again[tombstone.key] = self._now + pause
            return  # some member has not confirmed yet
        self._topics_again.pop(tombstone.key, None)
        for prefix in (f"{keys.PARTITIONS}{topic_id.hex()}/", f"{keys.PRODUCERS}{topic_id.hex()}/"):
            while partitions := catalog.range(prefix, limit=KEYS_AT_ONCE):
                await catalog.transact(buried, {}, [entry.key for entry in partitions])
        await catalog.transact(buried, {}, [tombstone.key])
        logger.info("topic %s is gone from the stores", keys.unpack(tombstone.value)["name"])

    async def _delete_dropped(self) -> None:
        due: dict[str, Entry] = {}
        for looked, address in enumerate(self._dropped_to_look_at(), 1):
            entry = self._context.catalog.get(keys.segment_tombstone_key(address))
            if entry is None:
                self._unconfirmed.pop(address, None)
            elif not self._context.leads_log(keys.noted_log(entry.value)):
                # The log's leader sees to it. If that is this one again it is looked at anew.
                self._waiting.pop(address, None)
                self._unconfirmed.pop(address, None)
            elif not self._is_old(entry.mod_revision):
                pass  # put anew meanwhile
            elif self._is_due(address, entry) and not self._waits(address, entry):
                due[address] = entry
            elif address not in self._waiting:
                self._retry_later(address)
            if len(due) == SEGMENTS_AT_ONCE:
                await self._delete_some(due)
                due = {}
            if not looked % LOOKED_AT_ONCE:
                await trio.lowlevel.checkpoint()
        if due:
            await self._delete_some(due)

    async def _delete_some(self, dropped: Mapping[str, Entry]) -> None:
        deleted = await self._delete(dropped)
        gone = [Note.of(entry) for entry in deleted.values()]
        self._context.deleted.add(deleted)
        for address, entry in dropped.items():
            if self._waiting.get(address) == entry.mod_revision:
                del self._waiting[address]
            if address in self._unconfirmed:
                self._retries.append((self._unconfirmed[address].again, address))
        await take_notes(self._context, gone)
        if any(self._is_new(note) for note in gone):
            self._work.set()  # put anew meanwhile, with another member: that one is asked next

    def _is_new(self, note: Note) -> bool:
        entry = self._context.catalog.get(note.key)
        return entry is not None and entry.mod_revision != note.revision

    async def _due(self, prefix: str, after: str) -> tuple[dict[str, Entry], str]:
        """The next of a deleted topic's segments, after the key `after`, that are to be deleted now, by their
        addresses; and the last key that was looked at.
        """
        due: dict[str, Entry] = {}
        while entries := self._context.catalog.range(prefix, after=after, limit=LOOKED_AT_ONCE):
            for entry in entries:
                after = entry.key
                address = address_of_segment(entry.key)
                if self._is_due(address, entry) and not self._is_pinned(address):
                    due[address] = entry
                    if len(due) == SEGMENTS_AT_ONCE:
                        return due, after
            await trio.lowlevel.checkpoint()
        return due, after

    def _is_due(self, address: str, entry: Entry) -> bool:
        asked = self._unconfirmed.get(address)
        if asked is None or asked.revision != entry.mod_revision:
            return True
        if asked.again > self._now:
            return False
        stores = self._stores
        return any(stores.live(member) or stores.is_removed(member) for member in asked.members)

    def _retry_later(self, address: str) -> None:
        """It was asked for, and is not due."""
        asked = self._unconfirmed.get(address)
        if asked is None:
            self._looked = -1  # put anew within this round, more than once: the next one looks at all
            return
        again = trio.current_time() + RETRY_SECONDS
        self._unconfirmed[address] = asked._replace(again=again)
        self._retries.append((again, address))

    def _is_pinned(self, address: str) -> bool:
        return self.pins.holds(address, self._now)

    def _waits(self, address: str, entry: Entry) -> bool:
        """Whether a backup still reads this segment, or a lost catalog could not be read back without it: it
        was compacted into others whose ends too few stores have heard yet, or it was the last one of its log,
        and too few stores remember where that ends.
        """
        if self._is_pinned(address):
            self._put_off_until = min(self._put_off_until, self._now + PINNED_SECONDS)
            return True
        value = keys.unpack(entry.value)
        if value.get("last") and not self._remembered:
            self._put_off_until = min(self._put_off_until, self._now + RETRY_SECONDS)
            return True
        after = value.get("after", ())
        return any(map(self._context.closer.is_waited_for, after))

    async def _delete(self, segments: Mapping[str, Entry], buried: int = 0) -> dict[str, Entry]:
        """Have every member delete these segments; gives those that all have deleted. `buried` is the
        sequence of their topic's tombstone, if they have none of their own.
        """
        asked: dict[str, list[DeleteEntry]] = defaultdict(list)
        for address, entry in segments.items():
            deletion = self._deletion(address, entry, buried)
            for member in self._members_to_ask(address, entry):
                asked[member].append(deletion)
        self._context.closer.drop(list(segments))
        refused: dict[str, list[str]] = defaultdict(list)
        async with trio.open_nursery() as nursery:
            for member, deletions in asked.items():
                nursery.start_soon(self._delete_at, member, deletions, refused)
        again = trio.current_time() + RETRY_SECONDS
        for address, entry in segments.items():
            self._unconfirmed.pop(address, None)
            if address in refused:
                left = tuple(refused[address])
                self._unconfirmed[address] = _Unconfirmed(entry.mod_revision, left, again)
        return {address: entry for address, entry in segments.items() if address not in refused}

    def _deletion(self, address: str, entry: Entry, buried: int) -> DeleteEntry:
        """What the stores are told: the sequence is that of the decision, so that an older catalog cannot
        have deleted what a newer one has told of since, however high its own sequence is by now.
        """
        value = keys.unpack(entry.value)
        log = value.get("log", "")
        if entry.key.startswith(keys.SEGMENTS):
            topic_id, index, _ = entry.key.removeprefix(keys.SEGMENTS).split("/")
            log = log_name(bytes.fromhex(topic_id), int(index))
        at = self._context.place(max(entry.mod_revision, buried))
        return DeleteEntry(address, log, value.get("epoch", NO_EPOCH), at)

    def _members_to_ask(self, address: str, entry: Entry) -> Sequence[str]:
        asked = self._unconfirmed.get(address)
        if asked is not None and asked.revision == entry.mod_revision:
            return asked.members
        value = keys.unpack(entry.value)
        return [*value["members"], *value.get("copying", ())]

    async def _delete_at(
        self, member: str, deletions: Sequence[DeleteEntry], refused: dict[str, list[str]]
    ) -> None:
        """Have one member delete these; those that it has not are put under `refused`, with its name."""
        stores = self._stores
        if stores.is_removed(member):
            return  # it counts no more, and never comes back as this one
        statuses: list[AddressStatus] | None = None
        if stores.live(member):
            with trio.move_on_after(ANSWER_SECONDS):
                statuses = await self._context.producer.segments.delete(member, deletions)
        if statuses is None:
            for deletion in deletions:
                refused[deletion.address].append(member)  # others must not wait for it
            return
        failed = {status.address: status.status for status in statuses if status.status != STATUS_DONE}
        for address in failed:
            refused[address].append(member)
        unheard = sorted(failed.keys() - self._unconfirmed.keys())
        doubted = [address for address in unheard if failed[address] in OTHER_CATALOGS]
        if doubted:
            self.refused += len(doubted)
            self._say_refused(member, doubted[0], failed[doubted[0]])
        unheard = [address for address in unheard if address not in doubted]
        if unheard:
            logger.error(
                "store %s could not delete %d segments, %s among them (status %d): its own log says why; "
                "it is asked again every %d s",
                member, len(unheard), unheard[0], failed[unheard[0]], RETRY_SECONDS,
            )  # fmt: skip

    def _say_refused(self, member: str, address: str, status: int) -> None:
        if member in self._refusing:
            return
        self._refusing.add(member)
        logger.error(
            "store %s does not delete segment %s, and maybe others: %s. They stay in the list of what is to "
            "be deleted, and it is asked again every %d s. Unless the catalog was rebuilt or imported just "
            "now, %s",
            self._stores.name(member), address, REASONS[status], RETRY_SECONDS, RESTORE,
        )  # fmt: skip
