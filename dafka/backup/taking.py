"""Takes one backup: asks the gateway what there is, copies what the target lacks, and writes the manifest.

Rule: the manifest comes last, when all that it names is durable in the target. Killed before that, a backup
leaves objects that the next one goes on with, and that a prune removes once nothing names them.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import uuid4

from dafka.backup.content import digest
from dafka.backup.manifest import (
    MANIFESTS,
    OBJECTS,
    UNFINISHED,
    BadManifest,
    Gap,
    Known,
    KnownSegments,
    Manifest,
    Part,
    SavedPartition,
    SavedSegment,
    SavedTopic,
    id_at,
    manifest_name,
    object_name,
    pack,
    unpack,
)
from dafka.backup.target import NotThere, Target, TargetFailed
from dafka.operators.backup import BEGIN, END, PIECE_BYTES, PIN_ENDED, READ, RELEASE, UNREADABLE
from dafka.operators.socket import NoGateway, OperatorRefused, ask, ask_content
from gateway.cluster.entry_check import SHOWN_CHARACTERS, unreadable
from gateway.cluster.pins import LEASE_SECONDS
from wireproto.records.header import read_header

if TYPE_CHECKING:
    from collections.abc import Iterator

OBJECT_BYTES: Final = 32 * 1024 * 1024
"""An object ends with the batch that brings it here: it is in memory while it is put, and while it is
restored."""

PROGRESS_SECONDS: Final = 5.0
"""How often it is noted in the target what a backup has that has not ended."""

READ_SECONDS = 120.0
"""Seconds for one piece: the gateway asks each store that has it in turn, five seconds each."""

AGAIN_SECONDS: Final = 60.0
"""How long a gateway that went away is waited for."""

RETRY_SECONDS: Final = 0.5
"""Pause before it is looked again whether it is there."""

RELEASED_AT_ONCE: Final = 1000
"""Addresses in one request: a line of 64 KiB."""


class Taken(NamedTuple):
    """What came of it. `copied` bytes are new in the target, of `objects`."""

    manifest: Manifest
    objects: int
    copied: int


class _BeginAnew(Exception):
    """The gateway, or the pin, is gone."""


class Taking:
    """One backup of the gateway that runs on `directory` into `target`. `say` is called with a line for
    people now and then.
    """

    def __init__(
        self,
        directory: Path,
        target: Target,
        say: Callable[[str], None] = lambda _line: None,
        *,
        object_bytes: int = OBJECT_BYTES,
    ) -> None:
        self._directory = directory
        self._target = target
        self._say = say
        self._object_bytes = object_bytes
        self._known = KnownSegments()
        self._new: dict[str, None] = {}
        """Addresses of which something was copied."""
        self._sizes: dict[str, int] = {}
        self._unfinished = f"{UNFINISHED}{uuid4().hex}.jsonl"
        self._noted = time.monotonic()
        self._pin = ""
        self.objects = 0
        self.copied = 0

    def run(self) -> Taken:
        """Take it. Raises NoGateway, OperatorRefused, TargetFailed."""
        with self._target.alone():
            left = self._learn()
            try:
                manifest = self._attempts()
            except BaseException:
                with suppress(TargetFailed):
                    self._note()
                raise
            for name in (*left, self._unfinished):
                self._target.delete(name)
        return Taken(manifest, self.objects, self.copied)

    def _learn(self) -> list[str]:
        """Take what earlier backups have; gives the names of those that did not end."""
        self._sizes = self._target.sizes(OBJECTS)
        finished = sorted(self._target.sizes(MANIFESTS))
        for name in reversed(finished):
            try:
                self._known.take(unpack(self._target.get(name), name))
                break
            except BadManifest as error:
                self._say(f"{error}; what it has is copied anew")
        unfinished = sorted(self._target.sizes(UNFINISHED))
        for name in unfinished:
            self._known.unpack(self._target.get(name))
        return unfinished

    def _attempts(self) -> Manifest:
        waited_until = time.monotonic()
        while True:
            try:
                manifest = self._attempt()
            except _BeginAnew as error:
                self._say(f"{error}: the backup begins at another moment, with what it has")
                waited_until = time.monotonic() + AGAIN_SECONDS
            except NoGateway:
                if time.monotonic() >= waited_until:
                    raise
            else:
                return manifest
            time.sleep(RETRY_SECONDS)

    def _attempt(self) -> Manifest:
        done, content = ask_content(self._directory, BEGIN)
        self._pin = done["pin"]
        with self._kept_alive():
            head, *told = map(json.loads, content.splitlines())
            topics = tuple(SavedTopic(**topic) for topic in head.pop("topics"))
            partitions = tuple(self._partition(each) for each in told)
            name = id_at(head["taken_ms"], uuid4().hex[:6])
            manifest = Manifest(id=name, **head, topics=topics, partitions=partitions)
            self._say_unreadable(manifest)
            if not self._target.put_new(manifest_name(name), pack(manifest)):
                raise _BeginAnew(f"there is a backup {name} already")
        return manifest

    def _say_unreadable(self, manifest: Manifest) -> None:
        """Not refused: the gateway goes on with such entries, and so does a restored one."""
        for key, fault in sorted(unreadable(manifest.security_entries).items()):
            self._say(
                f"the entry {key[:SHOWN_CHARACTERS]!r} cannot be read ({fault}): the backup has it as it is"
            )

    @contextmanager
    def _kept_alive(self) -> Iterator[None]:
        """Use the pin while something else takes long, and end it."""
        over = threading.Event()

        def use() -> None:
            while not over.wait(LEASE_SECONDS / 4):
                try:
                    ask(self._directory, RELEASE, pin=self._pin, addresses=[])
                except (NoGateway, OperatorRefused):
                    return  # the next read says so

        keeper = threading.Thread(target=use, daemon=True)
        keeper.start()
        try:
            yield
        finally:
            over.set()
            keeper.join()
            with suppress(NoGateway, OperatorRefused):  # it ends by itself
                ask(self._directory, END, pin=self._pin)

    # what is copied ---------------------------------------------------------------------------------------

    def _partition(self, told: dict[str, Any]) -> SavedPartition:
        segments: list[SavedSegment] = []
        gaps: list[Gap] = []
        serves, high_watermark = told["serves"], told["high_watermark"]
        for one in told["segments"]:
            if one["end"] is None and (not serves or one["start"] >= high_watermark):
                continue
            try:
                segments.append(self._segment(one))
            except OperatorRefused as refused:
                if not str(refused).startswith(UNREADABLE):
                    raise
                end = high_watermark if one["end"] is None else one["end"]
                gaps.append(Gap(one["start"], end, str(refused)))
        self._release([one["address"] for one in told["segments"]])
        end = segments[-1].end if segments else told["log_start"]
        if not serves:
            gaps.append(Gap(end, -1, f"the partition did not serve: {told['reason']}"))
        return SavedPartition(
            told["topic"],
            told["index"],
            high_watermark if serves else end,
            told["log_start"],
            tuple((epoch, start) for epoch, start in told["epochs"]),
            told["record"],
            told["producers"],
            tuple(segments),
            tuple(gaps),
        )

    def _segment(self, told: Mapping[str, Any]) -> SavedSegment:
        address, is_cut = told["address"], told["end"] is None
        last = told["cut"] if is_cut else told["last_sequence"]
        parts: list[Part] = []
        sequence, offset = 0, told["start"]
        while sequence <= last:
            part = self._part(address, sequence, last, offset)
            parts.append(part)
            sequence, offset = part.last + 1, part.end
        producers = self._known.producers(address)
        if producers is None or (producers and object_name(producers) not in self._sizes):
            producers = self._producers(address, told)
        return SavedSegment(
            address,
            told["epoch"],
            told["start"],
            offset if is_cut else told["end"],
            last,
            told["opened_ms"],
            told["closed_ms"],
            told["cleaned_to"],
            producers,
            tuple(parts),
            is_cut,
        )

    def _part(self, address: str, first: int, last: int, offset: int) -> Part:
        part = self._known.part(address, first, last, self._object_bytes)
        if part is not None and self._sizes.get(object_name(part.sha256)) == part.bytes:
            return part
        pieces: list[bytes] = []
        size, sequence = 0, first
        highest, epoch = -1, -1
        while size < self._object_bytes and sequence <= last:
            most = min(self._object_bytes - size, PIECE_BYTES)
            done, content = self._read(address, sequence, last, offset, most)
            position = 0
            for length in done["sizes"]:
                header = read_header(content[position : position + length])
                highest, epoch = max(highest, header.max_timestamp), header.leader_epoch
                position += length
            if "producers" in done:
                self._keep_producers(address, done["producers"])
            sequence, offset = sequence + len(done["sizes"]), done["offset"]
            size += len(content)
            pieces.append(content)
        joined = b"".join(pieces)
        part = Part(self._put(joined), size, first, sequence - first, offset, highest, epoch)
        self._known.add(address, part)
        self._new[address] = None
        if time.monotonic() - self._noted > PROGRESS_SECONDS:
            self._note()
            self._say(f"{self.copied / 1e6:,.0f} MB copied")
        return part

    def _producers(self, address: str, told: Mapping[str, Any]) -> str:
        """The object with the snapshot that a segment was announced with."""
        last = told["cut"] if told["end"] is None else told["last_sequence"]
        done, _ = self._read(address, 0, last, told["start"], 1)
        return self._keep_producers(address, done["producers"])

    def _keep_producers(self, address: str, encoded: str) -> str:
        snapshot = base64.b64decode(encoded)
        name = self._put(snapshot) if snapshot else ""
        self._known.by_address.setdefault(address, Known()).producers = name
        return name

    def _read(
        self, address: str, sequence: int, last: int, offset: int, most: int
    ) -> tuple[dict[str, Any], bytes]:
        asked: dict[str, Any] = {
            "address": address,
            "sequence": sequence,
            "last": last,
            "offset": offset,
            "bytes": most,
        }
        try:
            return ask_content(self._directory, READ, READ_SECONDS, pin=self._pin, **asked)
        except OperatorRefused as refused:
            if str(refused).startswith(PIN_ENDED):
                raise _BeginAnew(str(refused)) from None
            raise
        except NoGateway as error:
            raise _BeginAnew(str(error)) from None

    def _release(self, addresses: list[str]) -> None:
        for start in range(0, len(addresses), RELEASED_AT_ONCE):
            piece = addresses[start : start + RELEASED_AT_ONCE]
            try:
                ask(self._directory, RELEASE, pin=self._pin, addresses=piece)
            except (NoGateway, OperatorRefused) as error:
                raise _BeginAnew(str(error)) from None

    def _put(self, content: bytes) -> str:
        """Have an object in the target; its SHA-256."""
        name = digest(content)
        path = object_name(name)
        if self._sizes.get(path) != len(content):
            if not self._target.put_new(path, content):
                self._replace(path, content)
            self._sizes[path] = len(content)
            self.objects += 1
            self.copied += len(content)
        return name

    def _replace(self, path: str, content: bytes) -> None:
        """An object of this name is there, and not of this size, or was put since: it is made right."""
        try:
            if self._target.get(path) == content:
                return
        except NotThere:
            pass
        self._target.put(path, content)

    def _note(self) -> None:
        """Note in the target what was copied, for a backup that goes on."""
        self._noted = time.monotonic()
        if self._new:
            self._target.put(self._unfinished, self._known.pack(self._new))
