"""A catalog as a file of lines: its backup, and what becomes of one that is put back. Pure.

Each line is a JSON object. The first says what it is and where in which history; then comes an entry a line;
the last has their number and the SHA-256 of all lines before it, so that a file is taken whole or not at all.

An imported catalog begins a new lineage, which names the exported one and its sequence. So stores that
remember more than that refute it (`gateway.cluster.lineage`), unless the operator has said that it is to
count although it is older. Notes of work under way and tombstones are not taken: what was to be deleted then
may be something else by now, and nothing is deleted on the word of a catalog that may be old. That their
segments are known stays (`/left-over/`): stores may keep them, and that is no news which refutes the catalog.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gateway.catalog import keys
from gateway.catalog.interface import MAX_KEY_BYTES, MAX_VALUE_BYTES
from gateway.cluster.entry_check import SHOWN_CHARACTERS, unreadable
from gateway.cluster.lineage import Life, Lineage
from gateway.cluster.rebuild import LOST_BLOCKS, SPARE_EPOCHS, highest_epoch
from gateway.log.idempotence.producer_ids import BLOCK

if TYPE_CHECKING:
    from gateway.catalog.snapshot import Snapshot

VERSION: Final = 1
"""The version of the file's format."""

KIND: Final = "dafka-catalog"

NOT_TAKEN: Final = (
    keys.CLOSING,
    keys.COMPACTING,
    keys.SEGMENT_TOMBSTONES,
    keys.TOMBSTONES,
    keys.REPLACING,
    keys.LINEAGE,
    keys.CLUSTER,
    keys.ALIVE,
    keys.DRAINING,
    keys.LEAVING,
    keys.MISSED,
    keys.STANDBYS,
    keys.SLOTS,
    keys.GATEWAYS,
    keys.PREFERRED,
    keys.REGISTERED,
)
"""What the keys begin with of entries that an import leaves out, or makes itself."""

IN_NO_CHAIN: Final = (keys.COMPACTING, keys.SEGMENT_TOMBSTONES)
"""Those of them that are about segments which stores keep and no chain has."""


class NotAnExport(Exception):
    """The file is not whole, or not one; the text says why and what to do."""

    exit_code = 3


class Exported(NamedTuple):
    """A catalog as it was exported. life: the newest gateway life that it knows."""

    cluster: str
    lineage: str
    life: str
    sequence: int
    entries: Mapping[str, bytes]


def exported(catalog: Snapshot) -> Exported:
    """A whole catalog as it was at one moment. Raises NotAnExport for one that belongs to no cluster yet."""
    entries = catalog.entries
    if keys.CLUSTER not in entries:
        raise NotAnExport("the catalog is empty: there is nothing to export")
    lineage = "" if keys.LINEAGE not in entries else Lineage.unpack(entries[keys.LINEAGE]).name
    lives = [key for key in entries if key.startswith(keys.LIVES) and Life.unpack(entries[key]).last is None]
    life = max(lives).removeprefix(keys.LIVES) if lives else ""
    return Exported(keys.unpack(entries[keys.CLUSTER])["id"], lineage, life, catalog.sequence, entries)


def lines_of(catalog: Exported) -> Iterator[str]:
    """The lines of the file, with their ends."""
    digest = hashlib.sha256()
    header = {
        "kind": KIND,
        "version": VERSION,
        "catalog_format": keys.unpack(catalog.entries[keys.CLUSTER])["format"],
        "cluster": catalog.cluster,
        "lineage": catalog.lineage,
        "life": catalog.life,
        "sequence": catalog.sequence,
    }
    for value in (header, *(_entry_line(*entry) for entry in sorted(catalog.entries.items()))):
        line = _line(value)
        digest.update(line.encode())
        yield line
    yield _line({"entries": len(catalog.entries), "sha256": digest.hexdigest()})


def _line(value: Mapping[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":")) + "\n"


def _entry_line(key: str, value: bytes) -> dict[str, Any]:
    """Values are JSON, for people too, where the same bytes come back from that."""
    try:
        told = keys.unpack(value)
        if keys.pack(told) == value:
            return {"key": key, "value": told}
    except (ValueError, RecursionError):
        pass
    return {"key": key, "base64": base64.b64encode(value).decode()}


