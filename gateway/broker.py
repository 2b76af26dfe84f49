"""What handlers see of the gateway: its cluster, and what serves clients of it."""

from __future__ import annotations

from collections.abc import Callable

import trio

from gateway.administration.automatic_creation import AutomaticCreation
from gateway.cluster.cluster import Cluster
from gateway.cluster.features import Features
from gateway.cluster.gateways import SharedGateways
from gateway.cluster.stores import Stores
from gateway.common.settings import LogSettings
from gateway.fetch.sessions import FetchSessions
from gateway.groups.coordinator import Coordinator
from gateway.log.context import LogContext
from gateway.native.publishing import Publishing
from gateway.native.topics import NativeTopics
from gateway.peers.log_ends import LogEnds
from gateway.peers.opening import Opening, PeerSecurity
from gateway.peers.peers import Peers
from gateway.produce.coming import Coming
from gateway.security.delegation_tokens import TokenSecret
from gateway.transactions.after_loss import AfterLoss
from gateway.transactions.coordinator import TransactionCoordinator
from gateway.transactions.local_markers import LocalMarkers
from gateway.transactions.marker_routes import MarkerRoutes
from gateway.transactions.verifier import Verifier
from mesh.native.subjects import NativeSubjects


class Broker(Cluster):
    """One gateway, as Kafka clients know it."""

    def __init__(
        self,
        context: LogContext,
        stores: Stores,
        settings: LogSettings,
        deliver: Callable[[], None],
        features: Features | None = None,
        peer_security: PeerSecurity = PeerSecurity(),  # noqa: B008 - it is a tuple
        token_secret: TokenSecret | None = None,
        subjects: NativeSubjects | None = None,
    ) -> None:
        super().__init__(context, stores, settings, deliver, features, token_secret)
        self.fetch_sessions = FetchSessions(settings.fetch_session_slots)
        self.groups = Coordinator(self, settings)
        self.automatic_creation = AutomaticCreation(self)
        self.following.on_deleted(self.groups.expiry.topic_deleted)
        self.peers = (
            Peers(
                self.gateways,
                self.node_id,
                settings.gateway_listener,
                Opening(self.node_id, peer_security, self.scram_users.secret).open,
            )
            if isinstance(self.gateways, SharedGateways)
            else None
        )
        """Where there are several gateways."""
        self.markers_here = LocalMarkers(self, self.groups)
        self.marker_routes = MarkerRoutes(self, self.markers_here, self.peers)
        self.transactions = TransactionCoordinator(self, self.marker_routes)
        self.after_loss = AfterLoss(self.transactions, self.markers_here.write)
        self.verifier = Verifier(self.transactions, self.peers)
        self.coming = Coming()
        if self.leading is not None:
            self.leading.on_moved(self.groups.moved)
            self.leading.on_moved(self.transactions.moved)
        self.log_ends = LogEnds(self.gateways, self.peers)
        self.native = None if subjects is None else NativeTopics(self, subjects)
        """Native records on their way into topics."""
        self.publishing = None if subjects is None else Publishing(self, subjects.requests)
        """Topics whose values native programs can read."""

    async def run(self) -> None:
        """The background work of the log, on topics, and with other gateways, for ever. Groups have their own
        (`groups.run`), and so have transactions (`transactions.run`).
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(super().run)
            nursery.start_soon(self.automatic_creation.run)
            nursery.start_soon(self.after_loss.run)
            if self.native is not None:
                nursery.start_soon(self.native.run)
            if self.publishing is not None:
                nursery.start_soon(self.publishing.run)
            if self.peers is not None:
                nursery.start_soon(self.peers.run)
                nursery.start_soon(self.log_ends.run)
                nursery.start_soon(self.marker_routes.run)
                nursery.start_soon(self.verifier.run)
