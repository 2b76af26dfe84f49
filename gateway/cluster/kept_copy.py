"""What stores keep of a lost catalog (`gateway.cluster.remembering`), for the one that is made anew.

The copy with the highest sequence counts, of all stores that are here; what it says is completed by what the
stores say of their segments (`gateway.cluster.rebuild`). Rules, key by key:

* Topics, their configs and replication factors, broker configs, users, ACLs, stores, tombstones: the copy's.
  An administrator was answered when a majority of the stores had it. A topic may have more partitions than
  the copy knows, and there may be a topic that it does not know: announcements tell of those.
* Of a partition the higher log start, the higher next epoch, and the epochs of whoever knows the newer one.
* Producers, and so the end, of a log without segments: the copy's; where there are segments these tell.
* Producer ids go on far above the copy's and all that were announced: blocks cost nothing.

Copies of different lineages are believed only if one lineage comes from all the others. A copy with an entry
that cannot be read is passed over for another store's of the same sequence; if there is none nothing is
rebuilt, unless the operator accepts that what the entry said is lost.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.catalog import keys
from gateway.catalog.interface import Entry
from gateway.cluster.entry_check import unreadable
from gateway.cluster.found_segments import CannotRebuild
from gateway.cluster.lineage import CatalogHistory, Lineage, Verdict
from gateway.cluster.stores import REMOVED
from mesh.protocol.catalog_memory import MAX_CHANGED_BYTES, MAX_COPY_BYTES
from wireproto.dafka.additions import KEPT_DONE, NOTHING_REMEMBERED, Recalled, Remembered

if TYPE_CHECKING:
    from mesh.reader import Reader

BEFORE_LINEAGE = keys.LINEAGE[:-1]
"""The first entry after this key is the lineage."""

ONLY_KEPT = (
    keys.BROKER_CONFIGS,
    keys.STORES,
    keys.TOMBSTONES,
    keys.FEATURES,
    *keys.OF_SECURITY,
    keys.TOKENS,
    keys.NATIVE,
)
"""What the keys begin with of entries that a copy alone has, besides those of logs."""

NAMED_TOPICS = 5
"""Topics that a refusal names."""

NAMED_ENTRIES = 5
"""Entries that cannot be read, as a message names them."""

MAX_READ_BYTES = MAX_COPY_BYTES + MAX_CHANGED_BYTES
"""Bytes of entries that are taken from one store: no store keeps more."""

MAX_TRIES = 20
"""How often a copy is read anew that has changed meanwhile. Nobody should write one: its catalog is lost."""

logger = logging.getLogger(__name__)


class KeptCopy(NamedTuple):
    """The newest copy, and whose it is; without one there is nothing in it."""

    memory: Remembered = NOTHING_REMEMBERED
    entries: Mapping[str, bytes] = {}

    @property
    def lineage(self) -> Lineage | None:
        """The lineage that the lost catalog had."""
        value = self.entries.get(keys.LINEAGE)
        return None if value is None else Lineage.unpack(value)

    @property
    def topics(self) -> dict[str, Any]:
        """The records of the topics, by name."""
        return self.under(keys.TOPICS)

    @property
    def buried(self) -> set[str]:
        """The ids of topics that were deleted, and that some store may have yet."""
        return set(self.under(keys.TOMBSTONES))

    def partition(self, topic_id: str, index: int) -> dict[str, Any] | None:
        """The record of a partition, if it was ever written to."""
        value = self.entries.get(keys.partition_key(bytes.fromhex(topic_id), index))
        return None if value is None else dict(keys.unpack(value))

    def under(self, prefix: str) -> dict[str, Any]:
        """The values with this prefix, by the rest of their keys."""
        return {
            key.removeprefix(prefix): keys.unpack(value)
            for key, value in self.entries.items()
            if key.startswith(prefix)
        }

    def missing(self, here: Iterable[str]) -> dict[str, str]:
        """The stores that counted and are not here: incarnation -> name."""
        stores = self.under(keys.STORES).values()
        away = {one["incarnation"]: one["name"] for one in stores if one.get("state") != REMOVED}
        return {incarnation: name for incarnation, name in away.items() if incarnation not in set(here)}


async def recall(reader: Reader, incarnations: Sequence[str], *, accept_loss: bool) -> KeptCopy:
    """The newest copy that these stores keep. Raises CannotRebuild."""
    memories: dict[str, Remembered] = {}
    lineages: dict[str, Lineage] = {}
    for store in incarnations:
        first = await reader.recall(store, BEFORE_LINEAGE)
        if first.status != KEPT_DONE:
            if not accept_loss:
                raise CannotRebuild(
                    f"store {store} cannot read what it remembers of the lost catalog: its own log says why. "
                    "Put back its data, or go on without it by --accept-loss"
                )
        elif first.memory.lineage:
            memories[store] = first.memory
            lineages[first.memory.lineage] = _lineage(store, first)
    if not memories:
        return KeptCopy()
    newest = _newest(lineages, memories)
    sequence = max(memory.sequence for memory in memories.values() if memory.lineage == newest)
    holders = [
        one for one, memory in memories.items() if (memory.lineage, memory.sequence) == (newest, sequence)
    ]
    store, copy = await _read_one(reader, holders, accept_loss=accept_loss)
    _check_forks(copy, store, memories, accept_loss=accept_loss)
    logger.info(
        "what only the lost catalog knew is read from store %s: sequence %d of lineage %s",
        store, copy.memory.sequence, newest,
    )  # fmt: skip
    return copy


def _lineage(store: str, told: Recalled) -> Lineage:
    """The lineage that a store's copy is of. Raises CannotRebuild."""
    value = told.entries.get(keys.LINEAGE)
    try:
        return Lineage(told.memory.lineage) if value is None else Lineage.unpack(value)
    except (KeyError, TypeError, ValueError) as error:
        raise CannotRebuild(
            f"store {store} keeps a lineage of the lost catalog that cannot be read ({error!r}): start "
            "without it"
        ) from None


