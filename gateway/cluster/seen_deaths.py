"""Finds out that another gateway's process is gone, before its lease is over.

The system closes the connections of a process that ends, and refuses new ones. So a gateway whose link goes
down, or that ends a connection by which it is asked (`gateway.peers`), and whose port on the mesh refuses
`ATTEMPTS` connections, is **missed**: each that finds so puts a key under its
own lease (`/missed/<gateway>/<by>`). Whom most of the others miss loses its place: one of them deletes the
key that says that it is alive, and everything goes on as if its lease were over. A machine that is gone, or
cut off, refuses nothing: there the lease decides.

Rule: nothing about data depends on who is right. A gateway that is taken for dead and is not finds its
transactions refused (`gateway.catalog.fenced`), and what it would acknowledge is refused by the stores; it
ends, and is started again. What is compared is the key of the very life that was missed.

A node's id on the mesh begins with its gateway's life, so nobody has to be told which is whose.
"""

from __future__ import annotations

import logging
import math
import socket
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import trio

from gateway.catalog import keys
from gateway.catalog.interface import Compare, CompareFailed, HistoryLost, unchanged
from gateway.leadership.deaths import missed_by_most
from gateway.leadership.records import AliveRecord, BadRecord, pack_alive, unpack_alive
from mesh.protocol.address_state import life_of

if TYPE_CHECKING:
    from gateway.catalog.interface import Catalog, Entry
    from gateway.cluster.alive import Alive
    from mesh.protocol.endpoints import Endpoint

ATTEMPTS: Final = 3
"""Connections that are refused, one after the other, before a process counts as gone."""

ATTEMPT_SECONDS: Final = 0.1
"""Between two of them."""

ANSWER_SECONDS: Final = 0.5
"""How long each may take: where nobody refuses, nothing is known."""

AGAIN_SECONDS: Final = 1.0
"""Between two looks at one whose link is down, and that is not missed; or whose link is up, and that is."""

MOST_NODES: Final = 1000
"""Nodes whose links are down that are remembered: more than there are gateways."""

logger = logging.getLogger(__name__)


