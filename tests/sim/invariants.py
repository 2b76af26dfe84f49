"""What must hold of the whole cluster whenever it is looked at, and what must be so once all is healed.

Looked at from outside: the catalog's file, the disks, and what `History` saw.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

from gateway.catalog import keys
from gateway.log.partition import PartitionState
from gateway.log.segment import Segment
from mesh.protocol.address_state import Phase, life_of
from mesh.protocol.disk import StoreCorrupt
from mesh.store import keys as store_keys
from tests.sim.groups import is_loading
from tests.sim.loop import BrokenPromise
from tests.sim.plan import COORDINATED
from wireproto.records.header import read_header

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gateway.log.partition import Partition
    from tests.sim.clients import PartitionName
    from tests.sim.cluster import World
    from tests.sim.disk import SimDatabase

MOST_ADDRESSES = 100_000
"""On one disk."""


def chains(world: World) -> dict[PartitionName, list[Segment]]:
    """The chains as the catalog's file has them, of topics that are not deleted."""
    names = {}
    for entry in world.catalog_file.range(keys.TOPICS):
        names[keys.unpack(entry.value)["id"]] = entry.key.removeprefix(keys.TOPICS)
    found: defaultdict[PartitionName, list[Segment]] = defaultdict(list)
    for entry in world.catalog_file.range(keys.SEGMENTS):
        topic_id, index, _ = entry.key.removeprefix(keys.SEGMENTS).split("/")
        if topic_id in names:
            found[names[topic_id], int(index)].append(Segment.unpack(entry.value))
    return found


def cleaned_offsets(world: World) -> int:
    """How far compactions have come, all logs together."""
    return sum(max(segment.cleaned_to for segment in chain) + 1 for chain in chains(world).values())


def _disks(world: World) -> dict[str, SimDatabase]:
    """The disks by incarnation, without those that are given up: what is on them counts for nothing."""
    return {
        member.incarnation: member.database()
        for member in world.members
        if member.incarnation not in world.lost
    }


def check_all(world: World) -> None:
    """Everything that must hold at any time. Raises `BrokenPromise`."""
    disks = _disks(world)
    _look_at_flipped(world, disks)
    found = chains(world)
    _check_log_starts(world)
    for partition, chain in found.items():
        _check_chain(partition, chain)
        for segment in chain:
            if not segment.is_open:
                _check_closed(world, segment, disks)
        if world.is_compacted(partition):
            _check_compacted(world, partition, chain, disks)
        else:
            _check_kept(world, partition, chain, disks)
        _check_doubles(world, partition, chain)
        _check_epoch_lives(world, chain)
    for life in world.lives:
        if not life.over and life.serving:
            for log in life.partitions():
                _check_shown_watermark(world, (log.topic.name, log.index), log, zombie=life.zombie)
                if life in world.current_lives() and life.context.leads(log):
                    _check_epochs(world, log)
                    _check_told_epoch(world, log)
    _check_deleted(world, disks)


def _look_at_flipped(world: World, disks: dict[str, SimDatabase]) -> None:
    """Which bits that were lost are mended, or are of nothing that is kept any more."""
    for (address, member), (key, before) in list(world.flipped.items()):
        state = disks[member].load(address) if member in disks else None
        if state is not None and state.phase is Phase.CLOSED:
            if disks[member].get(key) != before:
                continue
            world.reached["flipped bits mended"] += 1
            world.history.compared.discard((address, member))
        del world.flipped[address, member]


def _check_chain(partition: PartitionName, chain: list[Segment]) -> None:
    """No holes and no overlaps, and only the last ones are open."""
    for before, after in pairwise(chain):
        if before.end_offset != after.start_offset:
            raise BrokenPromise(
                f"the chain of {partition} goes from {before.end_offset} ({before.address}) to"
                f" {after.start_offset} ({after.address})"
            )


