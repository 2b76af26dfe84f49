"""Bugs that the simulation must find: each planted for the time of a schedule, none of them in the product.

Every one is a way to lose or double data that the rules of the architecture stand against. What finds it, and
after how many schedules, is in docs/reliability.md.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from gateway.log.appends import Append
from gateway.log.attempt import Attempt
from gateway.log.closer import Closer
from gateway.log.partition import Partition
from gateway.log.verification import Asked
from mesh.producer import Producer
from mesh.protocol.address_state import AddressState, Phase
from mesh.protocol.ingest import Commit, Ingest
from mesh.protocol.recovery import Seal
from mesh.protocol.writer import Entry, Writer
from mesh.store import keys
from mesh.store.db import Database
from tests.sim.store_node import SimCommitter

Plant = Callable[[], AbstractContextManager[object]]


def _ack_before_fsync() -> AbstractContextManager[object]:
    write = SimCommitter.write

    def hasty(self: SimCommitter, commit: Commit) -> bool:
        write(self, commit)
        return True

    def unreported(self: SimCommitter, commit: Commit) -> None:
        database: Any = self._database
        if not database.handle.dead:
            database.flush()
            self.member.world.history.on_fsynced(self.member.incarnation, commit)

    return _both(
        patch.object(SimCommitter, "write", hasty), patch.object(SimCommitter, "_fsynced", unreported)
    )


def _skipped_seal() -> AbstractContextManager[object]:
    seal = Ingest._seal

    def forgetful(self: Ingest, wanted: Any) -> Any:
        state = seal(self, wanted)
        if isinstance(state, AddressState) and state.phase is Phase.SEALED and state.announcement is not None:
            state.phase = Phase.OPEN
            self._next.metas.pop(state.address, None)
        return state

    return patch.object(Ingest, "_seal", forgetful)


def _too_few_answers() -> AbstractContextManager[object]:
    asked = Attempt.asked

    def asked_fewer(self: Attempt) -> Asked:
        entry = asked(self)
        return entry._replace(needed=max(1, entry.needed - 1))

    needed = property(lambda self: max(1, len(self.members) - self.w))
    return _both(patch.object(Seal, "needed", needed), patch.object(Attempt, "asked", asked_fewer))


def _late_store_trusted() -> AbstractContextManager[object]:
    on_record = Ingest.on_record

    def trusting(self: Ingest, record: Any, now: float) -> None:
        state = self.known(record.address)
        if state is not None and state.phase is Phase.OPEN and state.accepted < 0:
            state.accepted = record.sequence - 1
        on_record(self, record, now)

    return patch.object(Ingest, "on_record", trusting)


def _duplicate_answered_early() -> AbstractContextManager[object]:
    def early(_self: Partition, append: Append) -> Append:
        append.done = True
        return append

    return patch.object(Partition, "_duplicate", early)


def _watermark_at_one_store() -> AbstractContextManager[object]:
    start = Producer.start

    def alone(self: Producer, address: str, subject: str, members: Any, w: int, *rest: Any) -> Writer:
        return start(self, address, subject, members, min(w, 1), *rest)

    return patch.object(Producer, "start", alone)


def _close_lost() -> AbstractContextManager[object]:
    def lost(_self: Closer, _address: str, closing: Any) -> None:
        if closing.when_heard is not None:
            closing.when_heard()

    return patch.object(Closer, "_tell", lost)


def _sequence_reused() -> AbstractContextManager[object]:
    append = Writer.append

    def reusing(self: Writer, content: Any, now: float) -> int:
        sequence = append(self, content, now)
        if sequence % 20 == 10:
            self.next_sequence = sequence
        return sequence

    return patch.object(Writer, "append", reusing)


def _wrong_fetch_content() -> AbstractContextManager[object]:
    on_fetch = Writer.on_fetch

    def wrong(self: Writer, sequence: int, count: int) -> list[Entry]:
        entries = on_fetch(self, sequence, count)
        contents = [entry.content for entry in reversed(entries)]
        return [Entry(entry.sequence, content) for entry, content in zip(entries, contents, strict=True)]

    return patch.object(Writer, "on_fetch", wrong)


def _deleted_comes_back() -> AbstractContextManager[object]:
    delete = Database._delete

    def thorough(batch: Any, address: str) -> None:
        delete(batch, address)
        batch.delete(keys.meta_key(address))

    return patch.object(Database, "_delete", staticmethod(thorough))


@contextlib.contextmanager
def _both(first: AbstractContextManager[object], second: AbstractContextManager[object]) -> Iterator[None]:
    with first, second:
        yield


BUGS: dict[str, Plant] = {
    "ACK before fsync": _ack_before_fsync,
    "skipped SEAL": _skipped_seal,
    "n-w answers accepted": _too_few_answers,
    "late store trusted": _late_store_trusted,
    "duplicate answered early": _duplicate_answered_early,
    "high watermark at one store": _watermark_at_one_store,
    "CLOSE lost for ever": _close_lost,
    "sequence reused": _sequence_reused,
    "wrong FETCH content": _wrong_fetch_content,
    "deleted topic comes back": _deleted_comes_back,
}


@contextlib.contextmanager
def planted(name: str | None) -> Iterator[None]:
    """Have one bug, or none."""
    if name is None:
        yield
        return
    with BUGS[name]():
        yield
