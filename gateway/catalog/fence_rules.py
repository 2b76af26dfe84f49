"""Which compares a transaction must have, by the keys that it changes. Pure.

Rule: nothing is put or deleted that was not read before and is compared with it. Otherwise a gateway that
slept, and whose work another one has taken over meanwhile, writes over what that one has done: offsets that
were acknowledged are given twice, a log start goes back, a block of producer ids is taken by both.

`DEMANDS` has the compares that each kind of key demands, besides the gateway's own life, which
`gateway.catalog.fenced` adds to all of them. A key of an unknown kind is refused: who adds one decides here.

What belongs to a partition demands its record (`/partitions/`) and its topic's key. So whoever has read an
older record, or none, changes nothing, and nobody changes anything of a topic that was deleted; what is left
of that one belongs to its tombstone. (Where nobody knows the topic any more, the record and that there is no
tombstone say the same.) 0 is compared with what must not exist.

While the cluster has no name (`/cluster` is compared as absent) the catalog is being made: nobody leads
anything, and that one compare is enough.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Final

from gateway.catalog import keys
from gateway.catalog.interface import Compare, Entry


class Demand(Enum):
    """What must be compared to change a key."""

    KEY = "the key itself"
    PARTITION = "the partition that its name says"
    LOG = "the partition that its value says"
    KEY_AND_LOG = "the key itself, and the partition that its value says"


DEMANDS: Final[Mapping[str, Demand]] = {
    keys.CLUSTER: Demand.KEY,
    keys.STORES: Demand.KEY,
    keys.STORE_LIVES: Demand.KEY,
    keys.TOPICS: Demand.KEY,
    keys.TOMBSTONES: Demand.KEY,
    keys.REPLACING: Demand.KEY,
    keys.BROKER_CONFIGS: Demand.KEY,
    keys.PRODUCER_IDS: Demand.KEY,
    keys.LEADER_EPOCH: Demand.KEY,
    keys.LEFT_OVER: Demand.KEY,
    keys.LINEAGE: Demand.KEY,
    keys.LIVES: Demand.KEY,
    keys.LIVES_BEFORE: Demand.KEY,
    keys.ALIVE: Demand.KEY,
    keys.DRAINING: Demand.KEY,
    keys.LEAVING: Demand.KEY,
    keys.MISSED: Demand.KEY,
    keys.STANDBYS: Demand.KEY,
    keys.SLOTS: Demand.KEY,
    keys.GATEWAYS: Demand.KEY,
    keys.PREFERRED: Demand.KEY,
    keys.FEATURES: Demand.KEY,
    keys.REGISTERED: Demand.KEY,
    keys.ACLS: Demand.KEY,
    keys.QUOTAS: Demand.KEY,
    keys.SCRAM: Demand.KEY,
    keys.SCRAM_SECRET: Demand.KEY,
    keys.TOKENS: Demand.KEY,
    keys.NATIVE: Demand.KEY,
    keys.PARTITIONS: Demand.PARTITION,
    keys.SEGMENTS: Demand.PARTITION,
    keys.PRODUCERS: Demand.PARTITION,
    keys.CLOSING: Demand.LOG,
    keys.SEGMENT_TOMBSTONES: Demand.LOG,
    keys.COMPACTING: Demand.KEY_AND_LOG,
}
"""By what the key begins with."""

Read = Callable[[str], Entry | None]


class Unfenced(RuntimeError):
    """A transaction lacks a compare: a defect of who made it. Nothing was changed."""


def check_fenced(
    compares: Sequence[Compare], puts: Mapping[str, bytes], deletes: Iterable[str], read: Read
) -> None:
    """Refuse a transaction that lacks a compare; `read` gives the catalog's entries. Raises Unfenced."""
    transaction = _Compared(compares, read)
    if transaction.compared.get(keys.CLUSTER) == 0:
        return
    for key, value in puts.items():
        transaction.check(key, value)
    for key in deletes:
        transaction.check(key, None)


class _Compared:
    """What one transaction compares, and which partitions that covers."""

    def __init__(self, compares: Sequence[Compare], read: Read) -> None:
        self.compared: dict[str, int] = dict(compares)
        self._read = read
        self._topics: set[str] | None = None
        self._covered: set[str] = set()
        """Partitions, by how their keys go on after the prefix; and by the names of their logs."""

    def check(self, key: str, value: bytes | None) -> None:
        """`value` is None for a key that is deleted. Raises Unfenced."""
        kind = key[: key.find("/", 1) + 1] or key
        match DEMANDS.get(kind):
            case Demand.KEY:
                self._check_key(key)
            case Demand.PARTITION:
                topic_id, _, rest = key[len(kind) :].partition("/")
                self._check_partition(key, f"{topic_id}/{rest.partition('/')[0]}")
            case Demand.LOG:
                self._check_log(key, value)
            case Demand.KEY_AND_LOG:
                self._check_key(key)
                self._check_log(key, value)
            case None:
                raise Unfenced(f"nobody has said what a transaction that changes {key} must compare")

    def _check_key(self, key: str) -> None:
        if key not in self.compared:
            raise Unfenced(f"{key} is changed and not compared")

    def _check_log(self, key: str, value: bytes | None) -> None:
        if value is None and (entry := self._read(key)) is not None:
            value = entry.value
        log = "" if value is None else keys.noted_log(value)
        if log in self._covered:
            return
        if log:
            topic_id, index = keys.of_log(log)
            self._check_partition(key, keys.partition_key(topic_id, index).removeprefix(keys.PARTITIONS))
            self._covered.add(log)
        elif key not in self.compared and not self._compares_some_partition():
            # Older versions did not note whose it is; or nothing is there that could be deleted.
            raise Unfenced(f"{key} is changed, and neither it nor a partition is compared")

    def _check_partition(self, key: str, partition: str) -> None:
        """`partition` is how its key goes on after the prefix."""
        if partition in self._covered:
            return
        compared = self.compared
        topic_id = partition.partition("/")[0]
        tombstone = compared.get(keys.TOMBSTONES + topic_id)
        if not tombstone:
            record = compared.get(keys.PARTITIONS + partition)
            if record is None:
                raise Unfenced(f"{key} is changed, and its partition's record is not compared")
            if not self._compares_topic(topic_id) and tombstone is None:
                raise Unfenced(f"{key} is changed, and its topic's key is not compared")
        self._covered.add(partition)

    def _compares_topic(self, topic_id: str) -> bool:
        if self._topics is None:
            self._topics = set()
            for key, revision in self.compared.items():
                if key.startswith(keys.TOPICS):
                    entry = self._read(key)
                    # One that was deleted, or changed, says nothing: its compare will fail.
                    is_as_read = entry is not None and entry.mod_revision == revision
                    self._topics.add(keys.unpack(entry.value)["id"] if entry and is_as_read else "")
        return topic_id in self._topics or "" in self._topics

    def _compares_some_partition(self) -> bool:
        return any(key.startswith((keys.PARTITIONS, keys.TOMBSTONES)) for key in self.compared)
