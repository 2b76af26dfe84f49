"""One transactional id under random requests, appends that fail, and reloads at any moment, beside a model.

The model is written from Kafka's tables, in words of its own: it shares nothing with the code but the numbers
of errors. What it says is compared after every request; and whatever happens:

* an answer without an error is what a reload of the log's bytes finds;
* producer ids and epochs never go back;
* an append that has failed changes nothing: who had the epoch has it still.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gateway.transactions.adding import AddPartitions
from gateway.transactions.ending import EndTxn
from gateway.transactions.initialising import InitProducerId
from gateway.transactions.machine import TransactionMachine
from gateway.transactions.metadata import TransactionMetadata, TransactionState
from gateway.transactions.outcomes import Answer, Needs, Outcome, Write
from gateway.transactions.records import decode_record, transaction_key, transaction_value

ID = "an id"
TIMEOUT_MS = 1_000
EXPIRATION_MS = 20_000
TOPICS = st.frozensets(
    st.tuples(st.sampled_from(["orders", "payments"]), st.integers(0, 2)), min_size=1, max_size=3
)


@dataclass
class Model:
    """What is known of the id, in plain words."""

    server: int
    state: str = "unknown"
    pid: int = -1
    epoch: int = -1
    before: int = -1
    """The producer id before this one."""
    after: int = -1
    """The one that comes after the markers."""
    last: int = -1
    protocol: int = 0
    inside: set[tuple[str, int]] = field(default_factory=set)
    started: int = -1
    touched: int = -1

    @property
    def is_worn_out(self) -> bool:
        return self.epoch > 32765

    # each of these says which error is answered, with which producer, and what the id looks like then; None
    # instead of that: nothing is written ------------------------------------------------------------------

    def init(self, pid: int, epoch: int, now: int, fresh: int) -> tuple[int, int, int, Model | None]:
        empty = replace(self, state="Empty", inside=set(), started=-1, touched=now)
        if self.state == "unknown":
            return 0, fresh, 0, replace(empty, pid=fresh, epoch=0)
        if self.state.startswith("Prepare"):
            return 51, -1, -1, None
        if pid not in {-1, self.pid} and not (pid == self.before and epoch > 32765):
            return 90, -1, -1, None
        if self.state == "Ongoing":
            return 51, -1, -1, self.aborted_by_server(now, fresh)
        if pid == -1 or (pid, epoch) == (self.pid, self.epoch):
            last = -1 if pid == -1 else epoch
            if self.is_worn_out:
                return 0, fresh, 0, replace(empty, pid=fresh, epoch=0, before=self.pid, last=last)
            return 0, self.pid, self.epoch + 1, replace(empty, epoch=self.epoch + 1, last=last)
        if epoch == self.last:
            return 0, self.pid, self.epoch, empty
        return 90, -1, -1, None

    def add(self, pid: int, epoch: int, partitions: frozenset[tuple[str, int]], protocol: int,
            now: int) -> tuple[int, int, int, Model | None]:  # fmt: skip
        if self.state.startswith("Prepare"):
            return 51, -1, -1, None
        if self.state == "unknown" or pid != self.pid:
            return 49, -1, -1, None
        if epoch != self.epoch:
            return 90, -1, -1, None
        if self.state == "Ongoing" and partitions <= self.inside:
            return 0, -1, -1, None
        started = self.started if self.state == "Ongoing" else now
        grown = replace(
            self, state="Ongoing", inside=self.inside | partitions, started=started, touched=now,
            protocol=protocol,
        )  # fmt: skip
        return 0, -1, -1, grown

    def end(self, pid: int, epoch: int, word: str, protocol: int, now: int,
            fresh: int) -> tuple[int, int, int, Model | None]:  # fmt: skip
        if self.state == "unknown":
            return 49, -1, -1, None
        if protocol < 2:
            return self._end_older(pid, epoch, word, protocol, now)
        if self.state.startswith("Prepare"):
            return 51, -1, -1, None
        present = (pid, epoch) == (self.pid, self.epoch)
        again = (pid, epoch + 1) == (self.pid, self.epoch) or (
            (pid, epoch) == (self.before, 32766) and self.epoch == 0
        )
        if again:
            return self._end_again(word)
        if pid != self.pid:
            return 49, -1, -1, None
        if not present:
            return 90, -1, -1, None
        if self.state != "Ongoing" and word == "Commit":
            return 48, -1, -1, None
        nothing = self if self.state == "Ongoing" else replace(self, inside=set(), started=now)
        ended = nothing._bumped(f"Prepare{word}", protocol, now, fresh)
        return (0, *((ended.after, 0) if ended.after != -1 else (ended.pid, ended.epoch)), ended)

    def _end_older(
        self, pid: int, epoch: int, word: str, protocol: int, now: int
    ) -> tuple[int, int, int, Model | None]:
        if pid != self.pid:
            return 49, -1, -1, None
        if epoch != self.epoch:
            return 90, -1, -1, None
        if self.state == "Ongoing":
            return 0, -1, -1, replace(self, state=f"Prepare{word}", touched=now, protocol=protocol)
        if self.state.startswith("Prepare"):
            return 51, -1, -1, None
        return (0 if self.state == f"Complete{word}" else 48), -1, -1, None

    def _end_again(self, word: str) -> tuple[int, int, int, Model | None]:
        if self.state in {"Ongoing", "Empty"}:
            return 90, -1, -1, None
        if self.state == f"Complete{word}":
            return 0, self.pid, self.epoch, None
        return 48, -1, -1, None

    def _bumped(self, state: str, protocol: int, now: int, fresh: int) -> Model:
        return replace(
            self, state=state, epoch=min(self.epoch + 1, 32767), last=self.epoch, touched=now,
            after=fresh if self.is_worn_out else -1, protocol=protocol,
        )  # fmt: skip

    def aborted_by_server(self, now: int, fresh: int) -> Model:
        if self.server == 2:
            return self._bumped("PrepareAbort", 2, now, fresh)
        return replace(
            self, state="PrepareAbort", epoch=min(self.epoch + 1, 32767), last=-1, touched=now,
            protocol=self.server,
        )  # fmt: skip

    def completed(self, now: int) -> Model:
        done = replace(self, state=self.state.replace("Prepare", "Complete"), inside=set(), touched=now)
        if self.after == -1:
            return done
        return replace(done, pid=self.after, epoch=0, before=self.pid, after=-1)

    def expected(self) -> TransactionMetadata | None:
        """As the code would have it."""
        if self.state == "unknown":
            return None
        state = {one.label: one for one in TransactionState}[self.state]
        return TransactionMetadata(
            self.pid, self.epoch, TIMEOUT_MS, state, self.touched, frozenset(self.inside), self.started,
            self.before, self.after, -1, self.last, self.protocol,
        )  # fmt: skip


class OneId(RuleBasedStateMachine):
    """Requests, the log, and what becomes of appends."""

    @initialize(server=st.sampled_from([0, 1, 2]), near_the_end=st.booleans())
    def begin(self, server: int, near_the_end: bool) -> None:
        self.server = server
        self.now = 1_000_000
        self.next_pid = 100
        self.log: list[tuple[bytes, bytes | None]] = []
        self.model = Model(server)
        self.planned: Model | None = None
        self.highest = (-1, -1)
        if near_the_end:  # else nobody would live to see the end of the epochs
            self.model = Model(server, "Empty", 99, 32763, touched=self.now)
            self._append(self.model.expected())
        self.machine = self._reloaded()

    def _append(self, metadata: TransactionMetadata | None) -> None:
        self.log.append((transaction_key(ID), None if metadata is None else transaction_value(metadata)))

    def _reloaded(self) -> TransactionMachine:
        found = decode_record(*self.log[-1]).metadata if self.log else None
        return TransactionMachine(found, server_version=lambda: self.server)

    def _fresh(self) -> int:
        self.next_pid += 1
        return self.next_pid

    def _check(
        self,
        outcome: Outcome,
        expected: tuple[int, int, int, Model | None],
        judged_meanwhile: frozenset[int] = frozenset(),
    ) -> None:
        error, pid, epoch, planned = expected
        if self.planned is not None and error not in judged_meanwhile:
            error, pid, epoch, planned = 51, -1, -1, None
        assert not isinstance(outcome, Needs)
        answer = outcome if isinstance(outcome, Answer) else outcome.answer
        assert tuple(answer) == (error, pid, epoch)
        assert isinstance(outcome, Write) == (planned is not None)
        if planned is not None:
            assert isinstance(outcome, Write)
            assert outcome.metadata == planned.expected()
            self.planned = planned

    producers = st.sampled_from(["present", "before", "after", "older", "later", "other", "first"])

    def _named(self, who: str) -> tuple[int, int]:
        model = self.model
        return {
            "present": (model.pid, model.epoch),
            "before": (model.before, 32766),
            "after": (model.after, 0),
            "older": (model.pid, model.epoch - 1),
            "later": (model.pid, model.epoch + 1),
            "other": (7, model.epoch),
            "first": (model.pid, 0),
        }[who]

    @rule()
    def init(self) -> None:
        self._init(-1, -1)

    @rule(who=producers)
    def init_again(self, who: str) -> None:
        pid, epoch = self._named(who)
        if pid != -1 and epoch != -1:
            self._init(pid, epoch)

    def _init(self, pid: int, epoch: int) -> None:
        fresh = self._fresh()
        outcome = self.machine.init_producer_id(InitProducerId(TIMEOUT_MS, pid, epoch), self.now)
        if outcome is Needs.PRODUCER_ID:
            outcome = self.machine.init_producer_id(InitProducerId(TIMEOUT_MS, pid, epoch), self.now, fresh)
        self._check(outcome, self.model.init(pid, epoch, self.now, fresh))

    @rule(who=producers, partitions=TOPICS, version=st.sampled_from([0, 2]))
    def add(self, who: str, partitions: frozenset[tuple[str, int]], version: int) -> None:
        pid, epoch = self._named(who)
        outcome = self.machine.add_partitions(AddPartitions(pid, epoch, partitions, version), self.now)
        self._check(outcome, self.model.add(pid, epoch, partitions, version, self.now))

    @rule(who=producers, word=st.sampled_from(["Commit", "Abort"]), version=st.sampled_from([0, 2]))
    def end(self, who: str, word: str, version: int) -> None:
        pid, epoch = self._named(who)
        fresh = self._fresh()
        request = EndTxn(pid, epoch, is_commit=word == "Commit", client_version=version)
        outcome = self.machine.end(request, self.now)
        if outcome is Needs.PRODUCER_ID:
            outcome = self.machine.end(request, self.now, fresh)
        # The older protocol looks at the epoch even while something is on its way.
        judged = {49, 90} if version == 0 and self.model.state != "unknown" else set[int]()
        self._check(outcome, self.model.end(pid, epoch, word, version, self.now, fresh), frozenset(judged))

    @rule(ms=st.sampled_from([1, 500, 2_000, 30_000]))
    def time_passes(self, ms: int) -> None:
        self.now += ms

    @rule()
    def sweep(self) -> None:
        model, fresh = self.model, self._fresh()
        due = model.state == "Ongoing" and model.started + TIMEOUT_MS < self.now
        planned = model.aborted_by_server(self.now, fresh) if due else None
        outcome = self.machine.time_out(self.now)
        if outcome is Needs.PRODUCER_ID:
            outcome = self.machine.time_out(self.now, fresh)
        self._by_itself(outcome, planned)

    @rule()
    def expire(self) -> None:
        model = self.model
        rests = model.state in {"Empty", "CompleteCommit", "CompleteAbort"}
        planned = Model(self.server) if rests and model.touched + EXPIRATION_MS <= self.now else None
        self._by_itself(self.machine.expire(self.now, EXPIRATION_MS), planned)

    @rule()
    def markers_are_written(self) -> None:
        prepared = self.model.state.startswith("Prepare")
        planned = self.model.completed(self.now) if prepared else None
        self._by_itself(self.machine.complete(self.now), planned)

    def _by_itself(self, outcome: Outcome | None, planned: Model | None) -> None:
        if self.planned is not None or planned is None:
            assert not isinstance(outcome, Write)
            return
        assert isinstance(outcome, Write)
        assert outcome.metadata == planned.expected()
        self.planned = planned

    @precondition(lambda self: self.planned is not None)
    @rule()
    def it_is_durable(self) -> None:
        assert self.planned is not None
        pending = self.machine.pending
        assert pending is not None
        self._append(pending.metadata)
        self.machine.durable()
        self.model, self.planned = self.planned, None

    @precondition(lambda self: self.planned is not None)
    @rule()
    def it_fails(self) -> None:
        before = self.machine.metadata
        self.machine.failed()
        assert self.machine.metadata == before
        self.planned = None

    @rule(kept=st.booleans())
    def the_coordinator_is_another(self, kept: bool) -> None:
        """What was on its way may be in the log, or not."""
        pending = self.machine.pending
        if pending is not None and kept:
            self._append(pending.metadata)
            assert self.planned is not None
            self.model = self.planned
        self.planned = None
        self.machine = self._reloaded()

    @invariant()
    def what_is_known_is_what_the_log_has(self) -> None:
        if hasattr(self, "machine"):
            expected = self.model.expected()
            assert self.machine.metadata == expected
            assert self._reloaded().metadata == expected
            assert (self.machine.pending is None) == (self.planned is None)

    @invariant()
    def epochs_never_go_back(self) -> None:
        if hasattr(self, "machine") and self.machine.metadata is not None:
            metadata = self.machine.metadata
            now = (metadata.producer_id, metadata.producer_epoch)
            assert now >= self.highest
            self.highest = now


TestOneId = OneId.TestCase
TestOneId.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
