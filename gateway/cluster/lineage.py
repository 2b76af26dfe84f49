"""A catalog's history has a name, and what stores remember of it is judged by that. Pure.

History is (lineage, life, sequence). The **lineage** is a name that a catalog gets when it is made, or made
anew (rebuilt, imported): then it names its parent. The **life** is one run of a gateway. The **sequence** is
the catalog's (`Catalog.sequence`), which every transaction raises and which is told only when it is durable.
The catalog notes where each life began and, as the first thing that the next gateway does, where it ended.

Rule: what a store remembers must lie on the catalog's own history. Another lineage, a life that the catalog
does not know, or a sequence above the last of that life: then this catalog is older than it was, or another
one went on from the same beginning (a fork), however high its sequence is by now.

Old lives are forgotten, `MAX_LIVES` are kept. A store that remembers a life from before those has been away
for so long that nothing can be told from it: it neither refutes a catalog nor vouches for it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol
from uuid import uuid4

from gateway.catalog import keys
from gateway.catalog.interface import unchanged
from gateway.leadership.records import BadRecord, unpack_alive

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.catalog.interface import Compare, Entry
    from wireproto.dafka.additions import Remembered

MAX_LIVES: Final = 1000
"""Lives that a catalog knows. Each is a start of a gateway: years, for one that is restarted every week."""

LIVES_FOLDED_AT_ONCE: Final = 100
"""Lives that are forgotten together."""

MAX_ANCESTORS: Final = 100
"""Lineages before this one's parent that a catalog knows, for stores that were away meanwhile."""


@dataclass(frozen=True)
class Lineage:
    """The name of a history, and where it comes from.

    parent: the lineage that it goes on from, "" for none; parent_sequence: from where.
    settled: it was decided that it does, so that what single stores remember of the parent beyond that place
    was never acknowledged to anybody, or given up.
    ancestors: the parent's own, the nearest first.
    """

    name: str
    parent: str = ""
    parent_sequence: int = 0
    settled: bool = False
    ancestors: tuple[str, ...] = ()

    @classmethod
    def begun(cls) -> Lineage:
        """The lineage of a catalog that comes from no other."""
        return cls(_new_name())

    def child(self, sequence: int, *, settled: bool) -> Lineage:
        """A new lineage that goes on from this one, from a sequence on."""
        before = (self.parent, *self.ancestors) if self.parent else ()
        return Lineage(_new_name(), self.name, sequence, settled, before[:MAX_ANCESTORS])

    @classmethod
    def unpack(cls, value: bytes) -> Lineage:
        """From the catalog's value."""
        told = keys.unpack(value)
        return cls(
            told["lineage"],
            told["parent"] or "",
            told["parent_sequence"],
            told.get("settled", False),
            tuple(told.get("ancestors", ())),
        )

    def pack(self) -> bytes:
        """As the catalog's value."""
        return keys.pack(
            {
                "lineage": self.name,
                "parent": self.parent or None,
                "parent_sequence": self.parent_sequence,
                "settled": self.settled,
                "ancestors": self.ancestors,
            }
        )


class Life(NamedTuple):
    """Where a gateway's life lies in a lineage: after sequence `first`, up to `last` (None: it goes on)."""

    lineage: str
    first: int
    last: int | None = None

    @classmethod
    def unpack(cls, value: bytes) -> Life:
        """From the catalog's value."""
        told = keys.unpack(value)
        return cls(told["lineage"], told["first"], told.get("last"))

    def pack(self) -> bytes:
        """As the catalog's value."""
        last = {} if self.last is None else {"last": self.last}
        return keys.pack({"lineage": self.lineage, "first": self.first} | last)


class Verdict(Enum):
    """What a store's memory says of a catalog."""

    VOUCHES = "vouches"
    CANNOT_TELL = "cannot tell"
    REFUTES = "refutes"


class Judgement(NamedTuple):
    """`reason` goes on from "store 7": what it remembers, and what the catalog has."""

    verdict: Verdict
    reason: str = ""


class NewLife(NamedTuple):
    """The transaction that begins a life."""

    compares: list[Compare]
    puts: dict[str, bytes]
    deletes: list[str]


class Readable(Protocol):
    """What is read of a catalog, or of a copy of one."""

    @property
    def sequence(self) -> int:
        """Of its last transaction."""

    def get(self, key: str) -> Entry | None:
        """The entry of a key."""

    def range(self, prefix: str, /) -> list[Entry]:
        """The entries whose keys begin so, in the order of keys."""


