"""What is done with the backups of a target: found, read back and checked, pruned."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from dafka.backup.content import Damaged, check_batches, checked, digest
from dafka.backup.manifest import (
    MANIFESTS,
    OBJECTS,
    UNFINISHED,
    KnownSegments,
    Manifest,
    SavedPartition,
    SavedSegment,
    id_at,
    id_of,
    manifest_name,
    object_name,
    unpack,
)
from dafka.backup.target import NotThere, Target

NAMED: Final = 5
"""Backups that a message names."""


class NoBackup(Exception):
    """There is no such backup; the text says which there are."""

    exit_code = 2


class Pruned(NamedTuple):
    """What a prune has deleted, or would."""

    backups: Sequence[str]
    objects: Sequence[str]
    bytes: int


def all_ids(target: Target) -> list[str]:
    """The backups, oldest first."""
    return sorted(map(id_of, target.sizes(MANIFESTS)))


def choose(target: Target, chosen: str | None) -> str:
    """The backup of this id, or the newest. Raises NoBackup."""
    ids = all_ids(target)
    if not ids:
        raise NoBackup(f"{target}: there is no backup. Take one with 'dafka backup take'")
    if chosen is None:
        return ids[-1]
    if chosen not in ids:
        named = ", ".join(ids[-NAMED:])
        raise NoBackup(f"{target}: there is no backup {chosen}; the newest are {named}")
    return chosen


def read_manifest(target: Target, chosen: str) -> Manifest:
    """A backup's manifest. Raises BadManifest, NoBackup."""
    name = manifest_name(chosen)
    try:
        return unpack(target.get(name), name)
    except NotThere as error:
        raise NoBackup(f"{error}: there is no such backup") from None


class Verification:
    """Reads back what backups need, each object once for each segment that has it."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._good: set[tuple[str, str]] = set()
        """(segment, object) of what was read already."""

    def check(self, manifest: Manifest) -> list[str]:
        """What is wrong with a backup, for people; nothing, if it can be restored as it says."""
        faults: list[str] = []
        for partition in manifest.partitions:
            faults += self._holes(partition)
            for segment in partition.segments:
                faults += self._segment(partition, segment)
        return faults

    def _holes(self, partition: SavedPartition) -> list[str]:
        known = {(gap.start, gap.end) for gap in partition.gaps}
        return [
            f"{partition.name} lacks what is from offset {before.end} to {after.start}, and does not say why"
            for before, after in pairwise(partition.segments)
            if before.end != after.start
            and (before.end, after.start) not in known
            and after.start > partition.log_start
            and not any(before.end <= start and end <= after.start for start, end in known)
        ]

    def _segment(self, partition: SavedPartition, segment: SavedSegment) -> list[str]:
        faults: list[str] = []
        offset, sequence = segment.start, 0
        for part in segment.parts:
            if part.first != sequence:
                faults.append(f"{partition.name}: segment {segment.address} lacks sequence {sequence}")
            if (segment.address, part.sha256) not in self._good:
                try:
                    batches = checked(self._target.get(object_name(part.sha256)), part)
                    check_batches(segment, offset, batches)
                    self._good.add((segment.address, part.sha256))
                except (Damaged, NotThere) as error:
                    name = object_name(part.sha256)
                    what = "is missing" if isinstance(error, NotThere) else f"is damaged: {error}"
                    faults.append(f"{partition.name}, offsets {offset} to {part.end}: object {name} {what}")
            offset, sequence = part.end, part.last + 1
        if sequence != segment.last_sequence + 1 or (offset != segment.end and not segment.is_compacted):
            faults.append(f"{partition.name}: segment {segment.address} ends at {offset}, not {segment.end}")
        if segment.producers and not self._is_good(segment.producers):
            name = object_name(segment.producers)
            faults.append(f"{partition.name}: object {name} (its producers) is missing or damaged")
        return faults

    def _is_good(self, sha256: str) -> bool:
        if ("", sha256) in self._good:
            return True
        try:
            good = digest(self._target.get(object_name(sha256))) == sha256
        except NotThere:
            good = False
        if good:
            self._good.add(("", sha256))
        return good


def prune(target: Target, keep: int, *, dry_run: bool = False) -> Pruned:
    """Delete all but the newest `keep` backups, and what none of those needs. Raises BadManifest: then
    nothing is deleted, since nobody knows what is needed.
    """
    with target.alone():
        ids = all_ids(target)
        gone, kept = ids[:-keep], ids[-keep:]
        needed: set[str] = set()
        for each in kept:
            needed |= {object_name(sha256) for sha256, _ in read_manifest(target, each).objects()}
        unfinished = KnownSegments()
        for name in target.sizes(UNFINISHED):
            unfinished.unpack(target.get(name))
        for known in unfinished.by_address.values():
            needed |= {object_name(part.sha256) for part in known.parts.values()}
            needed |= {object_name(known.producers)} if known.producers else set()
        sizes = target.sizes(OBJECTS)
        objects = sorted(sizes.keys() - needed)
        if not dry_run:
            # The manifests first: one without its objects would look like a backup.
            for each in gone:
                target.delete(manifest_name(each))
            for name in objects:
                target.delete(name)
    return Pruned(gone, objects, sum(sizes[name] for name in objects))


def choose_before(target: Target, before_ms: int) -> str | None:
    """The first backup that was taken at that time or later; None if all are older."""
    limit = id_at(before_ms, "")
    return next((each for each in all_ids(target) if each >= limit), None)
