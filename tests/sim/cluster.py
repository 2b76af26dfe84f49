"""A whole simulated cluster, and one schedule of it: work and faults for some seconds, then all heals, and
everything must serve again with all that was promised.
"""

from __future__ import annotations

import contextlib
import logging
import math
import random
from collections import Counter
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import patch

import trio

from gateway.api import fetch as fetch_api
from gateway.catalog import keys
from gateway.catalog.interface import CatalogFailed, CompareFailed, Entry
from gateway.cluster.feature_levels import METADATA, TRANSACTION_VERSION
from gateway.cluster.scram_users import SECRET_BYTES
from gateway.cluster.stores import StoreRefused
from gateway.groups import coordinator
from gateway.groups.internal_topic import OFFSETS_TOPIC
from gateway.leadership.records import FinalizedFeatures, pack_features
from gateway.log.compaction import compactor as compaction
from gateway.log.compaction import run as compaction_run
from gateway.log.compaction.rules import KEY_BYTES
from gateway.log.idempotence.state import ProducerState
from gateway.log.recovery import producers_at_end
from gateway.transactions.internal_topic import TRANSACTION_TOPIC
from mesh import reader
from mesh.protocol.address_state import AddressState, Phase
from mesh.protocol.starts import last_commit_of, unpack_starts
from mesh.store import keys as store_keys
from mesh.store import rocksdb, server
from mesh.store import store as store_module
from mesh.store.identity import learn
from mesh.store.values import unpack_number
from tests.sim import invariants
from tests.sim.application import start_programs
from tests.sim.applications import COORDINATOR_PARTITIONS, FIRST_PRODUCER_ID, Applications
from tests.sim.catalog import CatalogFile, SimCatalog
from tests.sim.clients import Passers, Producer
from tests.sim.committed import CommittedReads
from tests.sim.disk import SimRocks
from tests.sim.fetch_sessions import plain_answer
from tests.sim.gateway_node import Life, state_of
from tests.sim.groups import Commits, audit, start_clients
from tests.sim.history import History
from tests.sim.log_history import LogHistory
from tests.sim.loop import BrokenPromise, Loop, UnevenTrio, make_deterministic
from tests.sim.lost_rows import LostRows
from tests.sim.natives import NATIVE_PARTITIONS, SUBJECT, Natives, dropping_at_once
from tests.sim.network import Network
from tests.sim.older_catalogs import OlderCatalogs
from tests.sim.plan import GATEWAY, INPUTS, MANY_PRODUCERS, NATIVE_TOPIC, NEVER, Fault, Plan
from tests.sim.published import PublishedReaders
from tests.sim.readers import LogReader
from tests.sim.store_node import Member, make_committer_for, make_database_for, make_node
from tests.sim.transactions import Transaction, Transactions
from wireproto.kafka.errors import KafkaError
from wireproto.records.header import CRC_OFFSET, BatchHeader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gateway.catalog.interface import Catalog
    from gateway.log.partition import Partition
    from tests.sim.applications import Work
    from tests.sim.clients import PartitionName

OFFSETS_PARTITIONS = 2

SETTLE_SECONDS = 90.0
"""How long a healed cluster may take until everything serves and every member knows every end. Closers and
deletions pause up to 30 s before they ask again."""

CHECK_SECONDS = 0.5
"""How often everything is looked at, besides what is checked as it happens."""

READ_SECONDS = 0.002
"""What a read in a store's worker thread takes."""


class NextUuid:
    """A UUID of a world: one more, as text; the last one, as bytes. So a store's nonce uses up none, and is
    as unique as the life that the store draws before.
    """

    def __init__(self, world: World) -> None:
        self._world = world

    @property
    def hex(self) -> str:
        self._world.ids += 1
        return f"{self._world.ids:016x}f{self._world.ids:015x}"

    @property
    def bytes(self) -> bytes:
        return self._world.ids.to_bytes(8, "big") * 2


