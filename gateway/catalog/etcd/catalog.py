"""The catalog in etcd: transactions by slots, reads from a mirror that a watch keeps up to date.

Three things go on while `run` runs: the watch; a question to another member each second, whether the mirror
shows what a majority has; and the lease of this gateway's slots, which is kept alive.

Rule: a transaction returns when the mirror shows it. Who reads after it sees it, and who was told that a
compare failed sees why.

Rule: etcd may go away for any time: transactions wait, each is settled when it is back, and nothing else is
done to them. `trouble` says so meanwhile, and the log once. What ends the process is an etcd that has come
back with something else than it had, or that has forgotten this gateway (`CatalogLost`).
"""

from __future__ import annotations

import logging
import math
import secrets
from typing import TYPE_CHECKING, Final, Self

import trio

from gateway.catalog.etcd import words
from gateway.catalog.etcd.attempts import (
    Done,
    Failed,
    Names,
    NeverHappened,
    Seen,
    Slot,
    SlotGone,
    WentBack,
    attempt,
    outcome,
    settle,
    settled,
)
from gateway.catalog.etcd.client import ANSWER_SECONDS, Etcd, Line, WatchLines
from gateway.catalog.etcd.connection import Broken, NotConnected
from gateway.catalog.etcd.content import Content, has_gone_on, seen_in
from gateway.catalog.etcd.credentials import Credentials
from gateway.catalog.etcd.following import Compacted, Following, WatchEnded
from gateway.catalog.etcd.loading import (
    NotNow,
    Unreachable,
    load,
    load_made,
    load_or_make,
    refused,
)
from gateway.catalog.etcd.words import Body, NotSent, NotUnderstood, Refused, Unknown
from gateway.catalog.history import History, Watch
from gateway.catalog.interface import (
    CatalogLost,
    Change,
    Compare,
    CompareFailed,
    Entry,
    LeaseNotFound,
)
from gateway.catalog.mirror import Transaction, check_transaction

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gateway.catalog.etcd.address import EtcdAddress

SLOTS: Final = 8
"""Transactions that are under way at once: with more etcd does not do more in a second."""

SLOT_LEASE_SECONDS: Final = 3600
"""How long etcd keeps what a gateway has tried last, after it was heard of: one that was cut off for longer
cannot learn any more what became of it, and ends."""

LOOK_SECONDS: Final = 1.0
"""Between two questions whether the mirror is up to date, and the longest wait for the answer."""

RENEWAL_SECONDS: Final = 1.0
"""Longest wait for the renewal of a lease at one member: one that was stopped hangs for longer than the
lease."""

LAG_SECONDS: Final = 1.0
"""A watch that shows a change so much later than another member is followed by one at another member."""

TROUBLE_SECONDS: Final = 3.0
"""Silence of all members that is told: longer than an election."""

REFUSED_SECONDS: Final = 5.0
"""How long a refusal is what is told. Who waits for a transaction tries it again each second."""

KEEP_SECONDS: Final = 60.0
"""Between two renewals of the lease of the slots."""

PAUSES: Final = (0.05, 0.1, 0.2, 0.5, 1.0)
"""Before a question is asked again, the last one for ever."""

LAST_SECONDS: Final = 1.0
"""How long an end waits for etcd to forget this gateway's slots."""

PUT_BACK: Final = (
    "Put back the etcd that was here, or the newest snapshot of it; or read the catalog back from the stores,"
    " below another prefix (dafka gateway rebuild-catalog, with another /PREFIX behind --catalog's addresses)"
)

logger = logging.getLogger(__name__)


class _Tries:
    """One thing that is asked until it is answered, with pauses between."""

    def __init__(self) -> None:
        self._made = 0

    async def pause(self) -> None:
        await trio.sleep(PAUSES[min(self._made, len(PAUSES) - 1)])
        self._made += 1


