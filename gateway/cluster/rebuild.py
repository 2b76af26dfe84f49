"""A lost catalog, read back from the stores (`--rebuild-catalog`).

Every segment was announced on its members' disks before its first record, with the topic it belongs to; so
chains and epochs come back from the announcements. What only the catalog knew comes back from the copy of it
that the stores keep (`gateway.cluster.kept_copy`); without one, topics and configs come back from the
announcements, too. The rebuilt catalog begins a new lineage, which names that of the copy as its parent.

What the stores say of one segment is put together (`gateway.cluster.found_segments`). Rules, so that nothing
is closed by guessing and nothing comes back that was deleted:

* A segment that some store has closed ends where that store says. One that another one follows ends where
  that one begins, whatever its members hold. Any other one is taken as open, and recovery seals it.
* A segment that some store has deleted is gone: the others are told to delete it.
* A compaction has happened if a store knows one of its segments as closed: then those that it replaced are
  gone. Otherwise its own are.
* What ends at or below the newest log start that an announcement tells of was dropped: also where only stores
  have it that were away then, and where the segments after it are deleted everywhere.
* So many stores may be missing that w members of no segment fit into them; otherwise the newest segment of a
  log may be one that nobody tells of, and its offsets would be given again.

Where the stores contradict each other, or have not what is needed, nothing is rebuilt, and the reason is
said.

Epochs that left no segment come from the stores too (`raise_epochs`): a segment that turned out empty is
deleted, and the store remembers its epoch. Without that the rebuilt catalog would be refuted by what a store
knows of newer ones. The counter of all epochs goes on well above everything that is found: clients may have
been told of a number that left nothing in the stores, and ignore lower ones.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gateway.catalog import keys
from gateway.catalog.keys import log_name
from gateway.cluster.entry_check import SHOWN_CHARACTERS
from gateway.cluster.found_segments import (
    CannotRebuild,
    End,
    FoundSegment,
    check_chain,
    check_row,
    superseded_by_compactions,
)
from gateway.cluster.kept_copy import add_kept, check_missing, ended_by, kept_partition, recall
from gateway.cluster.topics import pack_topic
from gateway.log.closer import Closer
from gateway.log.idempotence.producer_ids import BLOCK
from gateway.log.notes import tombstone
from mesh.protocol.address_state import Phase
from mesh.reader import NotServed
from wireproto.dafka.additions import LOOKUP_OFFSET, STATUS_DONE
from wireproto.records.row import Row

if TYPE_CHECKING:
    from mesh.reader import Reader
    from wireproto.dafka.additions import Announcement

LOST_BLOCKS = 1000
"""Blocks of producer ids skipped: more than were taken between an announcement and the loss."""

SPARE_EPOCHS = 1000
"""Leader epochs skipped: more than were drawn after what is found was written."""

NAMED_STORES = 5
"""Missing stores that a refusal names."""

CANNOT_READ = "Start the stores that are missing, or put back the data of those whose disk fails"

logger = logging.getLogger(__name__)

__all__ = ["CannotRebuild", "read_back"]


class Hole(CannotRebuild):
    """Something is missing before the segment that begins at `offset`."""

    def __init__(self, text: str, offset: int) -> None:
        super().__init__(text)
        self.offset = offset


Chains = dict[tuple[str, int], list[FoundSegment]]
"""(topic id, partition) -> its segments, oldest first."""


async def read_back(
    reader: "Reader", incarnations: Sequence[str], *, accept_loss: bool = False
) -> dict[str, bytes]:
    """The catalog's entries, from what these stores were told by OPEN, CLOSE and DELETE.

    `accept_loss`: go on without stores that are missing. Raises CannotRebuild.
    """
    copy = await recall(reader, incarnations, accept_loss=accept_loss)
    found = await _collect(reader, incarnations)
    try:
        _check_missing(found.values(), incarnations)
        check_missing(copy, incarnations)
    except CannotRebuild as error:
        if not accept_loss:
            raise
        logger.warning("--accept-loss is set, so the catalog is rebuilt all the same: %s", error)
    entries: dict[str, bytes] = {}
    chains: Chains = defaultdict(list)
    superseded = superseded_by_compactions(found)
    buried = copy.buried
    for segment in found.values():
        gone = segment.deleted_at or segment.details["topic_id"] in buried
        if gone or segment.announcement.address in superseded:
            _forget(entries, segment)
        else:
            chains[segment.details["topic_id"], segment.details["partition"]].append(segment)
    for (topic_id, index), chain in chains.items():
        chain.sort(key=lambda one: (one.announcement.start, one.announcement.epoch))
        kept = copy.partition(topic_id, index)
        await _Chain(reader, entries, bytes.fromhex(topic_id), index, chain, kept).add(
            accept_loss=accept_loss
        )
    _add_topics(entries, chains, _partition_counts(found.values()), copy.topics)
    add_kept(entries, copy)
    floor = max((int(one.details["producer_id_floor"]) for one in found.values()), default=0)
    floor = max(floor, *copy.under(keys.PRODUCER_IDS).values(), 0)
    # A block may have been taken behind the last announcement's back: leave room for a few.
    entries[keys.PRODUCER_IDS] = keys.pack(floor + LOST_BLOCKS * BLOCK)
    await _raise_epochs(reader, incarnations, entries)
    drawn = copy.under(keys.LEADER_EPOCH).values()
    used = (segment.announcement.epoch for segment in found.values())
    entries[keys.LEADER_EPOCH] = keys.pack(max([highest_epoch(entries), *drawn, *used]) + SPARE_EPOCHS)
    return entries


# what the stores say --------------------------------------------------------------------------------------


async def _collect(reader: "Reader", incarnations: Sequence[str]) -> dict[str, FoundSegment]:
    """Every announced segment, by address, with what each store says of it."""
    found: dict[str, FoundSegment] = {}
    for store in incarnations:
        for announcement, status in await reader.segments(store):
            known = found.get(announcement.address)
            if known is None:
                known = found[announcement.address] = _announced(store, announcement)
            known.add(store, announcement, status)
    for store in incarnations:
        untold = [segment for segment in found.values() if store not in segment.told]
        entries = [(segment.announcement.log, segment.announcement.address) for segment in untold]
        for segment, verified in zip(untold, await reader.verify(store, entries), strict=True):
            if verified.status != STATUS_DONE:
                raise CannotRebuild(
                    f"store {store} cannot read what it knows of its segments: its own log "
                    "says why. Put back its data, or start without it"
                )
            if verified.phase == Phase.DELETED:
                segment.deleted_at.add(store)
    return found


def _announced(store: str, announcement: "Announcement") -> FoundSegment:
    """What a store tells of a segment. Raises CannotRebuild."""
    try:
        return FoundSegment(announcement)
    except ValueError as error:
        raise CannotRebuild(
            f"store {store} keeps an announcement of segment {announcement.address} that cannot be read "
            f"({str(error)[:SHOWN_CHARACTERS]}): start without it; a store that has the segment as well "
            "tells of it"
        ) from None


def _check_missing(found: Iterable[FoundSegment], incarnations: Sequence[str]) -> None:
    """Whether the stores that are not here could have a segment of which nobody here tells."""
    segments = [segment for segment in found if not segment.deleted_at]
    missing = {member for segment in segments for member in segment.members} - set(incarnations)
    least = min((segment.announcement.w for segment in segments), default=1)
    if len(missing) >= least:
        names = ", ".join(sorted(missing)[:NAMED_STORES])
        raise CannotRebuild(
            f"{len(missing)} stores are missing that keep segments ({names}), and some segments need no more "
            "than that to hold what nobody else tells of: start them too and give --stores their number, or "
            "go on without them by --accept-loss: a log of which only they have a part then begins after "
            "that, and what is left before it is deleted"
        )


async def _raise_epochs(reader: "Reader", incarnations: Sequence[str], entries: dict[str, bytes]) -> None:
    logs = logs_of(entries)
    for store in incarnations:
        known = await reader.verify(store, [(log, "") for log in logs])
        raise_epochs(entries, {log: one.epoch for log, one in zip(logs, known, strict=True)})


def logs_of(entries: Mapping[str, bytes]) -> list[str]:
    """The logs of all partitions of the topics among these entries, written to or not."""
    topics = [keys.unpack(value) for key, value in entries.items() if key.startswith(keys.TOPICS)]
    return [
        log_name(bytes.fromhex(topic["id"]), index)
        for topic in topics
        for index in range(topic["partitions"])
    ]


def raise_epochs(entries: dict[str, bytes], epochs: Mapping[str, int]) -> None:
    """Let each partition go on after the highest epoch that a store knows of its log (-1: none)."""
    record: dict[str, Any]
    for log, epoch in epochs.items():
        topic_id, _, index = log.partition("/")
        key = keys.partition_key(bytes.fromhex(topic_id), int(index))
        record = {"next_epoch": 0, "epochs": [], "log_start": 0}
        if key in entries:
            record = keys.unpack(entries[key])
        if epoch >= record["next_epoch"]:
            entries[key] = keys.pack({**record, "next_epoch": epoch + 1})


def highest_epoch(entries: Mapping[str, bytes]) -> int:
    """The highest leader epoch that a catalog's entries tell of, drawn or in use; -1 for none."""
    drawn = entries.get(keys.LEADER_EPOCH)
    highest = -1 if drawn is None else int(keys.unpack(drawn))
    for key, value in entries.items():
        if key.startswith(keys.PARTITIONS):
            highest = max(highest, int(keys.unpack(value)["next_epoch"]) - 1)
        elif key.startswith(keys.SEGMENTS):
            highest = max(highest, int(keys.unpack(value)["epoch"]))
    return highest


