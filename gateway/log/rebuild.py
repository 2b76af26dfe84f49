"""A lost catalog, read back from the stores (`--rebuild-catalog`).

Every segment was announced on its members' disks before its first record, with the topic it belongs to; so
topics, configs, chains and epochs come back from the announcements. What does not: topics that were never
written to. Segments that no CLOSE has reached are taken as open, and recovery seals them as after any crash.

The stores know no offsets beyond their rows; a closed segment's end is its last row's.

Epochs that left no segment come from the stores too (`raise_epochs`): a segment that turned out empty is
deleted, and the store remembers its epoch. Without that the first epoch of the rebuilt catalog would be
refused as one that another life has used.
"""

import json
import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.log import catalog_keys as keys
from gateway.log.opener import log_name
from gateway.log.producer_ids import BLOCK
from gateway.log.segment import Segment
from mesh.protocol.address_state import Phase
from wireproto.dafka.additions import AddressStatus, Announcement
from wireproto.records.row import Row

if TYPE_CHECKING:
    from mesh.reader import Reader

logger = logging.getLogger(__name__)


class Found(NamedTuple):
    """One announced segment: what OPEN said, what the store says now, and the details, parsed."""

    announcement: Announcement
    status: AddressStatus
    details: dict[str, Any]


def rebuilt_entries(found: Sequence[tuple[Announcement, AddressStatus]]) -> dict[str, bytes]:
    """The catalog's entries for these segments (of one store; every segment once).

    Raises ValueError for announcements that cannot be read.
    """
    entries: dict[str, bytes] = {}
    by_log: dict[tuple[str, int], list[Found]] = defaultdict(list)
    floor = 0
    for announcement, status in found:
        if status.status == Phase.CLOSED and not status.row:
            # An empty segment that left its chain: nothing of it tells anything.
            continue
        details = json.loads(announcement.details)
        floor = max(floor, int(details["producer_id_floor"]))
        by_log[details["topic_id"], details["partition"]].append(Found(announcement, status, details))
    newest: dict[str, Found] = {}
    for (topic_id, index), segments in by_log.items():
        segments.sort(key=lambda one: (one.announcement.start, one.announcement.epoch))
        _add_chain(entries, bytes.fromhex(topic_id), index, segments)
        last = segments[-1]
        if topic_id not in newest or last.details["opened_ms"] > newest[topic_id].details["opened_ms"]:
            newest[topic_id] = last
    for topic_id, last in newest.items():
        entries[keys.topic_key(last.announcement.subject)] = keys.pack(
            {
                "id": topic_id,
                "partitions": last.details["partitions"],
                "replication_factor": last.details["replication_factor"],
                "configs": last.details["configs"],
            }
        )
    # A block may have been taken behind the last announcement's back: leave room for a few.
    entries[keys.PRODUCER_IDS] = keys.pack(floor + LOST_BLOCKS * BLOCK)
    return entries


LOST_BLOCKS = 1000
"""Blocks of producer ids skipped: more than were taken between an announcement and the loss."""


def logs_of(entries: Mapping[str, bytes]) -> list[str]:
    """The logs of all partitions of the topics among these entries, written to or not."""
    topics = [keys.unpack(value) for key, value in entries.items() if key.startswith(keys.TOPICS)]
    return [
        log_name(bytes.fromhex(topic["id"]), index)
        for topic in topics
        for index in range(topic["partitions"])
    ]


def raise_epochs(entries: dict[str, bytes], epochs: Mapping[str, int]) -> None:
    """Let each partition go on behind the highest epoch that the store knows of its log (-1: none)."""
    record: dict[str, Any]
    for log, epoch in epochs.items():
        topic_id, _, index = log.partition("/")
        key = keys.partition_key(bytes.fromhex(topic_id), int(index))
        record = {"next_epoch": 0, "epochs": [], "log_start": 0}
        if key in entries:
            record = keys.unpack(entries[key])
        if epoch >= record["next_epoch"]:
            entries[key] = keys.pack({**record, "next_epoch": epoch + 1})


def _add_chain(entries: dict[str, bytes], topic_id: bytes, index: int, segments: list[Found]) -> None:
    for one in segments:
        announcement, status = one.announcement, one.status
        segment = Segment(
            announcement.address,
            announcement.epoch,
            announcement.start,
            announcement.members,
            announcement.w,
            one.details["opened_ms"],
            announced=True,
        )
        if status.status == Phase.CLOSED:
            row = Row.unpack(status.row)
            segment = segment.closed(row.last_offset + 1, status.sequence, row.running_max_timestamp)
        key = keys.segment_key(topic_id, index, segment.start_offset, segment.address)
        entries[key] = segment.pack()
    last = segments[-1]
    entries[keys.partition_key(topic_id, index)] = keys.pack(
        {
            "next_epoch": max(one.announcement.epoch for one in segments) + 1,
            "epochs": last.details["epochs"],
            "log_start": last.details["log_start"],
        }
    )


async def read_back(reader: "Reader", incarnations: Sequence[str]) -> dict[str, bytes]:
    """The catalog's entries, from what these stores were told by OPEN and CLOSE.

    Raises ValueError for announcements that cannot be read, and `NotServed`.
    """
    found: dict[str, tuple[Announcement, AddressStatus]] = {}
    for incarnation in incarnations:
        for announcement, status in await reader.segments(incarnation):
            known = found.get(announcement.address)
            if known is None or (status.status, status.sequence) > (known[1].status, known[1].sequence):
                found[announcement.address] = announcement, status
    entries = rebuilt_entries(list(found.values()))
    logs = logs_of(entries)
    for incarnation in incarnations:
        known_epochs = await reader.verify(incarnation, [(log, "") for log in logs])
        raise_epochs(entries, {log: one.epoch for log, one in zip(logs, known_epochs, strict=True)})
    return entries