class SeenDeaths:
    """One gateway life's. `on_link` is told of the mesh's links, `on_closed` of other connections that ended;
    `run` has to run.
    """

    def __init__(
        self,
        catalog: Catalog,
        alive: Alive,
        gateway: int,
        is_gone: Callable[[Endpoint], Awaitable[bool]] | None = None,
    ) -> None:
        self._catalog = catalog
        self._alive = alive
        self._gateway = gateway
        self._is_gone = is_gone or refuses_connections
        self._down: dict[str, Endpoint] = {}
        """By life: where the node was whose link is down; of any node, gateways' or not."""
        self._up: dict[str, Endpoint] = {}
        """The same of those whose links are up."""
        self._suspected: dict[str, Endpoint] = {}
        """Those of them that are to be looked at once, or that refuse connections although the link is up."""
        self._changed = trio.Event()

    def on_link(self, node: str, endpoint: Endpoint, live: bool) -> None:
        """The link to a node has come up, or has gone down."""
        life = life_of(node)
        for known in (self._down, self._up, self._suspected):
            known.pop(life, None)
        known = self._up if live else self._down
        if len(known) < MOST_NODES:
            known[life] = endpoint
        self._changed.set()

    def on_closed(self, life: str) -> None:
        """A gateway has ended a connection, or its system has. Whether it is gone its port on the mesh says:
        clients' ports are closed by one that stops in order, too.
        """
        if (endpoint := self._up.get(life)) is not None:
            self._suspected[life] = endpoint
            self._changed.set()

    async def run(self) -> None:
        """Miss who is gone, and have those lose their places whom most miss, for ever."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._judge)
            while True:
                with trio.move_on_after(AGAIN_SECONDS if self._down or self._suspected else math.inf):
                    await self._changed.wait()
                self._changed = trio.Event()
                await self._look()

    # who is missed by this one ----------------------------------------------------------------------------

    async def _look(self) -> None:
        """At all whose links are down; and take back what is not so any more."""
        living = self._living()
        for gateway, life in living.items():
            endpoint = self._where(life)
            if endpoint is None or gateway == self._gateway:
                continue
            is_missed = self._misses(gateway, life)
            if is_missed and life in self._down:
                continue  # until its link is up again
            if not await self._is_gone(endpoint):
                self._suspected.pop(life, None)
            elif self._where(life) == endpoint and not is_missed:
                await self._miss(gateway, life)
        for nodes in (self._down, self._suspected):
            for life in nodes.keys() - set(living.values()):
                del nodes[life]  # no gateway, or none any more
        await self._take_back()

    def _where(self, life: str) -> Endpoint | None:
        """Where a gateway is to be looked at; None: there is no reason to."""
        return self._down.get(life) or self._suspected.get(life)

    def _misses(self, gateway: int, life: str) -> bool:
        there = self._catalog.get(keys.missed_key(gateway, self._gateway))
        return there is not None and _life_in(there) == life

    async def _miss(self, gateway: int, life: str) -> None:
        logger.warning("the process of gateway %d (life %s) is gone: it refuses connections", gateway, life)
        key = keys.missed_key(gateway, self._gateway)
        try:
            await self._alive.put(unchanged(self._catalog, [key]), {key: pack_alive(AliveRecord(life))})
        except CompareFailed:
            self._changed.set()  # an earlier life of this gateway has put one

    async def _take_back(self) -> None:
        for entry in self._catalog.range(keys.MISSED):
            found = keys.missed_in(entry.key)
            if found is None or found[1] != self._gateway or self._where(_life_in(entry)) is not None:
                continue
            try:
                await self._catalog.transact([Compare(entry.key, entry.mod_revision)], {}, [entry.key])
            except CompareFailed:
                self._changed.set()

    # who is missed by most --------------------------------------------------------------------------------

    async def _judge(self) -> None:
        """Whenever somebody misses somebody."""
        while True:
            at = self._catalog.revision
            await self._depose()
            try:
                async for _ in self._catalog.watch(keys.MISSED, at + 1):
                    await self._depose()
            except HistoryLost:
                continue

    async def _depose(self) -> None:
        missed: dict[int, dict[int, str]] = defaultdict(dict)
        for entry in self._catalog.range(keys.MISSED):
            if (found := keys.missed_in(entry.key)) is not None:
                missed[found[0]][found[1]] = _life_in(entry)
        for gateway, by in list(missed_by_most(self._living(), missed)):
            if by != self._gateway:
                continue
            key = keys.alive_key(gateway)
            there = self._catalog.get(key)
            if there is None or _life_in(there) != missed[gateway][by]:
                continue
            logger.warning("gateway %d is taken for dead, since most of the others miss it", gateway)
            try:
                await self._catalog.transact([Compare(key, there.mod_revision)], {}, [key])
            except CompareFailed:
                pass  # it lives again, or its lease is over

    def _living(self) -> dict[int, str]:
        living: dict[int, str] = {}
        for entry in self._catalog.range(keys.ALIVE):
            number = keys.gateway_in(entry.key)
            if number is not None and (life := _life_in(entry)):
                living[number] = life
        return living


def _life_in(entry: Entry) -> str:
    """The life that it names; "" where nobody can read it, which others say (`gateway.cluster.gateways`)."""
    try:
        return unpack_alive(entry.value).life
    except BadRecord:
        return ""


async def refuses_connections(endpoint: Endpoint) -> bool:
    """Whether nobody listens there, as its machine says several times."""
    for attempt in range(ATTEMPTS):
        if attempt:
            await trio.sleep(ATTEMPT_SECONDS)
        refused = False
        with trio.move_on_after(ANSWER_SECONDS):
            refused = await _refuses(endpoint)
        if not refused:
            return False
    return True


async def _refuses(endpoint: Endpoint) -> bool:
    family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
    with trio.socket.socket(family, socket.SOCK_STREAM) as connection:
        try:
            await connection.connect(endpoint)
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False