def _check_log_starts(world: World) -> None:
    """A log start never goes back, and there is no hole between it and the chain; of a topic that is deleted
    the segments go as they come.
    """
    first: dict[str, int] = {}
    for entry in world.catalog_file.range(keys.SEGMENTS):
        topic_id, index, place = entry.key.removeprefix(keys.SEGMENTS).split("/")
        first.setdefault(f"{keys.PARTITIONS}{topic_id}/{index}", int(place.partition("-")[0]))
    for entry in world.catalog_file.range(keys.PARTITIONS):
        log_start = keys.unpack(entry.value)["log_start"]
        before = world.log_starts.get(entry.key, 0)
        if log_start < before:
            raise BrokenPromise(f"the log start of {entry.key} goes back from {before} to {log_start}")
        world.log_starts[entry.key] = log_start
        topic_id, index = entry.key.removeprefix(keys.PARTITIONS).split("/")
        partition = world.topic_names[topic_id], int(index)
        if log_start > world.highest_start(partition):
            raise BrokenPromise(f"the log start of {partition} is {log_start}, and nobody moved it there")
        buried = keys.TOMBSTONES + topic_id in world.catalog_file.entries
        if not buried and first.get(entry.key, log_start) > log_start:
            raise BrokenPromise(
                f"{entry.key} begins at {log_start}, and its first segment at {first[entry.key]}"
            )


def _check_closed(world: World, segment: Segment, disks: dict[str, SimDatabase]) -> None:
    """A closed segment is whole on w members, and the same on all that have it as closed."""
    last = segment.last_sequence
    assert last is not None
    world.history.check_durable(segment, last)
    published = world.history.published[segment.address]
    confirmed = keys.closing_key(segment.address) not in world.catalog_file.entries
    for member in segment.members:
        database = disks.get(member)
        state = None if database is None else database.load(segment.address)
        if (
            database is not None
            and confirmed
            and (state is None or (state.phase, state.head) != (Phase.CLOSED, last))
        ):
            raise BrokenPromise(
                f"{member} has confirmed that {segment.address} ends at {last}, and keeps"
                f" {'nothing of it' if state is None else f'it up to {state.head}, {state.phase.name}'}"
            )
        if database is None or state is None or state.phase is not Phase.CLOSED:
            continue
        if state.end != last or state.head > last:
            raise BrokenPromise(
                f"{segment.address} ends at {last}, and {member} keeps it up to {state.head}, with the end"
                f" {state.end}"
            )
        if (segment.address, member) in world.history.compared and state.head == last:
            continue
        if (segment.address, member) in world.flipped:
            continue
        try:
            records = database.records(segment.address)
        except StoreCorrupt as error:
            raise BrokenPromise(f"{member}: {error}") from None
        if any(published.get(sequence) != content for sequence, content in records.items()):
            raise BrokenPromise(f"{member} keeps {segment.address} with other records than were published")
        if state.head == last:
            world.history.compared.add((segment.address, member))


def _check_kept(
    world: World, partition: PartitionName, chain: list[Segment], disks: dict[str, SimDatabase]
) -> None:
    """What was acknowledged or shown is in the chain, at its offset, on a disk that is left; but for what
    lies below the log start.
    """
    history, log_start = world.history, _log_start(world, partition)
    for offset, name in history.acknowledged[partition].items():
        if offset < log_start:
            continue
        content = _content_at(world, chain, offset, disks)
        if content is None or name not in content:
            raise BrokenPromise(
                f"{name!r} was acknowledged at offset {offset} of {partition}, and is not there"
            )
    for offset, shown in history.shown[partition].items():
        if offset >= log_start and _content_at(world, chain, offset, disks) != shown:
            raise BrokenPromise(f"offset {offset} of {partition} was shown, and is not there as it was")


def _log_start(world: World, partition: PartitionName) -> int:
    """As the catalog has it."""
    topic = world.catalog_file.entries[keys.topic_key(partition[0])]
    topic_id = bytes.fromhex(keys.unpack(topic.value)["id"])
    entry = world.catalog_file.entries.get(keys.partition_key(topic_id, partition[1]))
    return 0 if entry is None else int(keys.unpack(entry.value)["log_start"])