# what is made of it ---------------------------------------------------------------------------------------


def _forget(entries: dict[str, bytes], segment: FoundSegment) -> None:
    """It left its chain, or its topic was deleted: its members are to forget it, also those not here."""
    members = [name for name in {*segment.members, *segment.told} if name not in segment.deleted_at]
    announced = segment.announcement
    entries |= tombstone(announced.address, announced.log, announced.epoch, sorted(members))


class _Chain:
    """One partition's segments, oldest first; `add` puts them among the entries, and what is known of the
    partition.
    """

    def __init__(
        self,
        reader: "Reader",
        entries: dict[str, bytes],
        topic_id: bytes,
        index: int,
        chain: list[FoundSegment],
        kept: Mapping[str, Any] | None,
    ) -> None:
        self._reader = reader
        self._entries = entries
        self._topic_id = topic_id
        self._index = index
        self._chain = chain
        self._name = f"{chain[-1].announcement.subject}-{index}"
        self._kept: list[FoundSegment] = []
        self._ends: list[End | None] = []
        self._copy = kept
        """What the kept copy says of the partition."""
        self._log_start: int = max(one.details["log_start"] for one in chain)
        if kept is not None:
            self._log_start = max(self._log_start, kept["log_start"])

    async def add(self, *, accept_loss: bool) -> None:
        """Raises CannotRebuild."""
        for segment, following in zip(self._chain, [*self._chain[1:], None], strict=True):
            if self._was_dropped(segment, following):
                _forget(self._entries, segment)
                continue
            try:
                end = await _end(self._reader, segment, following, self._name)
            except Hole as hole:
                await self._pass_hole(segment, hole, accept_loss=accept_loss)
                continue
            if end is not None and (end.sequence < 0 or self._ends_below_start(end)):
                _forget(self._entries, segment)
                continue
            self._kept.append(segment)
            self._ends.append(end)
        check_chain(self._name, self._kept, self._ends)
        self._put()

    def _was_dropped(self, segment: FoundSegment, following: FoundSegment | None) -> bool:
        """Whether all of a segment lies below the log's start: it is here only because its store was away."""
        if following is not None:
            return following.announcement.start <= self._log_start
        end = ended_by(self._copy, segment.announcement.epoch)
        return end is not None and end <= self._log_start

    def _ends_below_start(self, end: End) -> bool:
        """Whether the log is known to have gone on after this end: then it goes on at its start. One that
        ends there tells of the producers.
        """
        return Row.unpack(end.row).last_offset + 1 < self._log_start

    async def _pass_hole(self, segment: FoundSegment, hole: "Hole", *, accept_loss: bool) -> None:
        """Something is missing after this segment. Raises Hole, if that is not as it should be."""
        if not await self._lies_below_start(segment):
            if not accept_loss:
                raise hole
            self._give_up(segment, hole)
        _forget(self._entries, segment)

    def _give_up(self, segment: FoundSegment, hole: "Hole") -> None:
        """The operator has accepted that the log begins after the hole."""
        given_up = [*self._kept, segment]
        logger.warning(
            "%s begins at offset %d now: no store that is here has the rest of segment %s, and --accept-loss "
            "is set; the %s from offset %d on %s deleted",
            self._name, hole.offset, segment.announcement.address,
            "segment" if len(given_up) == 1 else f"{len(given_up)} segments",
            given_up[0].announcement.start, "is" if len(given_up) == 1 else "are",
        )  # fmt: skip
        self._log_start = hole.offset
        for earlier in self._kept:
            _forget(self._entries, earlier)
        self._kept, self._ends = [], []

    async def _lies_below_start(self, segment: FoundSegment) -> bool:
        """Whether the whole of a segment lies below the log's start, as far as can be told."""
        try:
            end = await _end(self._reader, segment, None, self._name)
        except CannotRebuild:
            return False
        if end is None or not end.row:
            return False
        return Row.unpack(end.row).last_offset < self._log_start

    def _put(self) -> None:
        entries, chain = self._entries, self._chain
        for segment, end in zip(self._kept, self._ends, strict=True):
            made = segment.segment(end)
            key = keys.segment_key(self._topic_id, self._index, made.start_offset, made.address)
            entries[key] = made.pack()
            if end is not None and (untold := segment.untold(end)):
                Closer.note(made, log_name(self._topic_id, self._index), entries, untold)
        last = chain[-1]
        wrote = max((one.announcement.epoch for one in self._kept), default=-1)
        first = (self._kept or [last])[0].announcement.start
        told = {
            "next_epoch": max(one.announcement.epoch for one in chain) + 1,
            "epochs": last.details["epochs"],
            "log_start": self._log_start,
        }
        record = kept_partition(told, self._copy)
        if self._kept or self._copy is None:
            record["epochs"] = [pair for pair in record["epochs"] if pair[0] <= wrote]
            record["log_start"] = max(record["log_start"], first)
        entries[keys.partition_key(self._topic_id, self._index)] = keys.pack(record)