class CatalogHistory:
    """The history of one catalog, as it says itself."""

    def __init__(self, catalog: Readable) -> None:
        self._catalog = catalog
        entry = catalog.get(keys.LINEAGE)
        self._entry = entry
        self.lineage = None if entry is None else Lineage.unpack(entry.value)
        """None: nobody has given it a name yet."""
        self._lives = {
            one.key.removeprefix(keys.LIVES): Life.unpack(one.value) for one in catalog.range(keys.LIVES)
        }
        folded = catalog.get(keys.LIVES_BEFORE)
        self._folded: Mapping[str, int] = {} if folded is None else keys.unpack(folded.value)
        """lineage -> the highest sequence of the lives that were forgotten."""

    def judge(self, memory: Remembered) -> Judgement:
        """What a store says by what it remembers."""
        if not memory.lineage:
            return Judgement(Verdict.VOUCHES)
        lineage = self.lineage
        where = (
            f"remembers sequence {memory.sequence} of lineage {memory.lineage} (gateway life {memory.life})"
        )
        if lineage is None:
            return Judgement(Verdict.REFUTES, f"{where}, and the catalog is from before it had a lineage")
        if memory.lineage == lineage.name:
            return self._judge_own(memory, where)
        if memory.lineage == lineage.parent:
            return self._judge_parents(lineage, memory, where)
        if memory.lineage in lineage.ancestors:
            return Judgement(Verdict.VOUCHES)
        return Judgement(
            Verdict.REFUTES,
            f"{where}, and the catalog is of lineage {lineage.name}, which does not come from it",
        )

    def _judge_own(self, memory: Remembered, where: str) -> Judgement:
        life = self._lives.get(memory.life)
        if life is None or life.lineage != memory.lineage:
            return self._judge_unknown(memory, where)
        last = self._catalog.sequence if life.last is None else life.last
        if memory.sequence > last:
            return Judgement(Verdict.REFUTES, f"{where}, and in the catalog that life ends with {last}")
        return Judgement(Verdict.VOUCHES)

    def _judge_unknown(self, memory: Remembered, where: str) -> Judgement:
        if memory.sequence <= self._folded.get(memory.lineage, -1):
            return Judgement(
                Verdict.CANNOT_TELL, f"{where}, which is longer ago than the catalog remembers its lives"
            )
        return Judgement(Verdict.REFUTES, f"{where}, and the catalog knows no such life")

    def _judge_parents(self, lineage: Lineage, memory: Remembered, where: str) -> Judgement:
        if lineage.settled:
            return Judgement(Verdict.VOUCHES)
        if memory.sequence > lineage.parent_sequence:
            made = (
                f"{where}, and the catalog was imported from sequence {lineage.parent_sequence} of it,"
                " without --older"
            )
            return Judgement(Verdict.REFUTES, made)
        if any(life.lineage == memory.lineage for life in self._lives.values()):
            return self._judge_own(memory, where)
        return Judgement(Verdict.VOUCHES)

    def ends(self) -> tuple[list[Compare], dict[str, bytes]]:
        """The transaction that ends the lives that should go on and do not, where the catalog is now; empty
        if there are none. Where several gateways share the catalog it says of each whether it is alive; while
        that cannot be read of one (it is of a later release) nobody's life is ended.
        """
        now = self._catalog.sequence
        try:
            alive = lives_that_go_on(self._catalog)
        except BadRecord:
            return [], {}
        puts = {
            keys.LIVES + name: life._replace(last=now).pack()
            for name, life in self._lives.items()
            if life.last is None and name not in alive
        }
        return unchanged(self._catalog, puts), puts

    def begin(self, life: str) -> NewLife:
        """The transaction by which a gateway's life begins: the one before has its end, and a catalog without
        a name gets one.
        """
        lineage = replace(self.lineage, settled=True) if self.lineage is not None else Lineage.begun()
        now = self._catalog.sequence
        puts = {keys.LIVES + life: Life(lineage.name, now).pack()}
        if lineage != self.lineage:
            puts[keys.LINEAGE] = lineage.pack()
        puts |= self.ends()[1]
        deletes = self._fold(puts)
        changed = dict.fromkeys((keys.LINEAGE, *puts, *deletes))
        return NewLife(unchanged(self._catalog, changed), puts, deletes)

    def _fold(self, puts: dict[str, bytes]) -> list[str]:
        """Forget the oldest lives that are over, if there are too many: the keys to delete."""
        if len(self._lives) < MAX_LIVES:
            return []
        assert self.lineage is not None
        own = self.lineage.name
        # Those of other lineages are the older ones, whatever their numbers are.
        over = [one for one in self._lives.items() if one[1].last is not None]
        oldest = sorted(over, key=lambda one: (one[1].lineage == own, one[1].first))
        folded = dict(self._folded)
        gone = [name for name, life in oldest[:LIVES_FOLDED_AT_ONCE] if keys.LIVES + name not in puts]
        for name in gone:
            life = self._lives[name]
            folded[life.lineage] = max(folded.get(life.lineage, -1), life.last or 0)
        known = {own, self.lineage.parent, *self.lineage.ancestors}
        puts[keys.LIVES_BEFORE] = keys.pack({name: last for name, last in folded.items() if name in known})
        return [keys.LIVES + name for name in gone]


def lives_that_go_on(catalog: Readable) -> set[str]:
    """The lives of gateways that are alive, where they share their catalog. Raises BadRecord."""
    return {unpack_alive(entry.value).life for entry in catalog.range(keys.ALIVE)}


def _new_name() -> str:
    return uuid4().hex[:16]