def _check_compacted(
    world: World, partition: PartitionName, chain: list[Segment], disks: dict[str, SimDatabase]
) -> None:
    """Of what was acknowledged or shown, the newest record of each key is in the chain, at its offset, and
    nothing comes back.
    """
    ledger = world.history.ledger(partition)
    for offset, name in world.history.acknowledged[partition].items():
        if offset not in ledger.records or ("name", name) not in ledger.records[offset].headers:
            raise BrokenPromise(f"{name!r} was acknowledged at {offset} of {partition}, and was never there")
    contents = [content for segment in chain for content in _contents(world, segment, disks)]
    ledger.check_log(contents, _log_start(world, partition), world.loop.now)


def _contents(world: World, segment: Segment, disks: dict[str, SimDatabase]) -> Iterator[bytes]:
    """The batches of a segment that are on a disk that is left."""
    published = world.history.published[segment.address]
    last = max(published, default=-1) if segment.last_sequence is None else segment.last_sequence
    prefix = store_keys.record_prefix(segment.address)
    for sequence in range(last + 1):
        for member in segment.members:
            if member in disks and (segment.address, member) not in world.flipped:
                content = disks[member].get(prefix + store_keys.sequence_bytes(sequence))
                if content is not None:
                    yield content
                    break


def _check_epochs(world: World, log: Partition) -> None:
    """Each record has the leader epoch that it was written with."""
    if log.state is not PartitionState.READY or log.deleted:
        return
    for offset, record in world.history.ledger((log.topic.name, log.index)).records.items():
        if offset >= log.log_start_offset and log.epoch_at(offset) != record.epoch:
            raise BrokenPromise(
                f"offset {offset} of {log} was written in epoch {record.epoch}, and counts as of"
                f" {log.epoch_at(offset)}"
            )


def _check_told_epoch(world: World, log: Partition) -> None:
    """Clients ignore what they are told of a lower leader epoch."""
    told = world.history.leader_epochs
    name = log.topic.name, log.index
    if log.leader_epoch < told[name]:
        raise BrokenPromise(f"the leader epoch of {log} went back from {told[name]} to {log.leader_epoch}")
    told[name] = log.leader_epoch


def _check_epoch_lives(world: World, chain: list[Segment]) -> None:
    """No two lives write under one leader epoch, in no log."""
    for segment in chain:
        life = world.history.epoch_lives.setdefault(segment.epoch, life_of(segment.address))
        if life != life_of(segment.address):
            raise BrokenPromise(f"lives {life} and {life_of(segment.address)} wrote in epoch {segment.epoch}")


def _content_at(
    world: World, chain: list[Segment], offset: int, disks: dict[str, SimDatabase]
) -> bytes | None:
    """The batch with this base offset, if it is in the chain and some member's disk has it."""
    for segment in reversed(chain):
        if segment.start_offset > offset:
            continue
        sequence = world.history.places[segment.address].get(offset)
        if sequence is None or (segment.last_sequence is not None and sequence > segment.last_sequence):
            return None
        key = store_keys.record_prefix(segment.address) + store_keys.sequence_bytes(sequence)
        for member in segment.members:
            if member in disks and (segment.address, member) not in world.flipped:
                content = disks[member].get(key)
                if content is not None:
                    return content
        return None
    return None


def _check_doubles(world: World, partition: PartitionName, chain: list[Segment]) -> None:
    """No batch of an idempotent producer is in the log twice."""
    seen: dict[tuple[int, int, int], int] = {}
    for segment in chain:
        published = world.history.published[segment.address]
        for sequence in range(len(published) if segment.last_sequence is None else segment.last_sequence + 1):
            content = published.get(sequence)
            if content is None:
                continue
            header = read_header(content)
            if header.producer_id >= 0 and not header.is_control and partition[0] not in COORDINATED:
                name = header.producer_id, header.producer_epoch, header.base_sequence
                known = seen.setdefault(name, header.base_offset)
                if known != header.base_offset:
                    raise BrokenPromise(
                        f"producer {header.producer_id}'s batch {header.base_sequence} is in {partition} at"
                        f" offset {known} and {header.base_offset}"
                    )