async def _end(
    reader: "Reader", segment: FoundSegment, following: FoundSegment | None, name: str
) -> End | None:
    """Where a segment ends; None if that is for its recovery to find out. Raises CannotRebuild."""
    address = segment.announcement.address
    if following is not None:
        next_start = following.announcement.start
        if next_start == segment.announcement.start:
            return End(-1, b"")
        known = segment.end_before(next_start)
        return known or await _look_up(reader, segment, next_start, name)
    sequence = segment.closed_end()
    if sequence is None or sequence < 0:
        return None if sequence is None else End(-1, b"")
    row = segment.row_at(sequence)
    if row is None:
        try:
            row = await reader.rows(segment.holders(), address, sequence, sequence)
        except NotServed as error:
            raise CannotRebuild(
                f"the last segment {address} of {name} ends at sequence {sequence}, and no store that is "
                f"here has that ({error}): start the stores that are missing"
            ) from None
    check_row(row, address, *segment.holders())
    return End(sequence, row)


async def _look_up(reader: "Reader", segment: FoundSegment, next_start: int, name: str) -> End:
    """The end of a segment whose follower begins at the offset `next_start`. Raises CannotRebuild."""
    address, target = segment.announcement.address, next_start - 1
    bound = max(status.sequence for status in segment.told.values())
    try:
        found = await reader.lookup(segment.holders(), address, LOOKUP_OFFSET, target, bound)
    except NotServed as error:
        raise CannotRebuild(f"segment {address} of {name} cannot be read: {error}. {CANNOT_READ}") from None
    if found is not None:
        check_row(found.row, address, *segment.holders())
    if found is None or not found.row or Row.unpack(found.row).last_offset != target:
        raise Hole(
            f"segment {address} of {name} should end with offset {target}, where the next one begins, and no "
            "store that is here has that: start the stores that are missing; with --accept-loss, the log "
            f"begins at offset {next_start}, and what is left before that is deleted",
            next_start,
        )
    return End(found.sequence, found.row)