class World:
    """One schedule under way."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.random = random.Random(plan.seed)
        self.loop = Loop()
        self.network = Network(self.loop, plan)
        self.reached: Counter[str] = self.network.reached
        self.history = History(self)
        self.network.on_record = self.history.on_published
        self.catalog_file = CatalogFile()
        self.catalog_file.on_segment = self.history.on_segment
        self.asked = LogHistory(self)
        self.catalog_file.on_transaction = self.asked.on_transaction
        self.members = [Member(self, number) for number in range(plan.stores)]
        self.lives: list[Life] = []
        self.working = True
        """There are new batches and faults."""
        self.deleted_topics: set[str] = set()
        self.flipped: dict[tuple[str, str], tuple[bytes, bytes]] = {}
        """(address, incarnation) -> (key, value as it was), of what a disk lost and nobody mended."""
        self.lost: set[str] = set()
        """Incarnations whose disks are gone for good, until another store has taken their place."""
        self.trimmed: dict[PartitionName, int] = {}
        """Up to which offset a log start was to move at most."""
        self.log_starts: dict[str, int] = {}
        """As the catalog last had them, by its keys."""
        self.retired: set[str] = set()
        """Incarnations that an operator has taken out of service."""
        self.retiring = 0
        self.restored: set[str] = set()
        """Incarnations that an operator has made of older copies: what others have deleted lies on there."""
        self.lull_until = 0.0
        """No producer makes new batches until then."""
        self.producers: list[Producer] = []
        self.passed: Counter[PartitionName] = Counter()
        """How many producers have come once."""
        self.topic_names: dict[str, str] = {}
        """By their ids."""
        self.commits, self.transactions = Commits(self), Transactions(self)
        self.applications = Applications(self)
        self.natives, self.published = Natives(self), PublishedReaders(self)
        self._audited = self._read_all = cast("Life | None", None)
        """The lives whose groups were compared with their log, and whose logs were read whole, when all was
        healed."""
        self.nursery: trio.Nursery
        self._gateway_down = 0
        self.ids = 0  # UUIDs that were drawn
        self._healed_at = 0.0
        self._cleaned = 0
        """Offsets that compactions had cleaned when patience began: with room for two keys they take minutes
        for a log, and what they replace waits to be deleted all the while. They come to an end, as logs do.
        """
        self.lost_rows = LostRows(self)
        self.older = OlderCatalogs(self)
        self._write_topics()

    # the schedule -----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run the schedule. Raises `BrokenPromise`."""
        async with trio.open_nursery() as self.nursery:
            for member in self.members:
                member.start()
            self.start_gateway()
            for fault in self.plan.happening:
                self.loop.after(fault.at, self._begin, fault)
            self._make_clients()
            if self.plan.crash_at_step is not None:
                self.loop.after_step = self._crash_at_step
            self.loop.after(self.plan.seconds, self._heal)
            self.loop.after(CHECK_SECONDS, self._check)
            await self.loop.over.wait()
            for life in self.lives:
                life.kill()
            self._end_views()
            for member in self.members:
                member.crash(keep=True)
            self.nursery.cancel_scope.cancel()
        if self.loop.failure is not None:
            raise self.loop.failure

    def _end_views(self) -> None:
        """Nothing happens any more: who waits for the catalog hears that (see tests.sim.gateways)."""

    def _make_clients(self) -> None:
        for number in range(self.plan.clients):
            for topic in range(self.plan.topics):
                for index in range(self.plan.partitions):
                    acks, producer_id = self.random.choice(
                        ((-1, number), (-1, number), (-1, -1), (1, -1), (0, -1))
                    )
                    producer = Producer(self, number, (f"topic-{topic}", index), producer_id, acks)
                    self.producers.append(producer)
                    producer.begin()
        if self.plan.producers_kept < MANY_PRODUCERS:
            for name in sorted({producer.partition for producer in self.producers}):
                Passers(self, name).begin()
        start_clients(self)
        self.transactions.begin()
        start_programs(self.applications)
        self.natives.begin()
        self.published.begin()
        LogReader(self).begin()

    def _write_topics(self) -> None:
        """The catalog as a gateway has made it that created these topics."""
        values: dict[str, Any] = {keys.CLUSTER: {"id": "simulated", "format": keys.FORMAT}}
        shapes = {f"topic-{number}": self.plan.partitions for number in range(self.plan.topics)}
        if self.plan.groups or self.plan.applications:
            shapes[OFFSETS_TOPIC] = OFFSETS_PARTITIONS
        if self.plan.natives:
            shapes[NATIVE_TOPIC] = NATIVE_PARTITIONS
            values[keys.PRODUCER_IDS] = FIRST_PRODUCER_ID
        if self.plan.applications:
            shapes |= {TRANSACTION_TOPIC: COORDINATOR_PARTITIONS, INPUTS: 1}
            values[keys.PRODUCER_IDS] = FIRST_PRODUCER_ID
        for number, (name, partitions) in enumerate(shapes.items(), 1):
            self.topic_names[f"{number:032x}"] = name
            values[keys.topic_key(name)] = {
                "id": f"{number:032x}",
                "partitions": partitions,
                "replication_factor": self.plan.replication_factor,
                "configs": self._configs(name),
            }
        for member in self.members:
            values[f"{keys.STORES}{1000 + member.number}"] = {
                "incarnation": member.incarnation,
                "name": member.name,
            }
        for key, value in values.items():
            self.catalog_file.entries[key] = Entry(key, keys.pack(value), 1, 1)
        if self.plan.applications:
            levels = {METADATA: 30, TRANSACTION_VERSION: self.plan.transaction_version}
            features = pack_features(FinalizedFeatures(1, levels))
            self.catalog_file.entries[keys.FEATURES] = Entry(keys.FEATURES, features, 1, 1)
        secret = Entry(keys.SCRAM_SECRET, bytes(range(SECRET_BYTES)), 1, 1)
        self.catalog_file.entries[keys.SCRAM_SECRET] = secret  # one that is made up would differ in each run
        self.catalog_file.revision = 1

    def _configs(self, topic: str) -> dict[str, str]:
        plan = self.plan
        configs = {"min.insync.replicas": str(plan.min_insync_replicas)}
        if self.plan.publishes and topic.startswith("topic-"):
            configs["dafka.publish"] = "values"
        if topic == NATIVE_TOPIC:
            configs["dafka.native.subject"] = SUBJECT
            if plan.drops_natives:
                configs["dafka.native.retention.ms"] = "0"
        if plan.policy(topic) != "delete":
            configs |= {
                "cleanup.policy": plan.policy(topic),
                "min.cleanable.dirty.ratio": str(plan.dirty_ratio),
                "delete.retention.ms": str(plan.delete_retention_ms),
                "max.compaction.lag.ms": str(plan.max_lag_ms),
            }
        if plan.retention_seconds < NEVER:
            configs["retention.bytes"] = str(plan.retention_bytes)
        return configs

    def is_compacted(self, partition: PartitionName) -> bool:
        """Whether the partition's topic is."""
        return "compact" in self.plan.policy(partition[0])

    def highest_start(self, partition: PartitionName) -> int:
        """Up to where its log start may have moved."""
        start = self.trimmed.get(partition, 0)
        if "delete" in self.plan.policy(partition[0]) and self.plan.retention_bytes >= 0:
            start = max(start, max(self.history.ledger(partition).records, default=-1) + 1)
        return start

    def partition_of(self, segment_key: str) -> PartitionName | None:
        """Whose a segment is; None if its topic is deleted."""
        topic_id, index, _ = segment_key.removeprefix(keys.SEGMENTS).split("/")
        name = self.topic_names[topic_id]
        return (name, int(index)) if keys.topic_key(name) in self.catalog_file.entries else None

    def _check(self) -> None:
        if self.loop.over.is_set():
            return
        if self.older.in_place:
            self.loop.after(CHECK_SECONDS, self._check)
            return
        if self.lost_rows.is_one_gone:
            pass  # the catalog is not what the checks go by
        elif not self._healed_at:
            invariants.check_all(self)
            self.transactions.check()
            self.applications.check()
        else:
            waiting = invariants.what_is_missing(self)
            waiting = waiting or self.applications.missing() or self.transactions.missing()
            waiting = waiting or self.natives.missing() or self.published.missing()
            transactions = self.plan.transactions or self.plan.applications
            if not waiting and transactions and self._read_all is not self.current_life():
                waiting = "what is committed is not read yet"
                self.nursery.start_soon(self._read_committed)
            if not waiting and self.plan.groups and self._audited is not self.current_life():
                waiting = "its groups are not audited yet"
                self.nursery.start_soon(self._audit)
            if not waiting:
                invariants.check_all(self)
                self.asked.judge()
                self.loop.end()
                return
            if self.loop.now > self._healed_at + SETTLE_SECONDS:
                if (cleaned := invariants.cleaned_offsets(self)) <= self._cleaned:
                    raise BrokenPromise(f"all is healed for {SETTLE_SECONDS} s, and {waiting}")
                self._healed_at, self._cleaned = self.loop.now, cleaned
        self.loop.after(CHECK_SECONDS, self._check)

    async def _read_committed(self) -> None:
        """Every gateway's logs, once all is decided."""
        try:
            for life in self.current_lives():
                await CommittedReads(life).all()
            await self.applications.audit()
        except KafkaError:
            return  # not now
        except BrokenPromise as broken:
            self.loop.end(broken)
        self._read_all = self.current_life()

    def transaction_of(
        self, partition: PartitionName, header: BatchHeader, content: bytes
    ) -> Transaction | Work | None:
        """Which one a batch is part of; None: of none."""
        if not header.is_transactional or header.is_control:
            return None
        if header.producer_id >= FIRST_PRODUCER_ID:
            return self.applications.of(content)
        return self.transactions.of(partition, header)

    async def _audit(self) -> None:
        life = self.current_life()
        if life is not None:
            try:
                await audit(life)
            except KafkaError:
                return  # its log cannot be read now
            except BrokenPromise as broken:
                self.loop.end(broken)
            self._audited = life

    # faults -----------------------------------------------------------------------------------------------

    def member(self, name: str) -> Member:
        """The store of this name."""
        return self.members[int(name.removeprefix("store "))]

    def _begin(self, fault: Fault) -> None:
        if not self.working:
            return
        handle: Callable[[Fault], None] = getattr(self, "_fault_" + fault.kind.replace(" ", "_"))
        handle(fault)
        self.reached[fault.kind if fault.target != GATEWAY else f"gateway {fault.kind}"] += 1

    def _crash_at_step(self) -> None:
        assert self.plan.crash_at_step is not None
        step, target, keep = self.plan.crash_at_step
        if self.loop.steps == step:
            self._fault_crash(Fault("", "crash", self.loop.now, 0.05, target, keep=keep))

    def _fault_crash(self, fault: Fault) -> None:
        if fault.target == GATEWAY:
            self._gateway_down += 1
            self._kill_gateway(keep=fault.keep)
            self.loop.after(fault.seconds, self._gateway_up)
        else:
            self._take_down(self.member(fault.target), fault)

    def _take_down(self, member: Member, fault: Fault) -> None:
        member.wanted_down += 1
        member.crash(keep=fault.keep)
        self.loop.after(fault.seconds, self._bring_up, member)

    @staticmethod
    def _bring_up(member: Member) -> None:
        member.wanted_down -= 1
        member.start()

    def _fault_wipe(self, fault: Fault) -> None:
        """A disk is lost; an empty one comes in its place, and its store takes the place of the lost one.

        No second one is lost before that: w-1 members may be, and w must be left to write to.
        """
        if self.lost:
            return
        member = self.member(fault.target)
        self._take_down(member, fault)
        old = member.incarnation
        self.lost.add(old)
        member.new_incarnation()
        self.nursery.start_soon(self._replace, member, old)

    def _fault_empty(self, fault: Fault) -> None:
        """A store starts with an empty database, as where a disk is not mounted; its identity is there."""
        if self.lost:
            return
        member = self.member(fault.target)
        self.lost.add(member.incarnation)
        self._take_down(member, fault)
        member.emptied = True

    def gave_up(self, member: Member, old: str) -> None:
        """A store is another one from now on; an operator lets it take the old one's place."""
        self.lost.add(old)
        self.nursery.start_soon(self._replace, member, old)

    def _fault_set_back(self, fault: Fault) -> None:
        """A copy of a store's disk is made now, and put back when the fault ends."""
        member = self.member(fault.target)
        self.loop.after(fault.seconds, self._set_back, member, member.incarnation, member.disk.durable())

    def _set_back(self, member: Member, incarnation: str, copy: dict[bytes, bytes]) -> None:
        if not self.working or self.lost or member.incarnation != incarnation or member.wanted_down:
            return
        if self._has_what_is_remembered(incarnation, copy):
            self.reached["copies too new to be told from their store"] += 1
            return
        if store_keys.INCARNATIONS not in copy:
            return  # made before the first start on this disk: that is the fault "empty"
        self.lost.add(incarnation)
        member.wanted_down += 1
        member.crash(keep=True)
        member.disk.data = copy
        self.loop.after(0.05, self._bring_up, member)
        self.loop.after(1.0, self._make_another, member)
        self.reached["stores set back"] += 1

    def _has_what_is_remembered(self, incarnation: str, copy: dict[bytes, bytes]) -> bool:
        """Whether a copy has all that the catalog remembers of its store: that is not promised to be told."""
        entry = self.catalog_file.entries.get(keys.store_life_key(incarnation))
        if entry is None:
            return True
        value = keys.unpack(entry.value)
        starts = unpack_starts(copy.get(store_keys.STARTS, b""))
        end = last_commit_of(starts, bytes.fromhex(value["nonce"]))
        if starts and starts[-1].nonce.hex() == value["nonce"]:
            end = unpack_number("commit number", copy.get(store_keys.COMMIT))
        return bool(end >= value["commit"])

    def _make_another(self, member: Member) -> None:
        """What an operator does with a store that is refused: `dafka store restored`, then a replacement."""
        new = member.next_incarnation()
        member.wanted_down += 1
        member.crash(keep=True)
        member.disk.full = False
        database = member.database()
        learn(database, new)
        member.become(new)
        self.restored.add(new)
        for address in database.addresses("", 1000):
            state = database.load(address)
            if state is not None:
                self.history.fsynced[address, new] = state.head
        self._bring_up(member)

    async def _replace(self, member: Member, old: str) -> None:
        """What an operator does: admit the new store, have it take the lost one's place, remove that one."""
        ordered = False
        while True:
            await trio.sleep(1.0)
            life = self.current_life()
            if life is None or not life.serving or not member.up:
                continue
            stores = life.stores
            try:
                if member.incarnation not in {entry.incarnation for entry in stores.admitted}:
                    await stores.admit([(member.incarnation, member.name)])
                elif not ordered:
                    await life.broker.replacement.start(stores.find(old), stores.find(member.incarnation))
                    ordered = True
                elif self.catalog_file.entries.get(keys.replacing_key(old)) is None:
                    await stores.remove(stores.find(old))
                    self.lost.discard(old)
                    self.reached["stores replaced"] += 1
                    return
            except (CatalogFailed, CompareFailed, StoreRefused):
                self.reached["an operator had to try again"] += 1

    def _fault_trim(self, _fault: Fault) -> None:
        """Every log start moves to some offset that is visible, as by retention or DeleteRecords."""
        life = self.current_life()
        if life is None or not life.serving:
            return
        starts = {}
        for log in life.partitions():
            if log.available and log.topic.settings.cleanup_delete:
                name = log.topic.name, log.index
                starts[log] = self.random.randint(log.log_start_offset, log.high_watermark)
                self.trimmed[name] = max(self.trimmed.get(name, 0), starts[log])
        self.nursery.start_soon(self._trim, life, starts)

    async def _trim(self, life: Life, starts: dict[Partition, int]) -> None:
        try:
            await life.broker.log_starts.move(starts)
        except CatalogFailed:
            return  # the gateway was killed
        self.reached["log starts moved"] += len(starts)

    def _fault_retire(self, fault: Fault) -> None:
        """An operator takes a store out of service that works: another one takes its place. Not one that is
        about to take a lost one's place: two operators would do and undo it for ever.
        """
        if self.lost:
            return
        self.retiring += 1
        self.nursery.start_soon(self._retire, self.member(fault.target).incarnation)

    async def _retire(self, old: str) -> None:
        ordered = False
        while True:
            await trio.sleep(0.5)
            life = self.current_life()
            if life is None or not life.serving:
                continue
            stores = life.stores
            try:
                if not ordered:
                    others = sorted(e.incarnation for e in stores.admitted if e.incarnation != old)
                    new = stores.find(self.random.choice(others))
                    await life.broker.replacement.start(stores.find(old), new)
                    ordered = True
                elif self.catalog_file.entries.get(keys.replacing_key(old)) is None:
                    await stores.remove(stores.find(old))
                    self.retired.add(old)
                    self.retiring -= 1
                    self.reached["stores taken out of service"] += 1
                    return
            except (CatalogFailed, CompareFailed, StoreRefused):
                self.reached["an operator had to try again"] += 1

    def _fault_power_loss(self, fault: Fault) -> None:
        for member in self.members:
            self._take_down(member, fault)

    def _fault_taken_for_dead(self, fault: Fault) -> None:
        """The gateway goes on for a while beside the one that takes over."""
        life = self.current_life()
        if life is None or self._gateway_down:
            return
        life.zombie = True
        self.asked.deposed(life)
        self.catalog_file.crash(keep=self.random.random() < 0.5)
        self.loop.after(fault.seconds, life.kill)
        self.start_gateway()

    def _fault_pause(self, fault: Fault) -> None:
        member = self.member(fault.target)
        if member.node is not None and not member.node.paused:
            member.node.paused = True
            self.loop.after(fault.seconds, self.network.resume, member.node)

    def _fault_cut_link(self, fault: Fault) -> None:
        self._cut([(fault.target, fault.other)], fault.seconds)

    def _fault_isolate(self, fault: Fault) -> None:
        others = [GATEWAY, *(member.name for member in self.members if member.name != fault.target)]
        links = [(fault.target, other) for other in others] + [(other, fault.target) for other in others]
        self._cut(links, fault.seconds)

    def _cut(self, links: list[tuple[str, str]], seconds: float) -> None:
        self.network.cut.update(links)
        self.loop.after(seconds, self.network.cut.subtract, links)

    def _fault_disk_full(self, fault: Fault) -> None:
        member = self.member(fault.target)
        member.full += 1
        member.disk.full = True

        def space() -> None:
            member.full -= 1
            member.disk.full = bool(member.full)

        self.loop.after(fault.seconds, space)

    def _fault_slow_disk(self, fault: Fault) -> None:
        member = self.member(fault.target)
        member.slow += 1

        def fast() -> None:
            member.slow -= 1

        self.loop.after(fault.seconds, fast)

    def _fault_flipped_bit(self, fault: Fault) -> None:
        """A disk loses a bit of a closed segment: of a record under its CRC, or it cannot read a row (its own
        checksum tells). No other member has lost one there: this is not about the last good copy.
        """
        member = self.member(fault.target)
        database, damaged = member.database(), {address for address, _ in self.flipped}
        states = [database.load(address) for address in database.addresses("", 1000)]
        whole = [
            state
            for state in states
            if state is not None
            and state.phase is Phase.CLOSED
            and 0 <= state.head == state.end
            and state.address not in damaged
            and self._others_have(state, member)
        ]
        if whole:
            state = self.random.choice(whole)
            self._flip(member, state.address, self.random.randint(0, state.head))

    def _flip(self, member: Member, address: str, sequence: int) -> None:
        number = store_keys.sequence_bytes(sequence)
        if self.random.random() < 0.3:
            key = store_keys.row_prefix(address) + number
            before = member.disk.data.pop(key)
        else:
            key = store_keys.record_prefix(address) + number
            before = member.disk.data[key]
            value = bytearray(before)
            value[self.random.randrange(CRC_OFFSET, len(value))] ^= 1 << self.random.randrange(8)
            member.disk.data[key] = bytes(value)
        self.flipped[address, member.incarnation] = key, before
        self.reached["bits flipped"] += 1

    def _others_have(self, state: AddressState, member: Member) -> bool:
        """Whether another member has the whole segment."""
        assert state.announcement is not None
        for other in self.members:
            if other is not member and other.incarnation in state.announcement.members:
                known = other.database().load(state.address)
                if known is not None and known.head == state.end:
                    return True
        return False

    def _fault_delete_topic(self, fault: Fault) -> None:
        life = self.current_life()
        topic = None if life is None or not life.serving else life.broker.topics.get(fault.target)
        if life is not None and topic is not None:
            self.deleted_topics.add(fault.target)
            self.nursery.start_soon(self._delete_topic, life, topic)

    async def _delete_topic(self, life: Life, topic: Any) -> None:
        with contextlib.suppress(Exception):
            await life.broker.delete_topic(topic)

    def _fault_alter_topic(self, fault: Fault) -> None:
        life = self.current_life()
        topic = None if life is None or not life.serving else life.broker.topics.get(fault.target)
        if life is not None and topic is not None:
            self.nursery.start_soon(self._alter_topic, life, topic, fault.other)

    async def _alter_topic(self, life: Life, topic: Any, min_insync_replicas: str) -> None:
        with contextlib.suppress(KafkaError, CatalogFailed):
            await life.broker.alter_topic(
                topic, lambda configs: {**configs, "min.insync.replicas": min_insync_replicas}
            )
            self.reached["topics altered"] += 1
        life.adjust_topics()

    def _fault_lose_row(self, fault: Fault) -> None:
        """The gateway dies, and its next life finds a row of the catalog gone, for so many seconds."""
        self._kill_gateway(keep=True)
        if self.lost_rows.lose(fault):
            self.loop.after(fault.seconds, self._put_row_back)
        self._gateway_down += 1
        self._gateway_up()

    def _put_row_back(self) -> None:
        self.lost_rows.put_back()
        self._kill_gateway(keep=True)
        self._gateway_down += 1
        self._gateway_up()

    def _fault_catalog_goes_back(self, fault: Fault) -> None:
        """The gateway dies, and its disk is restored from a copy that is so many seconds old."""
        self._kill_gateway(keep=True)
        self.older.put_back(fault.seconds)
        self.start_gateway()

    def _fault_lull(self, fault: Fault) -> None:
        """Nobody has anything to write for a while; what comes before its end was there already."""
        self.lull_until = self.loop.now + fault.seconds
        for producer in self.producers:
            self.loop.after(fault.seconds, producer.repeat)

    def _fault_clock_step(self, fault: Fault) -> None:
        """Somebody sets the wall clock."""
        life = self.current_life()
        if life is not None and life.serving:
            life.context.wall_offset_ms += int(fault.seconds * 1000)

    def _heal(self) -> None:
        """No more faults and no more work: what was begun ends by itself within some seconds."""
        self.working = False
        self.network.healed = True
        self._healed_at = self.loop.now + max(
            (fault.seconds for fault in self.plan.happening if fault.kind != "clock step"), default=0
        )

    # the gateway ------------------------------------------------------------------------------------------

    def current_life(self) -> Life | None:
        """The life that has the catalog."""
        life = self.lives[-1] if self.lives else None
        return None if life is None or life.over or life.zombie else life

    def current_lives(self) -> list[Life]:
        """The lives that lead something by the catalog: one, but in `tests.sim.gateways`."""
        life = self.current_life()
        return [] if life is None else [life]

    def leader_of(self, partition: PartitionName) -> Life | None:  # noqa: ARG002 - see tests.sim.gateways
        """The life that leads this partition by the catalog."""
        return self.current_life()

    def stale_seconds(self, life: Life) -> float:  # noqa: ARG002 - see tests.sim.gateways
        """How long a life may answer as things were after it has lost what it led: as long as it is let."""
        return math.inf

    async def take_place(self, life: Life) -> None:
        """A gateway that shares the catalog with others says there that it is alive."""

    def open_catalog(self) -> Catalog:
        """A life's handle of the catalog."""
        return SimCatalog(self.catalog_file, self)

    def gateway_of(self, before: Life | None, partition: PartitionName | None = None) -> Life | None:  # noqa: ARG002
        """Where a client sends what is for this partition: where it sent before as long as that one serves,
        else to the newest.
        """
        if before is not None and before.serving and self.random.random() < 0.9:
            return before
        return self.current_life()

    def start_gateway(self) -> None:
        life = Life(self, len(self.lives) + 1)
        self.lives.append(life)
        self.nursery.start_soon(life.run)

    def _gateway_up(self) -> None:
        self._gateway_down -= 1
        if not self._gateway_down and self.current_life() is None:
            self.start_gateway()

    def _kill_gateway(self, *, keep: bool) -> None:
        life = self.current_life()
        if life is not None:
            self.catalog_file.crash(keep=keep)
            life.kill()

    def catalog_refused(self, life: Life) -> None:
        """The stores have refuted the catalog; a zombie's is older, too. An operator puts back the newest."""
        self.reached["catalogs refused"] += 1
        if self.older.in_place and not life.zombie:
            self.older.restore()
            self.start_gateway()
        elif not life.zombie:
            raise BrokenPromise("the stores refute the newest catalog")

    def life_ended(self, life: Life) -> None:
        """A life ended by itself; something starts the next one."""
        if not life.zombie and not self._gateway_down:
            self._gateway_down += 1
            self.loop.after(0.2, self._gateway_up)

    def time_ns(self) -> int:
        """In the place of `time.time_ns`."""
        return 1_700_000_000_000_000_000 + int(self.loop.now * 1e9)

    def next_uuid(self) -> NextUuid:
        """In the place of `uuid4` where a life's prefix, or a store's nonce, is made."""
        return NextUuid(self)


