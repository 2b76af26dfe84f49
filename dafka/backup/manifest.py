"""What one backup says: topics, configs, and of each partition the chain of its segments with the objects
that have its batches. Pure.

A manifest is lines of JSON: the cluster, then each partition, and last the number of lines before it with
their SHA-256, so that it is taken whole or not at all. Offsets and sequences are those of the log; times are
ms since 1970.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from gateway.catalog import keys
from gateway.cluster.entry_check import SHOWN_CHARACTERS

KIND: Final = "dafka-backup"

VERSION: Final = 2
"""The version of the format. 1 has no users, no ACLs and no quotas."""

MANIFESTS: Final = "manifests/"
UNFINISHED: Final = "unfinished/"
OBJECTS: Final = "objects/"

SUFFIX: Final = ".jsonl"

UNKNOWN: Final = -1


class BadManifest(Exception):
    """It is not whole, not one, or of a newer version; the text says why and what to do."""

    exit_code = 3


@dataclass(frozen=True, slots=True)
class Part:
    """Batches of one segment in one object, from sequence `first` on. `end` is the offset after the last."""

    sha256: str
    bytes: int
    first: int
    records: int
    end: int
    max_timestamp: int
    epoch: int
    """The leader epoch of the last batch."""

    @property
    def last(self) -> int:
        """The last sequence in it."""
        return self.first + self.records - 1


@dataclass(frozen=True, slots=True)
class SavedSegment:
    """A segment up to `last_sequence`. `producers` is the object with the snapshot that it was announced
    with, "" for an empty one; `is_cut`: it was open when the backup was taken.
    """

    address: str
    epoch: int
    start: int
    end: int
    last_sequence: int
    opened_ms: int
    closed_ms: int
    cleaned_to: int
    producers: str
    parts: tuple[Part, ...]
    is_cut: bool = False

    @property
    def is_compacted(self) -> bool:
        """Whether a compaction has written it: its batches may have gaps between them."""
        return self.cleaned_to != UNKNOWN

    @property
    def max_timestamp(self) -> int:
        """The highest record timestamp in it."""
        return max((part.max_timestamp for part in self.parts), default=UNKNOWN)

    @property
    def size(self) -> int:
        """Bytes of its batches."""
        return sum(part.bytes for part in self.parts)


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets that the backup lacks, and why; `end` -1: nobody knows where it ends."""

    start: int
    end: int
    why: str


@dataclass(frozen=True, slots=True)
class SavedPartition:
    """A partition. `record` is the catalog's, None where nothing was ever written; `producers` its producers
    in base64 where no segment is left.
    """

    topic: str
    index: int
    high_watermark: int
    log_start: int
    epochs: tuple[tuple[int, int], ...]
    record: Mapping[str, Any] | None
    producers: str
    segments: tuple[SavedSegment, ...]
    gaps: tuple[Gap, ...] = ()

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.topic}-{self.index}"

    @property
    def end(self) -> int:
        """The offset after all that is here."""
        return self.segments[-1].end if self.segments else self.log_start


@dataclass(frozen=True, slots=True)
class SavedTopic:
    """A topic; `id` in hex, `maker` as in `gateway.log.topic.Topic`."""

    name: str
    id: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]
    maker: str = ""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One backup. `id` names it, and is in the order of time."""

    id: str
    taken_ms: int
    cluster: str
    leader_epoch: int
    producer_ids: int
    broker_configs: Mapping[str, Any]
    topics: tuple[SavedTopic, ...]
    partitions: tuple[SavedPartition, ...] = field(default=())
    security: Mapping[str, str] = field(default_factory=dict)
    """The catalog's entries of users, ACLs and quotas, by key, in base64."""

    @property
    def gaps(self) -> list[tuple[SavedPartition, Gap]]:
        """All gaps."""
        return [(partition, gap) for partition in self.partitions for gap in partition.gaps]

    @property
    def size(self) -> int:
        """Bytes of batches."""
        return sum(segment.size for each in self.partitions for segment in each.segments)

    @property
    def security_entries(self) -> dict[str, bytes]:
        """Users, ACLs and quotas as the catalog has them, also those that cannot be read: a gateway judges
        them after a restore as one does that runs. Raises ValueError: one is something else.
        """
        entries: dict[str, bytes] = {}
        for key, value in self.security.items():
            shown = repr(key[:SHOWN_CHARACTERS])
            if not key.startswith(keys.OF_SECURITY):
                raise ValueError(f"the entry {shown} is no user, no ACL and no quota")
            try:
                entries[key] = base64.b64decode(value, validate=True)
            except ValueError:
                raise ValueError(f"the entry {shown} is no base64") from None
        return entries

    def objects(self) -> Iterator[tuple[str, int]]:
        """The SHA-256 of each object that it needs, with its bytes (-1: not known), some more than once."""
        for partition in self.partitions:
            for segment in partition.segments:
                for part in segment.parts:
                    yield part.sha256, part.bytes
                if segment.producers:
                    yield segment.producers, UNKNOWN