def read_export(lines: Iterable[str]) -> Exported:
    """What a file has. Raises NotAnExport."""
    parsed = [(line, _parsed(number, line)) for number, line in enumerate(lines, 1)]
    if not parsed or parsed[0][1].get("kind") != KIND:
        raise NotAnExport("the file is no export of a catalog: give the one that 'dafka catalog export' made")
    header, end = parsed[0][1], parsed[-1][1]
    for name, known in (("version", VERSION), ("catalog_format", keys.FORMAT)):
        if not isinstance(header.get(name), int) or header[name] > known:
            raise NotAnExport(
                f"the file has {name} {header.get(name)}, and this program knows none above {known}: use the "
                "version that wrote it, or a newer one"
            )
    digest = hashlib.sha256("".join(line for line, _ in parsed[:-1]).encode()).hexdigest()
    if end.get("entries") != len(parsed) - 2 or end.get("sha256") != digest:
        raise NotAnExport("the file is cut off or was changed: take another backup")
    try:
        entries = dict(_entry(line) for _, line in parsed[1:-1])
        if len(entries) != len(parsed) - 2:
            raise ValueError("a key comes twice")
        found = Exported(
            str(header["cluster"]),
            str(header["lineage"]),
            str(header["life"]),
            int(header["sequence"]),
            entries,
        )
        _check(found)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        why = str(error) if type(error) is ValueError else repr(error)
        raise NotAnExport(f"the file cannot be read ({why}): take another backup") from None
    return found


def _check(found: Exported) -> None:
    """Whether a catalog could begin with it. Raises AttributeError, KeyError, TypeError, ValueError."""
    if found.sequence < 0 or keys.unpack(found.entries[keys.CLUSTER])["id"] != found.cluster:
        raise ValueError("the first line and the entries tell of different catalogs")
    for key, fault in sorted(unreadable(found.entries).items()):
        raise ValueError(f"the entry {key[:SHOWN_CHARACTERS]!r}: {fault}")
    imported_entries(found, older=False)


def _parsed(number: int, line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise NotAnExport(f"line {number} of the file is no JSON object: it is no export, or damaged")
    return value


def _entry(line: Mapping[str, Any]) -> tuple[str, bytes]:
    """Raises KeyError, TypeError, ValueError."""
    key = line["key"]
    value = base64.b64decode(line["base64"], validate=True) if "base64" in line else keys.pack(line["value"])
    if not isinstance(key, str) or not 0 < len(key.encode()) <= MAX_KEY_BYTES or len(value) > MAX_VALUE_BYTES:
        raise ValueError(f"an entry that no catalog takes: {str(key)[:64]!r}, {len(value)} bytes")
    return key, value


def imported_entries(catalog: Exported, *, older: bool) -> dict[str, bytes]:
    """What a catalog that is made from an export begins with, but whose it is (`/cluster`).

    `older`: it is to count even if stores remember more.
    """
    entries = {key: value for key, value in catalog.entries.items() if not key.startswith(NOT_TAKEN)}
    notes = [key for key in catalog.entries if key.startswith(IN_NO_CHAIN)]
    entries |= {keys.left_over_key(key.rpartition("/")[2]): keys.pack({}) for key in notes}
    before = catalog.entries.get(keys.LINEAGE)
    if before is not None:
        lineage = Lineage.unpack(before).child(catalog.sequence, settled=older)
        entries[keys.LINEAGE] = lineage.pack()
    for key, value in catalog.entries.items():
        if key.startswith(keys.LIVES):
            life = Life.unpack(value)
            entries[key] = life._replace(last=catalog.sequence if life.last is None else life.last).pack()
    entries[keys.LEADER_EPOCH] = keys.pack(highest_epoch(entries) + SPARE_EPOCHS)
    # Blocks were handed out since: leave room for a few.
    given = catalog.entries.get(keys.PRODUCER_IDS)
    floor = 0 if given is None else int(keys.unpack(given))
    entries[keys.PRODUCER_IDS] = keys.pack(floor + LOST_BLOCKS * BLOCK)
    return entries


def cluster_part(catalog: Exported) -> dict[str, bytes]:
    """What is written last: whose catalog it is."""
    return {keys.CLUSTER: catalog.entries[keys.CLUSTER]}


def summary(catalog: Exported) -> Sequence[str]:
    """For people."""
    topics = sum(key.startswith(keys.TOPICS) for key in catalog.entries)
    return (
        f"cluster {catalog.cluster}",
        f"{topics} topics, {len(catalog.entries)} entries",
        f"lineage {catalog.lineage or '(none)'}, sequence {catalog.sequence}",
    )
