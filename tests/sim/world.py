"""A writer's lives and one store in one thread, under a seeded scheduler that loses, doubles, delays and
reorders.

Time is a counter. The store's disk keeps what was fsynced; a crash may also keep a commit that was written
and not yet fsynced (as a page cache does when only the process dies), or not (as a power loss). A gateway
crash starts a new life: it seals the old segment, takes the end that the store reports, and opens the next
segment. A store that has never heard of a segment says so: that is right only if its opening was never
confirmed. Retention deletes the oldest segment now and then, whose CLOSE and OPEN may still be on their way.
A crowd of other producers may keep the store's queue longer than one commit, without end.

After every step the promises are checked against `History`: nothing acknowledged is lost or altered, what was
shown stays, the committed head never goes back, nothing is appended to a sealed segment, and what was deleted
stays deleted.
"""

import random
from collections.abc import Iterator
from typing import Any

from mesh.protocol.address_state import AddressState, Phase
from mesh.protocol.commit import Commit
from mesh.protocol.ingest import Ingest
from mesh.protocol.recovery import Seal
from mesh.protocol.writer import RECORD_OVERHEAD_BYTES, State, Writer
from wireproto.dafka import ids
from wireproto.dafka.additions import (
    STATUS_DONE,
    STATUS_NOT_HERE,
    STATUS_SEALED,
    AddressStatus,
    Announcement,
    Answer,
    CloseEntry,
    DeleteEntry,
    OpenEntry,
    Request,
    SealEntry,
)
from wireproto.dafka.messages import Ack, DirectRecord, Fetch, Head, Record
from wireproto.records.builder import build_batch
from wireproto.records.row import Row

STORE = "5" * 32
STEP_SECONDS = 0.01
MAX_WINDOW = 20
CROWD = "C" * 32
CROWD_RECORDS = 12
"""What waits at the store at least, while there is a crowd: a few commits of `CROWD_COMMIT_RECORDS`."""
CROWD_COMMIT_RECORDS = 4


class BrokenPromise(AssertionError):
    """The schedule found a defect."""


class SimulatedDisk:
    """What the store has fsynced, as its database would keep it."""

    def __init__(self, *, forgets_deletions: bool = False) -> None:
        self.forgets_deletions = forgets_deletions
        self.records: dict[tuple[str, int], bytes] = {}
        self.metas: dict[str, bytes] = {}
        self.listed: dict[tuple[str, int, str], Phase] = {}
        self.heads: dict[str, tuple[int, bytes, int, str]] = {}
        self.rows: dict[tuple[str, int], bytes] = {}
        self.epochs: dict[str, tuple[int, str]] = {}
        self.cluster_id = ""

    def apply(self, commit: Commit) -> None:
        for entry in commit.records:
            address = entry.state.address
            self.records[address, entry.sequence] = entry.content
            self.rows[address, entry.sequence] = entry.row
            self.heads[address] = entry.sequence, entry.row, entry.running_max, entry.state.subject
        for state, head, row, running_max in commit.truncations:
            self._drop(state.address, head + 1)
            self.heads[state.address] = head, row, running_max, state.subject
        self.metas.update(commit.metas)
        self.epochs.update(commit.epochs)
        self.listed.update(commit.announced)
        self.cluster_id = commit.cluster_id or self.cluster_id
        for state in commit.deletions:
            self._drop(state.address, 0)
            self.heads.pop(state.address, None)
            if self.forgets_deletions:
                self.metas.pop(state.address, None)

    def _drop(self, address: str, first: int) -> None:
        for kept in (self.records, self.rows):
            for key in [key for key in kept if key[0] == address and key[1] >= first]:
                del kept[key]

    def load(self, address: str) -> AddressState | None:
        if address not in self.metas and address not in self.heads:
            return None
        return AddressState.unpack(
            address, self.metas.get(address), self.heads.get(address, (-1, b"", -1, ""))
        )

    def row(self, address: str, sequence: int) -> tuple[bytes, int]:
        row = self.rows.get((address, sequence), b"")
        return row, Row.unpack(row).running_max_timestamp if row else -1

    def highest_epoch(self, log: str) -> tuple[int, str]:
        return self.epochs.get(log, (-1, ""))

    def highest_epoch_of_all(self) -> int:
        return max((epoch for epoch, _ in self.epochs.values()), default=-1)

    def unended(self, log: str) -> list[str]:
        return [key[2] for key, phase in self.listed.items() if key[0] == log and phase < Phase.CLOSED]