def _check_shown_watermark(world: World, partition: PartitionName, log: object, *, zombie: bool) -> None:
    """A life that serves shows at least what lives before it have shown (a stale one may lag behind)."""
    state, watermark = getattr(log, "state"), getattr(log, "high_watermark")  # noqa: B009
    shown = max(world.history.shown[partition], default=-1)
    if state is PartitionState.READY and not zombie and watermark <= shown:
        raise BrokenPromise(f"offset {shown} of {partition} was shown, and the high watermark is {watermark}")


def _check_deleted(world: World, disks: dict[str, SimDatabase]) -> None:
    """What was deleted and confirmed by every member stays deleted."""
    for address, members in world.catalog_file.deleted.items():
        for member in members:
            # One that was taken out of service is told nothing more.
            asked = member in disks and member not in world.retired
            state = disks[member].load(address) if asked else None
            if state is not None and (state.phase is not Phase.DELETED or state.head >= 0):
                raise BrokenPromise(f"{address} was deleted, and {member} has it as {state.phase.name}")


def what_is_missing(world: World) -> str:
    """Why a healed cluster is not at rest yet; "" once it is."""
    lives = world.current_lives()
    if len(lives) < world.plan.gateways or not all(life.serving for life in lives):
        return "no gateway serves" if world.plan.gateways == 1 else "not every gateway serves"
    for member in world.members:
        if not member.up:
            return f"{member.name} is not up"
    if world.retiring:
        return "a store is not out of service yet"
    _look_at_flipped(world, _disks(world))
    if world.flipped:
        return f"bits that were lost are not mended: {sorted(world.flipped)}"
    if world.lost:
        return f"nobody has taken the place of {', '.join(world.lost)}"
    for life in lives:
        for log in life.partitions():
            if life.context.leads(log) and log.state is not PartitionState.READY:
                return f"{log} does not serve: {log.reason}"
        if (world.plan.groups or world.plan.applications) and (loading := is_loading(life)):
            return loading
    waiting = [producer for producer in world.producers if producer.unanswered and not producer.stopped]
    if waiting:
        return f"{len(waiting)} producers wait for answers, {waiting[0].unanswered[0].name!r} among them"
    return _unconfirmed(world)


def _unconfirmed(world: World) -> str:
    """An end or a deletion that some store has not confirmed."""
    file = world.catalog_file
    for prefix in (keys.CLOSING, keys.SEGMENT_TOMBSTONES, keys.TOMBSTONES, keys.COMPACTING):
        for entry in file.range(prefix):
            return f"not every member has confirmed {entry.key}"
    return _lagging(world) or _left_over(world)


def _left_over(world: World) -> str:
    """Something on a disk that is in no chain: nobody would ever give its room back."""
    chained = {segment.address for chain in chains(world).values() for segment in chain}
    for member in world.members:
        if member.incarnation in world.retired or member.incarnation in world.restored:
            continue
        database = member.database()
        for address in database.addresses("", MOST_ADDRESSES):
            state = None if address in chained else database.load(address)
            if state is not None and state.phase is Phase.NATIVE:
                continue
            if state is not None and (state.head >= 0 or state.phase is not Phase.DELETED):
                return f"{member.name} keeps {address} ({state.phase.name}), which is in no log"
    return ""


def _lagging(world: World) -> str:
    """A member that has not all of a segment that is open: it catches up by itself."""
    disks = _disks(world)
    for chain in chains(world).values():
        for segment in chain:
            last = max(world.history.published[segment.address], default=-1)
            for member in segment.members if segment.is_open else ():
                state = disks[member].load(segment.address)
                if last >= 0 and (state is None or state.head < last):
                    return f"{member} has {segment.address} up to {state and state.head}, not {last}"
    return ""
