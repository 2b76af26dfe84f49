"""Whose cluster a gateway serves: the catalog's, or at the very first start one that it makes.

Rule: an empty catalog on stores that have data is refused unless it is to be rebuilt from them; stores of
several clusters never make one; the cluster's key is the last thing that is written, so that a crash starts
it all over.
"""

import logging
import uuid
from typing import Protocol

import trio

from gateway.catalog.interface import Catalog, CompareFailed
from gateway.cluster.features import Features
from gateway.cluster.identity import cluster_entry, cluster_in, rebuild_catalog
from gateway.cluster.stores import Stores
from mesh.data_directory import DataDirectoryRefused
from mesh.protocol.presence import Seen
from mesh.reader import Reader

WAITING_LOGGED_SECONDS = 5.0
"""How often it is said for how many stores it waits."""

logger = logging.getLogger(__name__)


class FirstStartSettings(Protocol):
    """What can be set of it."""

    @property
    def stores(self) -> int:
        """Stores that are waited for, and become members."""

    @property
    def rebuild_catalog(self) -> bool:
        """Whether the catalog is to be read back from them."""

    @property
    def accept_loss(self) -> bool:
        """Whether to go on with what can be read then."""


class FirstStart:
    """`cluster_id` is asked for once, when the presence already runs."""

    def __init__(
        self,
        settings: FirstStartSettings,
        catalog: Catalog,
        stores: Stores,
        reader: Reader,
        features: Features,
    ) -> None:
        assert stores.presence is not None
        self._settings = settings
        self._catalog = catalog
        self._stores = stores
        self._presence = stores.presence
        self._reader = reader
        self._features = features

    async def cluster_id(self) -> str:
        """The cluster's id; without one in the catalog it waits for stores. Raises DataDirectoryRefused."""
        while True:
            known = cluster_in(self._catalog)
            if known is not None:
                self._stores.load()
                return known
            seen = await self._first_stores()
            # Where several gateways share the catalog another one may have made the cluster meanwhile.
            await self._catalog.fresh()
            if cluster_in(self._catalog) is None:
                try:
                    return await self._make_cluster(seen)
                except CompareFailed:
                    logger.info("another gateway makes the cluster at this moment")

    async def _make_cluster(self, seen: dict[str, Seen]) -> str:
        """The new cluster's id. Raises CompareFailed: another gateway was faster."""
        cluster_id = self._cluster_of(seen) or uuid.uuid4().hex
        if self._settings.rebuild_catalog:
            await rebuild_catalog(
                self._catalog,
                self._reader,
                list(seen),
                self._features.check,
                accept_loss=self._settings.accept_loss,
            )
        self._stores.load()
        there = {entry.incarnation for entry in self._stores.entries}  # of a catalog that was read back
        first = [(incarnation, one.name) for incarnation, one in seen.items() if incarnation not in there]
        features = self._features.of_new_cluster(rebuilt=self._settings.rebuild_catalog)
        await self._stores.admit(first, cluster_entry(cluster_id, features))
        return cluster_id

    async def _first_stores(self) -> dict[str, Seen]:
        """The first stores that are heard of, as many as are asked for."""
        wanted = self._settings.stores
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._say_what_is_missing)
            await self._presence.wait_for(lambda presence: len(presence.live_stores) >= wanted)
            nursery.cancel_scope.cancel()
        live = sorted(self._presence.live_stores, key=lambda one: (self._presence.name(one), one))
        return {incarnation: self._presence.seen[incarnation] for incarnation in live[:wanted]}

    async def _say_what_is_missing(self) -> None:
        while True:
            await trio.sleep(WAITING_LOGGED_SECONDS)
            names = sorted(self._presence.name(one) for one in self._presence.live_stores)
            logger.warning(
                "waiting for %d stores, %d are there%s: start them, or give --stores another number",
                self._settings.stores,
                len(names),
                f" ({', '.join(names)})" if names else "",
            )

    def _cluster_of(self, seen: dict[str, Seen]) -> str:
        """The cluster that these stores belong to already, "" if to none. Raises DataDirectoryRefused."""
        clusters = sorted({one.cluster_id for one in seen.values() if one.cluster_id})
        if len(clusters) > 1:
            raise DataDirectoryRefused(
                self._catalog.where,
                f"the stores belong to different clusters: {', '.join(clusters)}",
                "Stop those that are not meant, or give them empty data directories",
            )
        if clusters and not self._settings.rebuild_catalog:
            raise DataDirectoryRefused(
                self._catalog.where,
                f"the stores hold data of cluster {clusters[0]}, and the catalog that says what it is is "
                "empty or lost",
                self._catalog.put_back,
            )
        if not clusters and self._settings.rebuild_catalog:
            raise DataDirectoryRefused(
                self._catalog.where,
                "there is nothing in the stores that a catalog could be rebuilt from",
                "Start without --rebuild-catalog",
            )
        return clusters[0] if clusters else ""