class Life:
    """One gateway life with one segment: its writer, and how far its opening or recovery got."""

    def __init__(self, number: int, start: int) -> None:
        self.number = number
        self.start = start
        self.writer = Writer(f"{number:016X}{1:016X}", "orders", [STORE], 1)
        self.announcement = Announcement(
            self.writer.address, "orders", "cluster", "log/0", number, start, (STORE,), 1, b""
        )
        self.repeat_at = 0.0
        self.announced = False
        """OPEN was confirmed, and the catalog knows that."""


class World:
    """The whole of it. `step` advances by one event; `settle` heals everything and reads all."""

    def __init__(self, seed: int, *, bugs: frozenset[str] = frozenset(), crowd: bool = False) -> None:
        self.random = random.Random(seed)
        self.crowd = crowd
        self.bugs = bugs
        self.now = 0.0
        self.disk = SimulatedDisk(forgets_deletions="forgotten deletions" in bugs)
        self.store: Ingest | None = Ingest(STORE, self.disk)
        self.commit: Commit | None = None
        self.network: list[tuple[float, str, Any]] = []
        self.lives: list[Life] = []
        self.chain: list[tuple[Life, int]] = []
        """(life, end) of closed segments."""
        self.closing: dict[str, int] = {}
        """address -> end of closed segments whose CLOSE the store has not confirmed."""
        self.deleting: set[str] = set()
        self.deleted: set[str] = set()
        """Addresses whose deletion is in the catalog; those that the store has confirmed."""
        self.log_start = 0
        self.tell_at = 0.0
        self.zombies: list[Life] = []
        """Lives that were taken for dead, and go on publishing and answering producers until they are fenced.
        """
        self.acknowledged: dict[int, bytes] = {}
        """offset -> content that a producer was told is durable."""
        self.seal: Seal | None = None
        self.faults = True
        self.counts = dict.fromkeys(
            ("acknowledged", "store crashes", "gateway crashes", "lost", "closed", "deleted"), 0
        )
        self._new_life(0)

    # the schedule -----------------------------------------------------------------------------------------

    def step(self) -> None:
        self.now += STEP_SECONDS
        chance = self.random.random()
        if self.faults and chance < 0.004:
            self._crash_store()
        elif self.faults and chance < 0.007:
            self._crash_gateway()
        elif self.faults and chance < 0.009:
            self._delete_oldest()
        elif chance < 0.35:
            self._append()
        self._deliver_due()
        self._tick_gateway()
        self._tell_members()
        if self.crowd:
            self._publish_crowd()
        self._tick_store()
        self._check()

    def settle(self) -> None:
        """No more faults: it must come to rest, with all that was acknowledged."""
        self.faults = False
        for _ in range(4000):
            self.step()
            resting = self.life.writer.state is State.OPEN and not len(self.life.writer)
            if self.seal is None and resting and not self.closing and not self.deleting:
                break
        else:
            raise BrokenPromise("it does not come to rest without faults")
        self._check()

    # gateway ----------------------------------------------------------------------------------------------

    @property
    def life(self) -> Life:
        return self.lives[-1]

    def _new_life(self, start: int) -> None:
        self.lives.append(Life(len(self.lives) + 1, start))

    def _append(self) -> None:
        writer = self.life.writer
        if self.seal is not None or writer.state is State.FENCED or len(writer) >= MAX_WINDOW:
            return
        offset = self.life.start + writer.next_sequence
        value = b"life %d record %d" % (self.life.number, offset)
        content = build_batch([(None, value, [], 0)], base_offset=offset)
        sequence = writer.append(content, self.now)
        if writer.state is State.OPEN:
            self._send("store", Record(writer.address, "orders", sequence, content))

    def _tick_gateway(self) -> None:
        life = self.life
        if self.seal is not None:
            if self.now >= life.repeat_at:
                life.repeat_at = self.now + 0.2
                wanted = SealEntry(self.seal.address, life.number + 1)
                self._ask(ids.SEAL, wanted.address, wanted.pack())
        elif life.writer.state is State.OPENING:
            if self.now >= life.repeat_at:
                life.repeat_at = self.now + 0.2
                self._ask(ids.OPEN, life.writer.address, OpenEntry(life.announcement).pack())
        elif life.writer.on_tick(self.now):
            self._send("store", Head(life.writer.address, "orders", life.writer.next_sequence - 1))
        for zombie in self.zombies:
            if zombie.writer.on_tick(self.now):
                self._send("store", Head(zombie.writer.address, "orders", zombie.writer.next_sequence - 1))

    def _tell_members(self) -> None:
        """CLOSE and DELETE, again and again until they are confirmed, whichever life it is."""
        if self.now < self.tell_at:
            return
        self.tell_at = self.now + 0.2
        for address, end in self.closing.items():
            self._ask(ids.CLOSE, address, CloseEntry(address, end).pack())
        for address in self.deleting:
            self._ask(ids.DELETE, address, DeleteEntry(address, "log/0").pack())

    def _ask(self, letter: bytes, address: str, entry: bytes) -> None:
        """A request about one address; repeated ones have the same requester, different ones another."""
        self._send("store", Request(letter, STORE, f"R{address}", (entry,)))

    def _delete_oldest(self) -> None:
        """Retention: the oldest closed segment leaves the chain."""
        if self.chain:
            life, end = self.chain.pop(0)
            self.log_start = life.start + end + 1
            self.closing.pop(life.writer.address, None)
            self.deleting.add(life.writer.address)

    def _crash_gateway(self) -> None:
        """All memory is gone, or a pause is taken for that: the next life seals the open segment."""
        self.counts["gateway crashes"] += 1
        if self.seal is None:
            if self.life.writer.state is State.OPEN and self.random.random() < 0.5:
                self.zombies.append(self.life)
            address = self.life.writer.address
            self.seal = Seal(address, [STORE], 1)
            if "no seal" in self.bugs:
                state = self.disk.load(address)
                self.seal.on_sealed(STORE, -1 if state is None else state.head, b"")
        self.life.repeat_at = 0.0

    def _publish_crowd(self) -> None:
        """Native records that are there as soon as others are taken, as of producers with full windows."""
        assert self.store is not None
        waiting = self.store.queued_bytes // RECORD_OVERHEAD_BYTES
        state = self.store.known(CROWD) or self.disk.load(CROWD)
        first = 0 if state is None else state.accepted + 1
        for sequence in range(first, first + CROWD_RECORDS - waiting):
            self.store.on_record(Record(CROWD, "noise", sequence, b""), self.now)

    def _on_gateway(self, message: Any) -> None:
        if isinstance(message, Answer):
            self._on_answer(message)
        elif (life := self._alive(message.address)) is None:
            return
        elif isinstance(message, Ack):
            before = life.writer.committed
            life.writer.on_ack(message.store, message.sequence, self.now)
            if life.writer.committed < before:
                raise BrokenPromise("the committed head went back")
            self._acknowledge(life, before, life.writer.committed)
        elif isinstance(message, Fetch):
            for sequence, content in life.writer.on_fetch(message.sequence, message.count):
                address = life.writer.address
                self._send("store", DirectRecord(STORE, "", address, "orders", sequence, bytes(content)))

    def _alive(self, address: str) -> Life | None:
        """The life whose writer this is and that would still act on a message."""
        lives = self.zombies if self.seal is not None else [*self.zombies, self.life]
        return next((life for life in lives if life.writer.address == address), None)

    def _acknowledge(self, life: Life, before: int, committed: int) -> None:
        for sequence in range(before + 1, committed + 1):
            offset = life.start + sequence
            value = b"life %d record %d" % (life.number, offset)
            self.acknowledged[offset] = build_batch([(None, value, [], 0)], base_offset=offset)
            self.counts["acknowledged"] += 1

    def _on_answer(self, answer: Answer) -> None:
        for status in answer.statuses:
            if answer.id == ids.SEALED and self.seal is not None and status.address == self.seal.address:
                if answer.requester != status.address and status.status in (STATUS_DONE, STATUS_NOT_HERE):
                    known = status.status == STATUS_DONE
                    self.seal.on_sealed(STORE, status.sequence, status.row, known=known)
            elif answer.id == ids.CLOSED and status.status == STATUS_DONE:
                self.counts["closed"] += self.closing.pop(status.address, None) is not None
            elif answer.id == ids.DELETED and status.status == STATUS_DONE:
                self.counts["deleted"] += status.address in self.deleting
                self.deleting.discard(status.address)
                self.deleted.add(status.address)
            elif answer.id == ids.SEALED and status.status == STATUS_SEALED:
                for zombie in [entry for entry in self.zombies if entry.writer.address == status.address]:
                    zombie.writer.fence()
                    self.zombies.remove(zombie)
            elif answer.id == ids.OPENED and status.address == self.life.writer.address and self.seal is None:
                self._opened(status)
        if self.seal is not None and self.seal.decidable:
            self._recovered()

    def _opened(self, status: AddressStatus) -> None:
        writer = self.life.writer
        if status.status != STATUS_DONE:
            raise BrokenPromise(f"a fresh segment was refused with status {status.status}")
        self.life.announced = True
        if writer.state is State.OPENING:
            for sequence, content in writer.opened(self.now):
                self._send("store", Record(writer.address, "orders", sequence, bytes(content)))

    def _recovered(self) -> None:
        assert self.seal is not None
        end, row = self.seal.end()
        if self.life.announced and not self.seal.known and "no seal" not in self.bugs:
            raise BrokenPromise(f"life {self.life.number} was announced, and the store has never heard of it")
        if end >= 0 and row and Row.unpack(row).last_offset != self.life.start + end:
            raise BrokenPromise(f"life {self.life.number} ends at {end} with another record's row")
        self.seal = None
        if end >= 0:
            self.chain.append((self.life, end))
            self.closing[self.life.writer.address] = end
        else:
            self.deleting.add(self.life.writer.address)
        self._new_life(self.life.start + end + 1)

    # store ------------------------------------------------------------------------------------------------

    def _crash_store(self) -> None:
        self.counts["store crashes"] += 1
        if self.commit is not None and self.random.random() < 0.5:
            self.disk.apply(self.commit)
        self.commit = None
        self.store = Ingest(STORE, self.disk, self.disk.cluster_id)

    def _tick_store(self) -> None:
        assert self.store is not None
        if self.commit is not None and self.random.random() < 0.3:
            commit, self.commit = self.commit, None
            self.disk.apply(commit)
            for effect in self.store.committed(commit):
                self._send("gateway", effect)
        if self.commit is None:
            self.commit = self.store.take_commit()
            if self.commit is not None and "ack before fsync" in self.bugs:
                self._acknowledge_early(self.commit)
        for again in self.store.take_effects(self.now):
            self._send("gateway", again)

    def _acknowledge_early(self, commit: Commit) -> None:
        for entry in commit.records:
            self._send("gateway", Ack(entry.state.address, STORE, "orders", entry.sequence))

    def _on_store(self, message: Any) -> None:
        assert self.store is not None
        if isinstance(message, Record):
            self.store.on_record(message, self.now)
        elif isinstance(message, DirectRecord):
            again = Record(message.address, message.subject, message.sequence, bytes(message.content))
            self.store.on_record(again, self.now)
        elif isinstance(message, Head):
            self.store.on_head(message, self.now)
        else:
            self.store.on_request(message)

    # network ----------------------------------------------------------------------------------------------

    def _send(self, to: str, message: Any) -> None:
        if self.faults:
            if self.random.random() < 0.08:
                self.counts["lost"] += 1
                return
            if self.random.random() < 0.05:
                self.network.append((self.now + self.random.uniform(0, 3), to, message))
        late = self.random.random() < 0.15 and self.faults
        self.network.append((self.now + (self.random.uniform(0, 1) if late else STEP_SECONDS), to, message))

    def _deliver_due(self) -> None:
        due = sorted((entry for entry in self.network if entry[0] <= self.now), key=lambda entry: entry[0])
        self.network = [entry for entry in self.network if entry[0] > self.now]
        for _, to, message in due:
            (self._on_store if to == "store" else self._on_gateway)(message)

    # promises ---------------------------------------------------------------------------------------------

    def durable_log(self) -> Iterator[tuple[int, bytes]]:
        """(offset, content) of what the chain and the disk say is there."""
        for life, end in self.chain:
            for sequence in range(end + 1):
                content = self.disk.records.get((life.writer.address, sequence))
                if content is None:
                    raise BrokenPromise(f"life {life.number}: sequence {sequence} is not on the disk")
                yield life.start + sequence, content
        for sequence in range(self.life.writer.committed + 1):
            content = self.disk.records.get((self.life.writer.address, sequence))
            if content is None:
                raise BrokenPromise(
                    f"life {self.life.number}: sequence {sequence} was acknowledged and is gone"
                )
            yield self.life.start + sequence, content

    def _check(self) -> None:
        if self.random.random() < 0.02 or not self.faults:
            self.check_all()

    def check_all(self) -> None:
        log = dict(self.durable_log())
        for address in self.deleted:
            state = self.disk.load(address)
            if state is not None and (state.phase is not Phase.DELETED or state.head >= 0):
                raise BrokenPromise(f"address {address} was deleted and came back")
        for offset, content in self.acknowledged.items():
            if offset >= self.log_start and log.get(offset) != content:
                raise BrokenPromise(f"offset {offset} was acknowledged and is {log.get(offset)!r}")
