"""What a commit puts into RocksDB: which keys with which values, and what goes."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Protocol

from mesh.protocol.address_state import AddressState, Phase
from mesh.protocol.commit import STATE_OF, Accepted, Commit, Repair, Truncation
from mesh.protocol.native_keeping import first_kept
from mesh.store import keys
from mesh.store.catalog_memory import put_keeping
from mesh.store.values import pack_epoch, pack_head


class Batch(Protocol):
    """One atomic write, as RocksDB has it: in order, so that a later change wins."""

    def put(self, key: bytes, value: bytes, /) -> None: ...

    def delete(self, key: bytes, /) -> None: ...

    def delete_range(self, first: bytes, end: bytes, /) -> None: ...


def put_commit(batch: Batch, commit: Commit) -> None:
    """Everything that a commit changes, in an order in which what comes later wins."""
    put = batch.put
    heads = {}
    for state, entries in groupby(commit.records, key=STATE_OF):
        heads[state.address] = _put_records(batch, state, entries)
    for address, entry in heads.items():
        packed = pack_head(entry.sequence, entry.row, entry.running_max, entry.state.subject)
        put(keys.head_key(address), packed)
    _change_records(batch, commit)
    for log, (epoch, life) in commit.epochs.items():
        put(keys.epoch_key(log), pack_epoch(epoch, life))
    for address, meta in commit.metas.items():
        put(keys.meta_key(address), meta)
    for segment, phase in commit.announced.items():
        _list_segment(batch, keys.log_key(*segment), phase)
    for address, is_unfinished in commit.unfinished.items():
        _list(batch, keys.unfinished_key(address), is_there=is_unfinished)
    if commit.cluster_id is not None:
        put(keys.CLUSTER_ID, commit.cluster_id.encode())
    for state in commit.deletions:
        _delete(batch, state.address)
    for keeping in commit.keepings:
        put_keeping(batch, keeping)


def _put_records(batch: Batch, state: AddressState, entries: Iterable[Accepted]) -> Accepted:
    """Records of one address; the last of them."""
    put, sequence_bytes = batch.put, keys.sequence_bytes
    records, rows = keys.record_prefix(state.address), keys.row_prefix(state.address)
    for entry in entries:
        sequence = sequence_bytes(entry.sequence)
        put(records + sequence, entry.content)
        if entry.row:
            put(rows + sequence, entry.row)
        elif entry.sequence == state.begins:
            put(keys.native_key(state.address), first_kept(state.address, entry.sequence))
    return entry


def _list_segment(batch: Batch, key: bytes, phase: Phase) -> None:
    if phase is Phase.DELETED:
        batch.delete(key)
    else:
        batch.put(key, keys.phase_value(phase))


def _list(batch: Batch, key: bytes, *, is_there: bool) -> None:
    """A key that says everything by being there."""
    if is_there:
        batch.put(key, b"")
    else:
        batch.delete(key)


def _change_records(batch: Batch, commit: Commit) -> None:
    """What changes of records that were written before, or in this very batch."""
    for repair in commit.repairs:
        _repair(batch, repair)
    for truncation in commit.truncations:
        _truncate(batch, truncation)


def _repair(batch: Batch, repair: Repair) -> None:
    """Write records and rows over what cannot be read there, and the head, if it is the last one's."""
    state = repair.state
    for prefix, values in (
        (keys.record_prefix(state.address), repair.contents),
        (keys.row_prefix(state.address), repair.rows),
    ):
        for sequence, value in enumerate(values, repair.first):
            batch.put(prefix + keys.sequence_bytes(sequence), value)
    if repair.last == state.head:
        packed = pack_head(repair.last, repair.rows[-1], repair.running_max, state.subject)
        batch.put(keys.head_key(state.address), packed)


def _truncate(batch: Batch, truncation: Truncation) -> None:
    """Drop everything beyond the new head, also what this very batch has put there."""
    state, head, row, running_max = truncation
    first = keys.sequence_bytes(head + 1)
    for prefix in (keys.record_prefix(state.address), keys.row_prefix(state.address)):
        batch.delete_range(prefix + first, keys.prefix_end(prefix))
    batch.put(keys.head_key(state.address), pack_head(head, row, running_max, state.subject))


def _delete(batch: Batch, address: str) -> None:
    """Drop everything but the meta, which says that the address is deleted."""
    for prefix in (keys.record_prefix(address), keys.row_prefix(address)):
        batch.delete_range(prefix, keys.prefix_end(prefix))
    batch.delete(keys.head_key(address))


def put_native(
    batch: Batch,
    counts: Mapping[str, bytes],
    trims: Sequence[tuple[str, int]],
    gone: Sequence[str],
    *,
    whole: bool,
    wanted: bytes | None = None,
) -> None:
    """What is kept of native addresses, as `Database.write_native` says."""
    if wanted is not None:
        batch.put(keys.NATIVE_WANTED, wanted)
    for address, count in counts.items():
        batch.put(keys.native_key(address), count)
    for address, first in trims:
        prefix = keys.record_prefix(address)
        batch.delete_range(prefix, prefix + keys.sequence_bytes(first))
    for address in gone:
        batch.delete(keys.native_key(address))
        if whole:
            _delete(batch, address)