def object_name(sha256: str) -> str:
    """Where an object lies in a target."""
    return f"{OBJECTS}{sha256[:2]}/{sha256}"


def manifest_name(manifest_id: str) -> str:
    """Where a manifest lies in a target."""
    return f"{MANIFESTS}{manifest_id}{SUFFIX}"


def id_of(name: str) -> str:
    """The id in such a name."""
    return name.rpartition("/")[2].removesuffix(SUFFIX)


def id_at(taken_ms: int, salt: str) -> str:
    """The id of a backup of that moment; `salt` tells those of one millisecond apart."""
    moment = datetime.fromtimestamp(taken_ms / 1000, UTC)
    return f"{moment:%Y%m%dT%H%M%S}.{taken_ms % 1000:03d}Z-{salt}"


def pack(manifest: Manifest) -> bytes:
    """As it lies in a target."""
    fields = dataclasses.asdict(manifest)
    partitions = fields.pop("partitions")
    lines = [_line({"kind": KIND, "version": VERSION, **fields}), *map(_line, partitions)]
    digest = hashlib.sha256(b"".join(lines)).hexdigest()
    return b"".join([*lines, _line({"lines": len(lines), "sha256": digest})])


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def unpack(content: bytes, name: str) -> Manifest:
    """A manifest. Raises BadManifest, which calls it `name`."""
    lines = content.splitlines(keepends=True)
    try:
        parsed = [json.loads(line) for line in lines]
        head, last = parsed[0], parsed[-1]
        if head.pop("kind") != KIND:
            raise ValueError("it is none")
        version = head.pop("version")
        if version > VERSION:
            raise BadManifest(
                f"{name}: the manifest has version {version}, and this program knows none above {VERSION}: "
                "use the version that wrote it, or a newer one"
            )
        if last != {"lines": len(lines) - 1, "sha256": hashlib.sha256(b"".join(lines[:-1])).hexdigest()}:
            raise ValueError("it is cut off or was changed")
        topics = tuple(SavedTopic(**topic) for topic in head.pop("topics"))
        partitions = tuple(map(_partition, parsed[1:-1]))
        manifest = Manifest(**head | {"topics": topics, "partitions": partitions})
        _ = manifest.security_entries  # refused here, and not in the midst of a restore
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, RecursionError) as error:
        why = str(error) if type(error) is ValueError else repr(error)
        raise BadManifest(f"{name}: the manifest cannot be read ({why}): use another backup") from None
    return manifest


def _partition(fields: dict[str, Any]) -> SavedPartition:
    segments = tuple(
        SavedSegment(**one | {"parts": tuple(Part(**part) for part in one["parts"])})
        for one in fields["segments"]
    )
    epochs = tuple((int(epoch), int(start)) for epoch, start in fields["epochs"])
    gaps = tuple(Gap(**gap) for gap in fields["gaps"])
    return SavedPartition(**fields | {"segments": segments, "epochs": epochs, "gaps": gaps})


# what an earlier backup has ---------------------------------------------------------------------------------


@dataclass(slots=True)
class Known:
    """What is there of one address: parts by their first sequences."""

    producers: str | None = None
    parts: dict[int, Part] = field(default_factory=dict)


class KnownSegments:
    """What earlier backups have of segments, finished or not: it is not read again."""

    def __init__(self) -> None:
        self.by_address: dict[str, Known] = {}

    def take(self, manifest: Manifest) -> None:
        """All that a manifest has."""
        for partition in manifest.partitions:
            for segment in partition.segments:
                known = self.by_address.setdefault(segment.address, Known())
                known.producers = segment.producers
                known.parts |= {part.first: part for part in segment.parts}

    def add(self, address: str, part: Part) -> None:
        """An object is in the target."""
        self.by_address.setdefault(address, Known()).parts[part.first] = part

    def part(self, address: str, first: int, last: int, full: int) -> Part | None:
        """The part that begins with sequence `first`, of a segment that ends with `last`: one that is full
        (it has so many bytes), or ends there.
        """
        known = self.by_address.get(address)
        part = None if known is None else known.parts.get(first)
        if part is None or part.last > last or (part.bytes < full and part.last != last):
            return None
        return part

    def producers(self, address: str) -> str | None:
        """The object with the snapshot of its announcement, None if it is not known."""
        known = self.by_address.get(address)
        return None if known is None else known.producers

    def pack(self, addresses: Iterable[str]) -> bytes:
        """What is known of these, for a backup that goes on."""
        return b"".join(
            _line({"address": address, **dataclasses.asdict(self.by_address[address])})
            for address in addresses
            if address in self.by_address
        )

    def unpack(self, content: bytes) -> None:
        """Take what `pack` gave. Lines that are not whole are passed over: what they tell is read again."""
        for line in content.splitlines():
            try:
                told = json.loads(line)
                known = self.by_address.setdefault(told["address"], Known())
                if told["producers"] is not None:
                    known.producers = told["producers"]
                known.parts |= {int(first): Part(**part) for first, part in told["parts"].items()}
            except (AttributeError, KeyError, TypeError, ValueError):
                continue