class EtcdCatalog:
    """See `Catalog`. Made by `open`; `run` has to run before anything is changed."""

    def __init__(self, address: EtcdAddress, credentials: Credentials, content: Content) -> None:
        """Raises OSError: a file of the credentials cannot be used."""
        self.where = str(address)
        self._names = Names(address.prefix.encode())
        self._etcd = Etcd(address.members, credentials)
        self._content = content
        self._history = History(content.mirror.revision)
        self._advanced = trio.Event()
        self._session = secrets.token_hex(8)
        self._lease = 0
        self._slots: list[tuple[Slot, Line]] = []
        self._free: list[tuple[Slot, Line]] = []
        self._freed = trio.Event()
        self._leasing = trio.Lock()
        self._calls = self._etcd.line()
        self._calling = trio.Lock()
        self._renewals = self._etcd.line()
        self._renewing = trio.Lock()
        self._lost: Exception | None = None
        """What everything raises from now on."""
        self._heard = math.nan
        """When a majority was heard last and the mirror was up to date; the clock is read when `run` runs."""
        self._refusal = ""
        self._refused_at = -math.inf
        self._watched = 0
        """The member that the watch is at."""
        self._behind = trio.Event()

    @classmethod
    async def open(cls, address: EtcdAddress, credentials: Credentials, *, make: bool = True) -> Self:
        """The catalog there; to `make` one, a new one if there is none.

        Raises:
            CatalogLost: No member answers within some seconds, etcd refuses, or what is there is none.
            OSError: A file of the credentials cannot be used.
        """
        etcd = Etcd(address.members, credentials)
        try:
            names, where = Names(address.prefix.encode()), str(address)
            content = await (load_or_make if make else load_made)(etcd, etcd.line(), names, where)
        finally:
            etcd.close()
        return cls(address, credentials, content)

    # reads ------------------------------------------------------------------------------------------------

    @property
    def revision(self) -> int:
        return self._content.mirror.revision

    @property
    def sequence(self) -> int:
        return self._seen.mod_revision

    @property
    def _seen(self) -> Seen:
        seen = self._content.seen
        assert seen is not None, "what is opened has a history"
        return seen

    @property
    def trouble(self) -> str:
        now = trio.current_time()
        if now < self._refused_at + REFUSED_SECONDS:
            return self._refusal
        silent = now - self._heard
        if not silent > TROUBLE_SECONDS:
            return ""
        why = self._etcd.complaint or f"{self._etcd.names[self._watched]} is behind the others"
        return f"the catalog {self.where} was not reached for {silent:.0f} s: {why}"

    @property
    def put_back(self) -> str:
        return PUT_BACK

    def get(self, key: str) -> Entry | None:
        return self._content.mirror.get(key)

    def range(self, prefix: str, *, after: str = "", limit: int | None = None) -> list[Entry]:
        return self._content.mirror.range(prefix, after=after, limit=limit)

    def watch(self, prefix: str, from_revision: int) -> Watch:
        return Watch(self._history, prefix, from_revision)

    def changes(self, from_revision: int) -> list[Change]:
        return self._history.kept_since(from_revision)

    async def fresh(self) -> None:
        tries = _Tries()
        while True:
            sent = self._seen
            async with self._calling:
                answer = await self._calls.ask(words.RANGE, words.one(self._names.history))
            if isinstance(answer, dict) and (found := self._history_in(answer, sent)) is not None:
                await self._shown(found.mod_revision)
                return
            await self._not_lost()
            await tries.pause()

    # transactions -----------------------------------------------------------------------------------------

    async def transact(
        self,
        compares: Sequence[Compare],
        puts: Mapping[str, bytes],
        deletes: Sequence[str] = (),
        lease: int | None = None,
    ) -> int:
        step = Transaction(tuple(compares), dict(puts), tuple(deletes), lease or 0)
        check_transaction(step)
        await self._not_lost()
        slot, line = await self._take_slot()
        try:
            return await self._transact(slot, line, step)
        finally:
            self._free.append((slot, line))
            self._freed.set()
            self._freed = trio.Event()

    async def _take_slot(self) -> tuple[Slot, Line]:
        await self._have_lease()
        while not self._free:
            if len(self._slots) < SLOTS:
                name = self._names.slot(self._session, len(self._slots))
                self._slots.append((Slot(name), self._etcd.line()))
                return self._slots[-1]
            await self._freed.wait()
        return self._free.pop()

    async def _transact(self, slot: Slot, line: Line, step: Transaction) -> int:
        if slot.is_open:
            await self._settle(slot, line)  # whoever was cancelled has left it so
        tries = _Tries()
        while True:
            await self._not_lost()
            told = await self._attempt(slot, line, step)
            if told is None:
                told = await self._settle(slot, line)
            match told:
                case Done(revision):
                    self._refusal, self._refused_at = "", -math.inf
                    await self._shown(revision)
                    return revision
                case Failed():
                    await self._show_failed(step, told)
                case NeverHappened():
                    await tries.pause()

    async def _attempt(
        self, slot: Slot, line: Line, step: Transaction
    ) -> Done | Failed | NeverHappened | None:
        """What became of one attempt, None where that is not known."""
        seen = self._seen
        answer = await line.ask(words.TXN, attempt(self._names, slot, self._lease, seen, step))
        match answer:
            case Unknown():
                return None
            case NotSent() | Refused():
                slot.is_open = False
                if isinstance(answer, Refused):
                    self._refused(answer, step.lease)
                return NeverHappened()
        try:
            told = outcome(slot, seen, answer)
        except NotUnderstood:
            return None
        if isinstance(told, SlotGone):
            raise self._lose(self._forgotten())
        if isinstance(told, WentBack):
            raise self._lose(self._went_back())
        return told

    async def _settle(self, slot: Slot, line: Line) -> Done | NeverHappened:
        """Make an attempt impossible that nobody knows of, or learn that it has happened."""
        tries = _Tries()
        while True:
            await self._not_lost()
            answer = await line.ask(words.TXN, settle(slot, self._lease))
            if isinstance(answer, dict):
                try:
                    told = settled(slot, answer)
                except NotUnderstood:
                    pass
                else:
                    if isinstance(told, SlotGone):
                        raise self._lose(self._forgotten())
                    return told
            elif isinstance(answer, Refused):
                self._refused(answer, 0)
            await tries.pause()

    async def _show_failed(self, step: Transaction, told: Failed) -> None:
        """Raises CompareFailed once reads show what was compared as it is."""
        await self._shown(told.revision)
        for compare, found in zip(step.compares, told.found, strict=False):
            there = found.mod_revision if found else 0
            if there != compare.mod_revision:
                # Also if it went with a lease, which is no transaction.
                while there != self._mod_revision(compare.key) == compare.mod_revision:
                    await self._advance()
                raise CompareFailed(compare.key)

    def _mod_revision(self, key: str) -> int:
        entry = self.get(key)
        return 0 if entry is None else entry.mod_revision

    def _refused(self, answer: Refused, lease: int) -> None:
        """Something is not taken. Raises LeaseNotFound; CatalogLost, if it never will."""
        if answer.code == words.NOT_FOUND and "lease" in answer.message:
            raise LeaseNotFound(lease) if lease else self._lose(self._forgotten())
        why = refused(self.where, answer)
        if isinstance(why, NotNow):
            self._complain(str(why))
        elif answer.code != words.RESOURCE_EXHAUSTED or "larger" in answer.message:
            raise self._lose(why)

    def _complain(self, text: str) -> None:
        if self._refusal != text:
            logger.error("%s. Until then nothing is created, deleted or configured", text)
        self._refusal = text
        self._refused_at = trio.current_time()

    # leases -----------------------------------------------------------------------------------------------

    async def grant_lease(self, ttl_seconds: float) -> int:
        while True:
            told = await self._call(words.GRANT, {"TTL": str(math.ceil(ttl_seconds))})
            if lease := words.number(told, "ID"):
                return lease
            await trio.sleep(PAUSES[-1])  # a key that is put under none would stay for ever

    async def keep_alive(self, lease: int) -> None:
        told = await self._call(words.KEEP_ALIVE, {"ID": str(lease)}, renewal=True)
        if not words.number(told.get("result", {}), "TTL"):
            raise LeaseNotFound(lease)

    async def revoke(self, lease: int) -> None:
        await self._call(words.REVOKE, {"ID": str(lease)}, lease)
        while any(entry.lease == lease for entry in self.range("")):
            await self._advance()

    async def _call(self, path: str, body: Body, lease: int = 0, *, renewal: bool = False) -> Body:
        """The answer to what may be asked twice. A `renewal` waits for nothing else, and is soon asked of
        another member. Raises LeaseNotFound.
        """
        line, turn = (self._renewals, self._renewing) if renewal else (self._calls, self._calling)
        seconds = RENEWAL_SECONDS if renewal else ANSWER_SECONDS
        tries = _Tries()
        asked = False
        while True:
            await self._not_lost()
            async with turn:
                answer = await line.ask(path, body, seconds=seconds)
            if isinstance(answer, dict):
                return answer
            if isinstance(answer, Refused):
                if asked and answer.code == words.NOT_FOUND:
                    return {}  # it was done the last time
                self._refused(answer, lease)
            asked |= isinstance(answer, Unknown)
            await tries.pause()

    async def _have_lease(self) -> None:
        if not self._lease:
            async with self._leasing:
                if not self._lease:
                    self._lease = await self.grant_lease(SLOT_LEASE_SECONDS)

    # following --------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """See `Catalog`."""
        self._heard = trio.current_time()
        try:
            async with trio.open_nursery() as nursery:
                for worker in (self._follow, self._look, self._keep_lease):
                    nursery.start_soon(worker)
                while self._lost is None:
                    await self._advanced.wait()
                nursery.cancel_scope.cancel()
        except* trio.ClosedResourceError:
            if not isinstance(self._lost, trio.ClosedResourceError):
                raise
        if not isinstance(self._lost, trio.ClosedResourceError):
            raise self._lost

    async def _follow(self) -> None:
        line = self._etcd.line()
        tries = _Tries()
        while True:
            at = self._watched = self._etcd.member
            before, shown = self.revision, self._etcd.token
            try:
                reason = await self._follow_at(at)
            except Compacted:
                if not await self._load_anew(line):
                    await tries.pause()
                continue
            if self.revision != before:
                tries = _Tries()
            logger.debug("the watch of %s at %s ended: %s", self.where, self._etcd.names[at], reason)
            if self._etcd.has_user and words.says_no_token(reason):
                await self._authenticate(line, at, shown)
            else:
                self._etcd.failed(at, reason)
            await tries.pause()

    async def _authenticate(self, line: Line, member: int, refused: str) -> None:
        """Have another token for the watch than the one that was `refused`, if there is one to be had."""
        wrong = await self._etcd.authenticate(line, member, refused)
        if isinstance(wrong, Refused):
            self._refused(wrong, 0)
        elif wrong is not None:
            self._etcd.failed(member, wrong.reason)

    async def _follow_at(self, member: int) -> str:
        """Follow the watch of a member until it ends, or is behind the others; why. Raises Compacted."""
        following = Following(self.revision)
        self._behind = trio.Event()
        body = words.watch(self._names.everything, following.last + 1)
        lines = WatchLines(self._etcd, member)
        reason, compacted = "it is behind the others", False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_cancel_when, self._behind, nursery.cancel_scope)
            try:
                await lines.begin(body)
                while (told := await lines.next()) is not None:
                    for revision in following.line(told):
                        self._take(self._content.follow(revision))
                reason = "it has closed the connection"
            except (Broken, NotConnected, WatchEnded, NotUnderstood) as error:
                reason = str(error)
            except Compacted:
                compacted = True  # raised here it would come out in a group
            finally:
                lines.close()
            nursery.cancel_scope.cancel()
        if compacted:
            raise Compacted
        return reason

    async def _load_anew(self, line: Line) -> bool:
        """Read everything, as changes were forgotten that the mirror does not have; False: it is to be begun
        anew, with the watch.
        """
        try:
            newer = await load(self._etcd, line, self._names, self.where)
        except Unreachable:
            return False
        except NotNow as refusal:
            self._complain(str(refusal))
            return False
        except CatalogLost as lost:
            raise self._lose(lost) from None
        self._take(self._content.replace(newer))
        return True

    def _take(self, changes: list[Change] | WentBack) -> None:
        """The mirror has these. Raises CatalogLost."""
        if isinstance(changes, WentBack):
            raise self._lose(self._went_back())
        self._history.add(self.revision, changes)
        self._wake()

    async def _look(self) -> None:
        """Ask another member than that of the watch what a majority has, again and again."""
        line = self._etcd.line()
        count = len(self._etcd.names)
        member = 0
        silent = False
        while True:
            begun = trio.current_time()
            member = (member + 1) % count
            if member == self._watched and count > 1:
                member = (member + 1) % count
            await self._look_at(line, member, begun)
            silent = self._say(silent=silent)
            await trio.sleep_until(begun + LOOK_SECONDS)

    async def _look_at(self, line: Line, member: int, begun: float) -> None:
        sent = self._seen
        body = words.one(self._names.history)
        answer = await line.ask(words.RANGE, body, member=member, seconds=LOOK_SECONDS)
        if isinstance(answer, Refused):
            self._refused(answer, 0)
            return
        found = self._history_in(answer, sent) if isinstance(answer, dict) else None
        if found is None:
            return
        with trio.move_on_after(LAG_SECONDS):
            await self._shown(found.mod_revision)
        if self.sequence >= found.mod_revision:
            self._heard = begun
        else:
            self._behind.set()

    def _say(self, *, silent: bool) -> bool:
        """Tell people once that etcd is away, and once that it is there again; whether it is away."""
        away = trio.current_time() - self._heard > TROUBLE_SECONDS
        if away and not silent:
            logger.error(
                "%s. Records are written and read as before as long as nothing has to be changed in the"
                " catalog: until it is back nothing is created, deleted or configured, and partitions whose"
                " segments are full, or whose stores fail, take no more. It is tried again all the time",
                self.trouble,
            )
        elif silent and not away:
            logger.warning("the catalog %s is reached again", self.where)
        return away

    def _history_in(self, answer: Body, sent: Seen) -> Seen | None:
        """What a majority has after this gateway had `sent`, None if that is not told. Raises CatalogLost."""
        try:
            found = words.kvs(answer)
        except NotUnderstood:
            return None
        if not found or not has_gone_on(sent, seen_in(found[0])):
            raise self._lose(self._went_back())
        return seen_in(found[0])

    async def _keep_lease(self) -> None:
        while True:
            await trio.sleep(KEEP_SECONDS)
            if self._lease:
                try:
                    await self.keep_alive(self._lease)
                except LeaseNotFound:
                    raise self._lose(self._forgotten()) from None

    # ends -------------------------------------------------------------------------------------------------

    async def aclose(self) -> None:
        if isinstance(self._lost, trio.ClosedResourceError):
            return
        self._lose(trio.ClosedResourceError("the catalog is closed"))
        with trio.CancelScope(shield=True):
            if self._lease:
                async with self._calling:
                    await self._calls.ask(words.REVOKE, {"ID": str(self._lease)}, seconds=LAST_SECONDS)
        self._etcd.close()

    def _lose(self, error: Exception) -> Exception:
        """Nothing is done any more; the first reason counts."""
        if self._lost is None or isinstance(error, trio.ClosedResourceError):
            self._lost = error
            self._history.fail(error)
            self._wake()
        return self._lost

    def _went_back(self) -> CatalogLost:
        return CatalogLost(
            f"the catalog {self.where} is older than what this gateway has seen of it: it was restored from"
            f" an older copy, wiped, or is another one. {PUT_BACK}"
        )

    def _forgotten(self) -> CatalogLost:
        return CatalogLost(
            f"the catalog {self.where} was not reached for so long that etcd has forgotten what this gateway"
            " had begun: start it again. Nothing that was acknowledged is lost"
        )

    async def _not_lost(self) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._lost is not None:
            raise self._lost

    async def _shown(self, revision: int) -> None:
        """Return when reads show this revision."""
        while self.revision < revision:
            await self._not_lost()
            await self._advance()

    async def _advance(self) -> None:
        """Return when the mirror has changed, or nothing is to be done any more."""
        await self._advanced.wait()
        await self._not_lost()

    def _wake(self) -> None:
        self._advanced.set()
        self._advanced = trio.Event()


async def _cancel_when(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()
