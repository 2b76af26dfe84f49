"""What a store makes durable at once: records with their rows, and what requests changed."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from mesh.protocol.address_state import AddressState, Phase
from mesh.protocol.catalog_memory import Keeping
from wireproto.dafka.additions import AddressStatus


class Accepted(NamedTuple):
    """A record on its way to the disk. `row` is empty for native addresses."""

    state: AddressState
    sequence: int
    content: bytes
    row: bytes
    running_max: int


STATE_OF: Final = attrgetter("state")
"""Of what was accepted: records of one address that come one behind the other are handled together."""


class Truncation(NamedTuple):
    """Everything of an address beyond `head` goes; `row` and `running_max` are those at `head`."""

    state: AddressState
    head: int
    row: bytes
    running_max: int


class Copying(NamedTuple):
    """What COPY is answered of one address: whether it has everything up to `end`."""

    state: AddressState
    end: int


class Opened(NamedTuple):
    """What OPEN is answered of one address: those of other lives that are sealed because of it, besides."""

    state: AddressState
    sealed: Sequence[AddressState]


class Repair(NamedTuple):
    """Records of a closed address, from `first` on, that are written once more as they were: the disk has
    lost them. `running_max` is that of the last row.
    """

    state: AddressState
    first: int
    contents: Sequence[bytes]
    rows: Sequence[bytes]
    running_max: int

    @property
    def last(self) -> int:
        return self.first + len(self.contents) - 1


Answered = AddressState | AddressStatus | Copying | Opened
"""What an answer says of one address: how its state is when the commit is durable, or a status."""


class Commit:
    """One atomic write: records with rows, and what changed: metas, epochs, repairs, truncations, deletions.

    What requests change is written after the commit's records. That is right: a commit holds no record of an
    address from after the request that sealed, closed or deleted it, because none was accepted, nor one from
    after a `barrier`.
    """

    def __init__(self, behind: int = 0) -> None:
        self.behind = behind
        """How many records were accepted before the requests: so many must be in commits up to this one."""
        self.barrier = False
        """No record that was accepted after the requests may be in this commit."""
        self.records: list[Accepted] = []
        self.metas: dict[str, bytes] = {}
        """address -> meta, packed as it was when it changed: later changes belong to a later commit."""
        self.unfinished: dict[str, bool] = {}
        """address -> whether a start must look whether it lacks records."""
        self.epochs: dict[str, tuple[int, str]] = {}
        """log -> (highest epoch, the life that announced it)."""
        self.announced: dict[tuple[str, int, str], Phase] = {}
        """(log, start offset, address) of a segment -> its phase from now on."""
        self.cluster_id: str | None = None
        self.repairs: list[Repair] = []
        self.truncations: list[Truncation] = []
        self.closed: list[AddressState] = []
        self.deletions: list[AddressState] = []
        """Everything of these but their metas goes."""
        self.answers: list[tuple[bytes, str, list[Answered]]] = []
        """(id of the answer, requester, of what)."""
        self.keepings: list[Keeping] = []
        """What is to be remembered of the catalog, with the answers."""
        self.bytes = 0
        """Content of the records."""
        self.sealing = False

    def take_over(self, later: "Commit") -> None:
        """Take what `later` changes (it has no records yet) into this commit too."""
        self.metas.update(later.metas)
        self.unfinished.update(later.unfinished)
        self.epochs.update(later.epochs)
        self.announced.update(later.announced)
        self.cluster_id = self.cluster_id or later.cluster_id
        self.repairs += later.repairs
        self.truncations += later.truncations
        self.closed += later.closed
        self.deletions += later.deletions
        self.answers += later.answers
        self.keepings += later.keepings
        self.sealing = self.sealing or later.sealing

    def __bool__(self) -> bool:
        return bool(
            self.records
            or self.metas
            or self.answers
            or self.keepings
            or self.repairs
            or self.truncations
            or self.deletions
            or self.unfinished
            or self.closed
        )