@dataclass
class Outcome:
    """What became of one schedule."""

    plan: Plan
    world: World
    failure: Exception | None

    @property
    def text(self) -> str:
        return "" if self.failure is None else f"{type(self.failure).__name__}: {self.failure}"

    @property
    def trace(self) -> str:
        """The same for two runs only if the same messages arrived at the same times."""
        return f"{self.world.network.trace.hexdigest()} {self.world.loop.steps}"


@contextlib.contextmanager
def simulated_parts(world: World) -> Iterator[None]:
    """What the real shells reach for by name."""

    async def run_sync(work: Callable[..., Any], *args: Any, **_: Any) -> Any:
        await trio.sleep(READ_SECONDS)
        return work(*args)

    patches: tuple[contextlib.AbstractContextManager[Any], ...] = (
        patch.object(store_module, "Node", make_node),
        patch.object(store_module, "Database", make_database_for(world)),
        patch.object(store_module, "Committer", make_committer_for(world)),
        patch.object(rocksdb, "rocksdict", SimRocks),
        patch("mesh.requests.uuid4", world.next_uuid),
        patch("gateway.transactions.sweep.TIMEOUTS_SECONDS", 0.5),
        patch("gateway.native.topics.SILENT_SECONDS", 0.4),
        patch("gateway.native.topics.SILENT_LOOK_SECONDS", 0.2),
        patch("gateway.native.topics.LOOK_SECONDS", 0.1),
        patch("mesh.store.native_sending.NATIVE_SEND_RECORDS", 2),
        *(dropping_at_once(world.reached) if world.plan.drops_natives else ()),
        patch("gateway.cluster.lineage.uuid4", world.next_uuid),
        patch("mesh.store.identity.uuid4", world.next_uuid),
        patch("gateway.cluster.store_lives.KEEP_SECONDS", 0.3),
        patch.object(store_module, "trio", UnevenTrio()),
        patch.object(coordinator, "time", SimpleNamespace(time_ns=world.time_ns)),
        patch.object(fetch_api, "_answer", plain_answer),
        patch.object(compaction, "PUT_OFF_SECONDS", 1.0),
        patch.object(
            compaction,
            "CompactionRun",
            partial(compaction_run.CompactionRun, buffer_bytes=world.plan.compaction_keys * KEY_BYTES),
        ),
        patch.object(compaction_run, "PIECE_RECORDS", 3),
        patch.object(compaction_run, "MAX_SOURCES", 4),
        answers_of(world.plan.rows_in_an_answer),
        *(patch.dict(one, max_producers=world.plan.producers_kept) for one in producer_states()),
        patch.object(store_module, "uuid4", world.next_uuid),
        patch.object(
            store_module,
            "shutil",
            SimpleNamespace(disk_usage=lambda _path: SimpleNamespace(free=1 << 40, total=1 << 40)),
        ),
        patch.object(trio.to_thread, "run_sync", run_sync),
    )
    with contextlib.ExitStack() as stack:
        for one in patches:
            stack.enter_context(one)
        yield


