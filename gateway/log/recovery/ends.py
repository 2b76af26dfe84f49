"""Where the segments end that an earlier life has left open: n-w+1 members of each decide it, and w have it.

SEAL goes to the members of all of them; once enough have answered, and a moment for the others that are
there, the end is decided. Members that have less copy the rest from those that have it. Nothing is in the
catalog yet then, so it may all begin anew.
"""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

import trio

from gateway.log.recovery.store_waits import StoreWaits, Superseded
from gateway.log.recovery.verification import RESTORE, CatalogRefuted
from gateway.log.segment import Segment
from mesh.protocol.recovery import Seal
from wireproto.dafka.additions import STATUS_STALE_EPOCH

if TYPE_CHECKING:
    from gateway.log.context import LogContext

SOURCES_GONE_SECONDS = 15.0
"""How long a tail is waited for that only stores have which went since they told of it: above a restart."""


class Inconsistent(Exception):
    """Catalog and stores disagree; the text says how and what to do."""


class SourcesGone(Exception):
    """Whoever had the end that was decided is there no more, and the others can decide without it."""


class EndAgreement:
    """Agrees on the ends of these open segments of one partition. `epoch` is the partition's next one, above
    theirs. `run` does it, once.
    """

    def __init__(
        self,
        context: "LogContext",
        segments: Sequence[Segment],
        epoch: int,
        waits: StoreWaits,
        given_up: Collection[str],
    ) -> None:
        self._context = context
        self._epoch = epoch
        self._waits = waits
        self._segments = {segment.address: segment for segment in segments}
        self._seals = [
            Seal(segment.address, segment.members, segment.w, self._confirmed(segment))
            for segment in segments
        ]
        self.give_up(given_up)

    def give_up(self, stores: Collection[str]) -> None:
        """These stores will never answer again."""
        for seal in self._seals:
            seal.give_up(stores)

    async def run(self) -> dict[str, tuple[int, bytes]]:
        """The ends by address, each durable on w members: the last sequence, and its row.

        Raises Inconsistent, CatalogRefuted, SourcesGone, Superseded.
        """
        seals, requests = self._seals, self._context.producer.segments
        try:
            for seal in seals:
                requests.seal(seal, self._epoch, partial(self._answered, seal))
            for seal in seals:
                await self._sealed(seal)
            for seal in seals:
                await self._copied(seal)
        finally:
            for seal in seals:
                requests.unseal(seal.address)
        return {seal.address: seal.end() for seal in seals}

    def _answered(self, seal: Seal) -> None:
        if seal.decidable or seal.refused or seal.lost:
            self._waits.progressed()

    @staticmethod
    def _confirmed(segment: Segment) -> Collection[str]:
        if segment.announced and not segment.confirmed and len(segment.members) == 1:
            return segment.members
        return segment.confirmed

    async def _sealed(self, seal: Seal) -> None:
        """Wait until enough members have answered, and a moment for the others that are there."""
        asked_again: set[str] = set()

        def decided() -> bool:
            if seal.hopeless:
                self._say_hopeless(seal)
            for member, status in seal.refused.items():
                if status == STATUS_STALE_EPOCH:
                    raise CatalogRefuted(self._why_stale(seal, member))
                if member not in asked_again:
                    asked_again.add(member)
                    self._context.producer.segments.seal_again(
                        seal, self._epoch, member, partial_again(member)
                    )
            return seal.decidable

        def partial_again(member: str) -> Callable[[], None]:
            def told() -> None:
                asked_again.discard(member)
                self._waits.progressed()

            return told

        await self._waits.until(
            decided, lambda: (*seal.missing(), *seal.refused), lambda: self._why_refused(seal)
        )
        if seal.missing():
            live = self._context.stores.live
            await self._waits.a_moment(lambda: not any(map(live, seal.missing())))
        if not seal.known and not seal.has_given_up and self._segments[seal.address].announced:
            raise Inconsistent(f"segment {seal.address} was announced, and no store knows it")

    def _why_stale(self, seal: Seal, member: str) -> str:
        return (
            f"the catalog is older than store {self._context.stores.name(member)}, which has segment "
            f"{seal.address} with leader epoch {self._epoch} or a higher one, and in the catalog that one is "
            f"yet to come; {RESTORE}"
        )

    @staticmethod
    def _say_hopeless(seal: Seal) -> None:
        if not seal.known:
            raise Inconsistent(f"segment {seal.address} was announced, and no store knows it")
        lost = ", ".join(seal.lost)
        raise Inconsistent(f"segment {seal.address} was announced, and its stores {lost} have lost it")

    @staticmethod
    def _why_refused(seal: Seal) -> str:
        """For messages: which stores cannot seal it, "" for none."""
        refused = ", ".join(f"store {member} (status {status})" for member, status in seal.refused.items())
        cannot = f": segment {seal.address} cannot be sealed by {refused}; their own logs say why"
        return cannot if refused else ""

    async def _copied(self, seal: Seal) -> None:
        """Wait until w members have everything up to the end; those that lack something copy it."""
        if seal.enough:
            return
        end, _ = seal.end()
        under_way: dict[str, tuple[Sequence[str], trio.CancelScope]] = {}
        """Member -> whom it copies from."""

        async def copy(member: str, sources: Sequence[str], scope: trio.CancelScope) -> None:
            copier = self._context.copier
            with scope:
                if await copier.copy(member, seal.address, end, sources, wanted=lambda: not seal.enough):
                    seal.on_copied(member, end)
                    self._waits.progressed()

        started = trio.current_time()

        def enough() -> bool:
            holders = seal.holders()
            for member in seal.lacking():
                sources, scope = under_way.get(member, ((), trio.CancelScope()))
                if sources != holders:
                    # Whom it asked so far may be gone, and another one that has it has answered meanwhile.
                    scope.cancel()
                    under_way[member] = holders, trio.CancelScope()
                    nursery.start_soon(copy, member, *under_way[member])
            if trio.current_time() >= started + SOURCES_GONE_SECONDS and self._sources_are_gone(seal):
                raise SourcesGone
            return seal.enough

        stopped: Superseded | SourcesGone | None = None
        async with trio.open_nursery() as nursery:
            try:
                await self._waits.until(enough, lambda: (*seal.missing(), *seal.lacking()))
            except (Superseded, SourcesGone) as error:
                stopped = error
            nursery.cancel_scope.cancel()
        if stopped is not None:
            raise stopped

    def _sources_are_gone(self, seal: Seal) -> bool:
        stores = self._context.stores
        return not any(map(stores.live, seal.holders())) and stores.enough(seal.members, seal.needed)