def _partition_counts(found: Iterable[FoundSegment]) -> dict[str, int]:
    """Topic id -> number of partitions: the highest that any segment tells of, as it only ever grows."""
    counts: dict[str, int] = {}
    for segment in found:
        topic_id = segment.details["topic_id"]
        counts[topic_id] = max(counts.get(topic_id, 0), segment.details["partitions"])
    return counts


def _add_topics(
    entries: dict[str, bytes], chains: Chains, counts: Mapping[str, int], kept: Mapping[str, Any]
) -> None:
    """The topics of the kept copy, and others as their newest segments tell of them. Of several with one name
    only the newest lives; one that was never written to counts as the oldest.
    """
    entries.update({keys.topic_key(name): keys.pack(topic) for name, topic in kept.items()})
    newest: dict[str, FoundSegment] = {}
    for (topic_id, _), chain in chains.items():
        last = chain[-1]
        if topic_id not in newest or last.opened_ms > newest[topic_id].opened_ms:
            newest[topic_id] = last
    by_name: dict[str, str] = {}
    for topic_id, last in sorted(newest.items(), key=lambda one: one[1].opened_ms):
        older = by_name.get(last.announcement.subject)
        by_name[last.announcement.subject] = topic_id
        if older is not None:
            tombstone = keys.tombstone_key(bytes.fromhex(older))
            entries[tombstone] = keys.pack({"name": last.announcement.subject})
    for name, topic_id in by_name.items():
        told = newest[topic_id].details
        of_copy = kept.get(name, {})
        if of_copy.get("id") == topic_id:
            told = of_copy
            counts = {**counts, topic_id: max(counts[topic_id], of_copy["partitions"])}
        maker = told.get("maker", "")  # the copy's: segments do not tell it
        entries[keys.topic_key(name)] = pack_topic(
            topic_id, counts[topic_id], told["replication_factor"], told["configs"], maker
        )