def producer_states() -> Iterator[dict[str, Any]]:
    """The arguments with which a log's states of producers are made."""
    from_snapshot: Any = ProducerState.from_snapshot
    for make in (ProducerState.__init__, from_snapshot.__func__):
        assert make.__kwdefaults__ is not None
        yield make.__kwdefaults__


@contextlib.contextmanager
def answers_of(rows: int) -> Iterator[None]:
    """So many rows of a segment are in one answer."""
    with (
        patch.object(server, "BEGINNING_ROWS", rows),
        patch.object(reader, "ROWS_COUNT", rows),
        patch.object(producers_at_end, "ROWS_AT_ONCE", rows + 1),
    ):
        yield


def run(plan: Plan, world: World | None = None) -> Outcome:
    """Run one schedule to its end; in this world, if somebody wants to look at it meanwhile."""
    make_deterministic(plan.seed)
    world = world or World(plan)
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    failure: Exception | None = None
    try:
        with simulated_parts(world):
            trio.run(world.run, clock=world.loop)
    except Exception as error:  # noqa: BLE001  any failure of the real code is a finding
        failure = _innermost(error)
    finally:
        logging.disable(disabled)
    return Outcome(plan, world, failure)


def _innermost(error: Exception) -> Exception:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


__all__ = ["BrokenPromise", "Outcome", "World", "run", "state_of"]
