"""Bugs that the simulation must find: each planted for the time of a schedule, none of them in the product.

Every one is a way to lose or double data that the rules of the architecture stand against. What finds it, and
after how many schedules, is in docs/reliability.md.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

import trio

from gateway.catalog.keys import COMPACTING, SEGMENT_TOMBSTONES, pack, segment_tombstone_key, unpack
from gateway.fetch.session import FetchSession, SessionPartition
from gateway.groups.journal import Journal, _Offsets
from gateway.groups.records import group_key
from gateway.groups.replay import Replay
from gateway.journal.group_commit import GroupCommit
from gateway.log import opener
from gateway.log.appends import Append
from gateway.log.closer import Closer
from gateway.log.compaction import left_over
from gateway.log.compaction import run as compaction_run
from gateway.log.compaction.output import OutputWriter
from gateway.log.compaction.rules import NewestOffsets, _digest
from gateway.log.compaction.run import CompactionRun
from gateway.log.epoch_counter import EpochCounter
from gateway.log.idempotence.sequences import Duplicate
from gateway.log.log_start import LogStarts
from gateway.log.partition import Partition
from gateway.log.recovery.one_partition import PartitionRecovery
from gateway.log.recovery.verification import Asked
from gateway.log.tail_cache import HotBatches
from mesh.producer import Producer
from mesh.protocol.address_state import AddressState, Phase
from mesh.protocol.commit import Commit
from mesh.protocol.ingest import Ingest
from mesh.protocol.recovery import Seal
from mesh.protocol.segments import Segments
from mesh.protocol.vouching import Vouching
from mesh.protocol.writer import Unacknowledged, Writer
from mesh.store import changes, keys
from mesh.store import store as store_module
from tests.sim.store_node import SimCommitter
from wireproto.records.batch import assign_offsets
from wireproto.records.header import BatchHeader
from wireproto.records.keyed import keyed_slices

Plant = Callable[[], AbstractContextManager[object]]


def _ack_before_fsync() -> AbstractContextManager[object]:
    write = SimCommitter.write

    def hasty(self: SimCommitter, commit: Commit) -> bool:
        write(self, commit)
        return True

    def unreported(self: SimCommitter, commit: Commit) -> None:
        database: Any = self._database
        if not database.handle.dead:
            database.flush()
            self.member.world.history.on_fsynced(self.member.incarnation, commit)

    return both(
        patch.object(SimCommitter, "write", hasty), patch.object(SimCommitter, "_fsynced", unreported)
    )


def _skipped_seal() -> AbstractContextManager[object]:
    seal = Segments._seal

    def forgetful(self: Segments, wanted: Any) -> Any:
        state = seal(self, wanted)
        if isinstance(state, AddressState) and state.phase is Phase.SEALED and state.announcement is not None:
            state.phase = Phase.OPEN
            self.queue.latest.metas.pop(state.address, None)
        return state

    return patch.object(Segments, "_seal", forgetful)


def _too_few_answers() -> AbstractContextManager[object]:
    asked = PartitionRecovery.asked

    def asked_fewer(self: PartitionRecovery) -> Asked:
        entry = asked(self)
        return entry._replace(needed=max(1, entry.needed - 1))

    needed = property(lambda self: max(1, len(self.members) - self.w))
    return both(patch.object(Seal, "needed", needed), patch.object(PartitionRecovery, "asked", asked_fewer))


def _late_store_trusted() -> AbstractContextManager[object]:
    on_record = Ingest.on_record

    def trusting(self: Ingest, record: Any, now: float) -> None:
        state = self.known(record.address)
        if state is not None and state.phase is Phase.OPEN and state.accepted < 0:
            state.accepted = record.sequence - 1
        on_record(self, record, now)

    return patch.object(Ingest, "on_record", trusting)


def _duplicate_answered_early() -> AbstractContextManager[object]:
    append_again = Partition._append_again

    def early(self: Partition, duplicate: Duplicate) -> Append:
        append = append_again(self, duplicate)
        append.done = True
        return append

    return patch.object(Partition, "_append_again", early)


def _watermark_at_one_store() -> AbstractContextManager[object]:
    start = Producer.start

    def alone(self: Producer, address: str, subject: str, members: Any, w: int, *rest: Any) -> Writer:
        return start(self, address, subject, members, min(w, 1), *rest)

    return patch.object(Producer, "start", alone)


def _close_lost() -> AbstractContextManager[object]:
    def lost(_self: Closer, _address: str, closing: Any, **_how: bool) -> None:
        if closing.when_heard is not None:
            closing.when_heard()

    return patch.object(Closer, "_tell", lost)


def _sequence_reused() -> AbstractContextManager[object]:
    append = Writer.append

    def reusing(self: Writer, content: Any, now: float) -> int:
        sequence = append(self, content, now)
        if sequence % 20 == 10:
            self.next_sequence = sequence
        return sequence

    return patch.object(Writer, "append", reusing)


def _wrong_fetch_content() -> AbstractContextManager[object]:
    on_fetch = Writer.on_fetch

    def wrong(self: Writer, sequence: int, count: int) -> list[Unacknowledged]:
        entries = on_fetch(self, sequence, count)
        contents = [entry.content for entry in reversed(entries)]
        return [
            Unacknowledged(entry.sequence, content) for entry, content in zip(entries, contents, strict=True)
        ]

    return patch.object(Writer, "on_fetch", wrong)


def _deleted_comes_back() -> AbstractContextManager[object]:
    delete = changes._delete

    def thorough(batch: Any, address: str) -> None:
        delete(batch, address)
        batch.delete(keys.meta_key(address))

    return patch.object(changes, "_delete", thorough)


def _older_record_kept() -> AbstractContextManager[object]:
    def add(self: NewestOffsets, found: Any) -> bool:
        for offset, key in found:
            if key is not None:
                self._offsets.setdefault(_digest(key), offset)
            self.upto = offset + 1
        return True

    def keeps(self: NewestOffsets, offset: int, key: bytes | None, **_: bool) -> bool:
        return offset >= self.upto or key is None or offset <= self._offsets.get(_digest(key), offset)

    return both(patch.object(NewestOffsets, "add", add), patch.object(NewestOffsets, "keeps", keeps))


def _tombstones_go_at_once() -> AbstractContextManager[object]:
    keeps = NewestOffsets.keeps

    def hasty(self: NewestOffsets, offset: int, key: bytes | None, *, has_value: bool, **_: bool) -> bool:
        return keeps(self, offset, key, has_value=has_value, keep_tombstones=False)

    return patch.object(NewestOffsets, "keeps", hasty)


def _tombstone_before_its_value() -> AbstractContextManager[object]:
    """A tombstone goes, and what it deletes stays where the segment is clean already."""
    keeps = NewestOffsets.keeps

    def clean_stays(self: NewestOffsets, offset: int, key: bytes | None, **flags: bool) -> bool:
        return (flags["has_value"] and key is not None) or keeps(self, offset, key, **flags)

    return patch.object(NewestOffsets, "keeps", clean_stays)


def _epoch_of_the_compaction() -> AbstractContextManager[object]:
    append = OutputWriter.append

    async def stamped(self: OutputWriter, header: Any, batch: Any) -> None:
        written = memoryview(bytearray(batch))
        assign_offsets(written, header.base_offset, self._partition.leader_epoch)
        await append(self, header, written)

    return patch.object(OutputWriter, "append", stamped)


def _offsets_close_up() -> AbstractContextManager[object]:
    append = OutputWriter.append

    async def renumbered(self: OutputWriter, header: Any, batch: Any) -> None:
        begin = self.outputs[-1].end if self.outputs else self._start
        last = begin + header.last_offset_delta
        if last >= header.base_offset:
            await append(self, header, batch)
            return
        written = memoryview(bytearray(batch))
        assign_offsets(written, begin, header.leader_epoch)
        await append(self, header._replace(base_offset=begin), written)

    return patch.object(OutputWriter, "append", renumbered)


def _producers_forgotten() -> AbstractContextManager[object]:
    async def forgetful(_self: CompactionRun, _segment: Any) -> bytes:
        return b""

    return patch.object(CompactionRun, "_producers", forgetful)


def _memory_keeps_what_went() -> AbstractContextManager[object]:
    return patch.object(HotBatches, "drop_below", lambda _self, _offset: None)


def _swap_forgets_the_old() -> AbstractContextManager[object]:
    changes = CompactionRun._changes

    def forgetful(self: CompactionRun, sources: Any, made: Any) -> Any:
        compares, puts, deletes = changes(self, sources, made)
        kept = {key: value for key, value in puts.items() if not key.startswith(SEGMENT_TOMBSTONES)}
        return compares, kept, deletes

    return patch.object(CompactionRun, "_changes", forgetful)


def _outputs_left_behind() -> AbstractContextManager[object]:
    async def nothing(context: Any, _outputs: Any) -> None:
        entries = context.catalog.range(COMPACTING)
        if entries:
            raw = context.catalog._catalog  # the other one would refuse it
            await raw.transact([], {}, [entry.key for entry in entries])

    return both(
        patch.object(left_over, "forget_outputs", nothing),
        patch.object(compaction_run, "forget_outputs", nothing),
    )


def _swap_before_it_is_durable() -> AbstractContextManager[object]:
    async def at_once(_self: OutputWriter) -> None:
        return

    return patch.object(OutputWriter, "finish", at_once)


def _log_start_taken_back() -> AbstractContextManager[object]:
    record = opener.partition_record

    def older(partition: Partition) -> bytes:
        return (
            pack({**unpack(record(partition)), "log_start": partition.chain.closed[0].start_offset})
            if (partition.chain.closed)
            else record(partition)
        )

    return patch.object(opener, "partition_record", older)


def _epochs_of_each_partition() -> AbstractContextManager[object]:
    """Each partition counts its own leader epochs, and nobody draws one."""
    begin = Partition.begin_recovery

    def counted(self: Partition, segments: Any, record: Any, **options: Any) -> None:
        begin(self, segments, record, **options)
        self.leader_epoch = self.next_epoch

    @contextlib.asynccontextmanager
    async def undrawn(_self: EpochCounter, *_transaction: Any) -> AsyncIterator[None]:
        yield

    return both(
        patch.object(Partition, "begin_recovery", counted), patch.object(EpochCounter, "using", undrawn)
    )


def _dropped_before_it_is_told() -> AbstractContextManager[object]:
    """What left the chain is deleted nowhere."""
    put = LogStarts._put_drop

    def quiet(self: LogStarts, partition: Any, segment: Any, compares: Any, puts: Any, deletes: Any) -> None:
        put(self, partition, segment, compares, puts, deletes)
        puts.pop(segment_tombstone_key(segment.address), None)

    return patch.object(LogStarts, "_put_drop", quiet)


def _retention_takes_one_more() -> AbstractContextManager[object]:
    """DeleteRecords takes the whole segment of its offset."""
    plan = LogStarts._plan

    def greedy(self: LogStarts, partition: Partition, offset: int, room: int) -> Any:
        holds = [
            s.end_offset for s in partition.chain.closed if s.start_offset < offset <= (s.end_offset or 0)
        ]
        return plan(self, partition, holds[0] or offset if holds else offset, room)

    return patch.object(LogStarts, "_plan", greedy)


def _commit_shown_early() -> AbstractContextManager[object]:
    start = _Offsets.start

    def shown(self: _Offsets) -> None:
        start(self)
        for (topic, partition), offset in self._offsets.items():
            self._table.put(topic, partition, offset)

    return patch.object(_Offsets, "start", shown)


def _commit_answered_early() -> AbstractContextManager[object]:
    async def at_once(_self: GroupCommit, _pending: Any) -> None:
        return

    return patch.object(GroupCommit, "durable", at_once)


def _deletion_leaves_offsets() -> AbstractContextManager[object]:
    async def group_alone(self: Journal, group_id: str, table: Any) -> None:
        for topic, partition in list(table.keys()):
            table.put(topic, partition, None)
        await self._write(group_id, [(group_key(group_id), None)])

    return patch.object(Journal, "delete_group", group_alone)


def _first_value_counts() -> AbstractContextManager[object]:
    def feed(self: Replay, header: BatchHeader, body: bytes, first_offset: int) -> Iterator[None]:
        for records in keyed_slices(header, body, 1000):
            for offset, key, value in records:
                if offset >= first_offset:
                    self._latest.setdefault(key, (offset, value))
            yield

    return patch.object(Replay, "feed", feed)


def _generation_not_written() -> AbstractContextManager[object]:
    async def nowhere(_self: Journal, _group_id: str, _metadata: Any) -> None:
        await trio.lowlevel.checkpoint()

    return patch.object(Journal, "write_group", nowhere)


def _idle_partition_is_silent() -> AbstractContextManager[object]:
    def silent(self: SessionPartition, _source: Any = None, /) -> None:
        self.armed = False

    return patch.object(SessionPartition, "advanced", silent)


def _log_start_is_no_news() -> AbstractContextManager[object]:
    def tell(self: SessionPartition, high_watermark: int, log_start: int, size: int, error: int) -> bool:
        changed = size > 0 or error != 0 or high_watermark != self.high_watermark
        self.high_watermark = -1 if error else high_watermark
        self.log_start_offset = log_start
        return changed

    return patch.object(SessionPartition, "tell", tell)


def _session_reads_where_it_did() -> AbstractContextManager[object]:
    name = FetchSession.name

    def stuck(self: FetchSession, key: Any, ask: Any) -> SessionPartition:
        topic = self.topics.get(key)
        known = None if topic is None else topic.partitions.get(ask.index)
        return name(self, key, ask if known is None else known.ask)

    return patch.object(FetchSession, "name", stuck)


def _first_partitions_first() -> AbstractContextManager[object]:
    return patch.object(FetchSession, "gave_records", lambda _self, _partition: None)


def _every_start_counts() -> AbstractContextManager[object]:
    return patch.object(Vouching, "told", lambda self, told, _now: self._accept(told))


def _emptied_store_keeps_its_name() -> AbstractContextManager[object]:
    trusting = patch.object(store_module, "settle", lambda _database, identity: identity.incarnation)
    return both(trusting, _every_start_counts())


@contextlib.contextmanager
def both(first: AbstractContextManager[object], second: AbstractContextManager[object]) -> Iterator[None]:
    with first, second:
        yield


BUGS: dict[str, Plant] = {
    "ACK before fsync": _ack_before_fsync,
    "skipped SEAL": _skipped_seal,
    "n-w answers accepted": _too_few_answers,
    "late store trusted": _late_store_trusted,
    "duplicate answered early": _duplicate_answered_early,
    "high watermark at one store": _watermark_at_one_store,
    "CLOSE lost for ever": _close_lost,
    "sequence reused": _sequence_reused,
    "wrong FETCH content": _wrong_fetch_content,
    "deleted topic comes back": _deleted_comes_back,
    "an older record kept for the newest": _older_record_kept,
    "tombstones go at once": _tombstones_go_at_once,
    "tombstone goes before its value": _tombstone_before_its_value,
    "compaction stamps its own epoch": _epoch_of_the_compaction,
    "compaction closes gaps between offsets": _offsets_close_up,
    "compaction forgets producers": _producers_forgotten,
    "memory shows what compaction took": _memory_keeps_what_went,
    "swapped before it is durable": _swap_before_it_is_durable,
    "swap leaves the old segments": _swap_forgets_the_old,
    "killed compaction leaves its segments": _outputs_left_behind,
    "log start goes back": _log_start_taken_back,
    "dropped segments stay on disks": _dropped_before_it_is_told,
    "DeleteRecords takes whole segments": _retention_takes_one_more,
    "each partition counts its own leader epochs": _epochs_of_each_partition,
}

CLEANING = frozenset(list(BUGS)[10:])
"""Those of compaction and retention: schedules with these show them."""

READING: dict[str, Plant] = {
    "commit shown before it is durable": _commit_shown_early,
    "commit answered before it is durable": _commit_answered_early,
    "a group's end leaves its offsets": _deletion_leaves_offsets,
    "the first commit counts after a start": _first_value_counts,
    "generation is not written": _generation_not_written,
    "idle partition of a session is silent": _idle_partition_is_silent,
    "log start is no news to a session": _log_start_is_no_news,
    "session reads where it did before": _session_reads_where_it_did,
    "session reads its first partitions first": _first_partitions_first,
}
"""Those of groups and fetch sessions: schedules with these show them."""

BUGS |= READING

COPIES: dict[str, Plant] = {
    "a store that was set back counts": _every_start_counts,
    "a store that was emptied counts": _emptied_store_keeps_its_name,
}
"""Those of stores that are not what they were: schedules made for them show them (`test_store_lives`)."""


@contextlib.contextmanager
def planted(name: str | None) -> Iterator[None]:
    """Have one bug, or none."""
    if name is None:
        yield
        return
    with (BUGS | COPIES)[name]():
        yield