def _newest(lineages: Mapping[str, Lineage], memories: Mapping[str, Remembered]) -> str:
    """The lineage that comes from all the others. Raises CannotRebuild."""
    for name, lineage in lineages.items():
        if lineages.keys() <= {name, lineage.parent, *lineage.ancestors}:
            return name
    said = ", ".join(f"store {store} of {memory.lineage}" for store, memory in sorted(memories.items()))
    raise CannotRebuild(
        f"the stores remember catalogs that do not come from each other ({said}): stop those whose catalog "
        "is not to count, and give --stores the number of the others"
    )


def _check_forks(copy: KeptCopy, of: str, memories: Mapping[str, Remembered], *, accept_loss: bool) -> None:
    """Whether what the other stores remember lies on the history of the newest copy. Raises CannotRebuild."""
    history = CatalogHistory(_CopyAsCatalog(copy))
    for store, memory in sorted(memories.items()):
        if memory.lineage == copy.memory.lineage:
            verdict, reason = history.judge(memory)
            if verdict is Verdict.REFUTES:
                said = (
                    f"two catalogs went on from the same one: store {store} {reason}, and store {of} has "
                    "more of the other"
                )
                if not accept_loss:
                    raise CannotRebuild(
                        f"{said}. Stop the stores whose catalog is not to count, and give --stores the "
                        "number of the others; or go on with the one that has more, by --accept-loss"
                    )
                logger.warning("--accept-loss is set: %s", said)


class _CopyAsCatalog:
    """A copy, as it is read of a catalog."""

    def __init__(self, copy: KeptCopy) -> None:
        self.sequence = copy.memory.sequence
        self._entries = {key: Entry(key, value, 1, 1) for key, value in copy.entries.items()}

    def get(self, key: str) -> Entry | None:
        return self._entries.get(key)

    def range(self, prefix: str, /) -> list[Entry]:
        return [self._entries[key] for key in sorted(self._entries) if key.startswith(prefix)]


async def _read_one(reader: Reader, stores: Sequence[str], *, accept_loss: bool) -> tuple[str, KeptCopy]:
    """The copy of one of these stores, which keep the same: the first of which every entry can be read; and
    whose it is. Raises CannotRebuild.
    """
    damaged: list[tuple[str, KeptCopy, dict[str, str]]] = []
    for store in stores:
        copy = await _read(reader, store)
        faults = unreadable(copy.entries)
        if not faults:
            return store, copy
        logger.error("store %s keeps of the lost catalog what cannot be read: %s", store, _named(faults))
        damaged.append((store, copy, faults))
    store, copy, faults = min(damaged, key=lambda one: len(one[2]))
    if not accept_loss:
        raise CannotRebuild(
            f"store {store} keeps entries of the lost catalog that cannot be read, {_named(faults)}: start "
            "without it, make the catalog from an export ('dafka catalog import'), or leave these entries "
            "out by --accept-loss: what only they say is lost then"
        )
    logger.warning("--accept-loss is set: the entries that store %s cannot tell are left out", store)
    left = {key: value for key, value in copy.entries.items() if key not in faults}
    return store, copy._replace(entries=left)


def _named(faults: Mapping[str, str]) -> str:
    """For a message: "/topics/orders (its id is missing or wrong) and 7 others"."""
    shown = ", ".join(f"{key} ({why})" for key, why in sorted(faults.items())[:NAMED_ENTRIES])
    others = len(faults) - NAMED_ENTRIES
    return shown if others <= 0 else f"{shown} and {others} others"


async def _read(reader: Reader, store: str) -> KeptCopy:
    """All that one store keeps, of one moment. Raises CannotRebuild."""
    for _ in range(MAX_TRIES):
        copy = await _read_once(reader, store)
        if copy is not None:
            return copy
    raise CannotRebuild(
        f"what store {store} keeps of the lost catalog changes while it is read: stop the gateway that "
        "writes it"
    )


async def _read_once(reader: Reader, store: str) -> KeptCopy | None:
    """None if it has changed meanwhile. Raises CannotRebuild."""
    entries: dict[str, bytes] = {}
    after, size = "", 0
    first: Recalled | None = None
    while True:
        page = await reader.recall(store, after)
        if page.status != KEPT_DONE:
            raise CannotRebuild(
                f"store {store} cannot read what it keeps of the lost catalog: its own log says why. Put "
                "back its data, or start without it"
            )
        first = first or page
        if page.memory != first.memory:
            return None
        entries |= page.entries
        if not page.more:
            return KeptCopy(page.memory, entries)
        before, after = after, max(page.entries, default="", key=str.encode)
        size += sum(len(key) + len(value) for key, value in page.entries.items())
        if after.encode() <= before.encode() or size > MAX_READ_BYTES:
            raise CannotRebuild(
                f"store {store} answers without end what it keeps of the lost catalog: start without it"
            )


def check_missing(copy: KeptCopy, here: Sequence[str]) -> None:
    """Whether stores that are not here could have what the newest copy does not know, or a log that nobody
    here tells of. Raises CannotRebuild.
    """
    missing = copy.missing(here)
    if not missing:
        return
    away = ", ".join(sorted(missing.values()))
    counted = len([one for one in copy.under(keys.STORES).values() if one.get("state") != REMOVED])
    if len(missing) >= counted // 2 + 1:
        raise CannotRebuild(
            f"{len(missing)} of {counted} stores are missing ({away}), and they may remember more of "
            f"the lost catalog than those that are here: {START_THEM}"
        )
    written = {key.partition("/")[0] for key in copy.under(keys.PARTITIONS)}
    at_risk = sorted(
        name
        for name, topic in copy.topics.items()
        if topic["id"] in written and _acknowledging(topic, counted) <= len(missing)
    )
    if at_risk:
        named = ", ".join(at_risk[:NAMED_TOPICS])
        if len(at_risk) > NAMED_TOPICS:
            named += f" and {len(at_risk) - NAMED_TOPICS} others"
        raise CannotRebuild(
            f"{away} may have the newest records, or all, of topics with few copies ({named}): {START_THEM}"
        )


START_THEM = (
    "start them too and give --stores their number, or go on without them by --accept-loss: a log of which"
    " only they have a part then begins after that, and what is left before it is deleted"
)


def _acknowledging(topic: Mapping[str, Any], stores: int) -> int:
    """How many stores have what was acknowledged, at least."""
    members = min(int(topic["replication_factor"]), stores)
    wanted = max(int(topic["configs"].get("min.insync.replicas", 1)), members // 2 + 1)
    return min(wanted, members)


def kept_partition(record: Mapping[str, Any], kept: Mapping[str, Any] | None) -> dict[str, Any]:
    """A partition's record, with what the copy knows more of it."""
    if kept is None:
        return dict(record)
    log_start = max(record["log_start"], kept["log_start"])
    newer = _last_epoch(kept["epochs"]) >= _last_epoch(record["epochs"])
    return {
        "next_epoch": max(record["next_epoch"], kept["next_epoch"]),
        "epochs": list(kept["epochs"] if newer else record["epochs"]),
        "log_start": log_start,
    }


def _last_epoch(epochs: Sequence[Sequence[int]]) -> int:
    return epochs[-1][0] if epochs else -1


def ended_by(kept: Mapping[str, Any] | None, epoch: int) -> int | None:
    """Where a log had begun another epoch after this one: an older segment ends there, or before."""
    if kept is None:
        return None
    return next((start for later, start in kept["epochs"] if later > epoch), None)


def add_kept(entries: dict[str, bytes], copy: KeptCopy) -> None:
    """Add what nobody but the copy knows, also of logs that are empty and of topics that were never written
    to, to the entries of a catalog that has its topics; and the lineage that goes on from the copy's.
    """
    living = {keys.unpack(value)["id"] for key, value in entries.items() if key.startswith(keys.TOPICS)}
    for key, value in copy.entries.items():
        of_topic = key.startswith((keys.PARTITIONS, keys.PRODUCERS)) and key.split("/")[2] in living
        if of_topic or key.startswith(ONLY_KEPT):
            entries.setdefault(key, value)
    if copy.memory.lineage:
        parent = copy.lineage or Lineage(copy.memory.lineage)
        entries[keys.LINEAGE] = parent.child(copy.memory.sequence, settled=True).pack()
