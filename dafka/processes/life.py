"""One life of a gateway, whichever mesh it belongs to: its node, its catalog, the log, the listeners.

Order of a start: the catalog is opened -> it runs, signals and health -> no other process serves (where the
catalog is shared) -> the node runs -> the mesh is joined -> whose cluster it is -> the catalog is compared
with what the stores remember of it -> partitions are recovered -> groups begin to load -> topics that the
settings name are created -> listeners -> "ready". Where there are so many partitions that recovery takes long
the rest goes on without waiting for all of them.

Order of a stop: what it leads goes to other gateways, where there are some; listeners, answers in flight,
everything else, and last the catalog. A signal that comes before it serves ends it at once.

Two kinds of process have one: `dafka standalone`, whose store is in the same process, and `dafka gateway`,
whose stores are elsewhere. What differs between them is in the methods that are abstract here.
"""

from __future__ import annotations

import abc
import logging
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

import trio

from dafka.processes.doors import Doors
from dafka.processes.exposure import warn_of_open_listeners
from dafka.processes.freed_memory import give_back_freed_memory
from dafka.processes.garbage import look_for_garbage
from dafka.processes.health import Health, serve_health
from dafka.processes.loop_watch import LoopWatch
from dafka.processes.ready import say_ready
from dafka.processes.signals import watch_signals
from dafka.processes.survey import Survey
from dafka.processes.survey_metrics import register_survey
from dafka.processes.token_secret import read_token_secret
from dafka.settings import ServingSettings
from dafka.version import VERSION
from gateway.audit.audit import AUDIT, Audit
from gateway.audit.sinks import sink_of
from gateway.broker import Broker
from gateway.catalog.fenced import FencedCatalog
from gateway.cluster.cluster import NODE_ID
from gateway.cluster.features import Features
from gateway.cluster.remembering import COMPARED_SECONDS, Remembering, end_lives
from gateway.cluster.stores import Stores
from gateway.common.metrics import Metrics
from gateway.front.certificates import ClientAuth
from gateway.front.limits import Limits
from gateway.front.listener_sockets import ListenerSocket, open_listeners
from gateway.front.listeners import Listener
from gateway.front.principal_rules import PrincipalRules
from gateway.front.registry import load_apis
from gateway.front.server import Server
from gateway.front.sessions import PLAIN, Sessions
from gateway.http.view import Surroundings, View
from gateway.log.context import LogContext
from gateway.peers.opening import PeerSecurity
from gateway.security.principal import USER, Principal
from gateway.security.sasl_session import SaslSession
from gateway.security.scram import Hash
from mesh.links import Context
from mesh.native.subjects import NativeSubjects
from mesh.node import Node, Routes
from mesh.producer import Producer
from mesh.reader import Reader
from mesh.requests import Requests
from mesh.routing import gateway_routes
from wireproto.kafka.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from gateway.catalog.interface import Catalog
    from gateway.cluster.slot_leadership import SlotLeadership
    from gateway.front.key_set import KeySet
    from gateway.http.server import HttpServer

LAST_WORD_SECONDS = 0.5
"""How long a stop waits until the stores remember the catalog as it is left."""

LEAVE_SECONDS = 2.0
"""How long a stop waits for a catalog that is away."""

HAND_OVER_SECONDS = 5.0
"""How long a stop waits until others lead what this gateway led: a slot takes some milliseconds."""

RECOVERED_SECONDS = 0.5
"""How long clients wait for the recovery of all partitions before they are served with those that are there:
longer than some hundred partitions take, so that a usual start shows nobody a partition that is not ready."""

logger = logging.getLogger(__name__)


class Life(abc.ABC):
    """`run` serves until a signal. Raises what has an `exit_code` and says what to do (DataDirectoryRefused,
    ListenError, StoreFailed, CatalogFailed), possibly in an exception group. So does making one
    (BadTokenSecret).
    """

    life_name = ""
    """How all its addresses begin, 16 upper-case hex characters; "": a new name for each run."""

    def __init__(self, settings: ServingSettings, context: Context, catalog: Callable[[], Catalog]) -> None:
        self.settings = settings
        self._doors = Doors(settings)
        self.context = context
        self._token_secret = read_token_secret(settings.delegation_token_secret_file)
        self.metrics = Metrics()
        self._registry = load_apis()
        self.health = Health(self._lacks)
        self.loop_watch = LoopWatch()
        self.node = Node(context)
        self.requests = Requests(self.node, self.life_name)
        self.subjects = NativeSubjects(self.node, self.requests)
        self.producer = Producer(self.node, self.requests)
        self.reader = Reader(self.requests)
        self.catalog = FencedCatalog(catalog())
        self.features = Features(self.catalog, NODE_ID, VERSION)
        self.remembering: Remembering
        self._server: Server | None = None
        self.pages: HttpServer | None = None
        """The status page, where it is served."""
        self._scope = trio.CancelScope()
        self._stopping = trio.Event()
        self._has_left_catalog = False

    def _routes(self) -> Routes:
        return gateway_routes(self.requests, self.producer, self.subjects)

    @abc.abstractmethod
    async def _join(self, nursery: trio.Nursery) -> None:
        """Reach the stores: what it starts in `nursery` lives as long as the gateway."""

    @abc.abstractmethod
    async def _agree_on_cluster(self) -> tuple[str, Stores]:
        """Agree with the stores on the cluster: its id, and who they are. Raises DataDirectoryRefused if they
        differ.
        """

    async def _take_place(self, nursery: trio.Nursery) -> None:  # noqa: ARG002 - for those that share a catalog
        """Return when no other process serves as this gateway; what it starts in `nursery` lives as long."""
        await trio.lowlevel.checkpoint()

    async def _hand_over(self, broker: Broker) -> None:  # noqa: ARG002 - for those that share a catalog
        """Have other gateways lead what this one leads."""
        await trio.lowlevel.checkpoint()

    async def _give_place(self) -> None:
        """Let another process serve: nothing of this one is under way any more."""
        await trio.lowlevel.checkpoint()

    def _lacks(self) -> str | None:
        """Why it serves nobody although it has begun to; None: it does."""
        return None

    def _leadership(self) -> SlotLeadership | None:
        """What it leads, where it shares its catalog with other gateways."""
        return None

    async def _tell_address(self, broker: Broker, sockets: Sequence[ListenerSocket]) -> None:  # noqa: ARG002
        """Let other gateways tell clients how this one is reached."""
        await trio.lowlevel.checkpoint()

    async def _broker(self) -> Broker:
        cluster_id, stores = await self._agree_on_cluster()
        leadership = self._leadership()
        is_keeper = None if leadership is None else leadership.is_keeper
        self.remembering = Remembering(self.catalog, self.requests, cluster_id, is_keeper)
        context = LogContext(
            self.catalog,
            self.producer,
            self.reader,
            cluster_id=cluster_id,
            stores=stores,
            tail_cache_bytes=self.settings.tail_cache_bytes,
            copies=self.remembering,
            leadership=leadership,
        )
        security = PeerSecurity(
            {one.name: one.protocol for one in self.settings.listen},
            self.settings.tls_gateway_ca,
            self.settings.tls_certificate,
            self.settings.tls_key,
            self.settings.tls_certificate_password_file,
            self.settings.tls_ca_password_file,
        )
        return Broker(
            context,
            stores,
            self.settings,
            self.context.deliver,
            self.features,
            security,
            self._token_secret,
            self.subjects,
        )

    @abc.abstractmethod
    def _register_metrics(self, broker: Broker) -> None:
        """Show Prometheus what this kind of process knows."""

    async def _recover(self, broker: Broker, nursery: trio.Nursery) -> None:
        """Have the catalog compared with what the stores remember of it, then recover all partitions. Where
        there are so many that this takes long, those that are recovered are served meanwhile.
        """
        nursery.start_soon(self.remembering.run)
        with trio.move_on_after(COMPARED_SECONDS) as waited:
            await self.remembering.wait_compared()
        if waited.cancelled_caught:
            logger.warning(
                "too few stores have said whether this catalog is the newest: what is there is served, and "
                "nothing is created or deleted until they have"
            )
        if broker.leading is not None:
            # Takes as long as some transactions in the catalog; a start has waited for that before.
            await broker.leading.wait_looked()
        recovered = trio.Event()

        async def recover() -> None:
            await broker.recover()
            recovered.set()

        nursery.start_soon(recover)
        with trio.move_on_after(RECOVERED_SECONDS) as waited:
            await recovered.wait()
        if waited.cancelled_caught:
            logger.info("what is recovered is served while the rest is: what clients ask for comes first")

    async def run(self) -> None:
        """Start everything, serve until a signal, stop in order."""
        async with trio.open_nursery() as outer:
            # What is under way in the catalog comes to its end before that stops.
            outer.start_soon(self.catalog.run)
            outer.start_soon(self._leave_catalog)
            try:
                await self._run()
            except* trio.ClosedResourceError:
                if not self._has_left_catalog:
                    raise
            if not self._has_left_catalog:
                await self._give_place()
            outer.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await self.catalog.aclose()

    async def _note_end(self) -> None:
        """It stops, whether it was told to or failed."""
        try:
            await trio.sleep_forever()
        finally:
            self._stopping.set()

    async def _leave_catalog(self) -> None:
        """A stop does not wait for a catalog that is away: what is under way there is settled, and whoever
        starts next finds it done, or not.
        """
        await self._stopping.wait()
        while True:
            await trio.sleep(LEAVE_SECONDS)
            if self.catalog.trouble:
                break
        logger.warning("stopping although %s", self.catalog.trouble)
        self._has_left_catalog = True
        await self.catalog.aclose()

    async def _run(self) -> None:
        with self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._note_end)
                await self._watch(nursery)
                self.features.read()
                await self._take_place(nursery)
                await end_lives(self.catalog)
                self.node.route(self._routes())
                nursery.start_soon(self.context.run)
                await nursery.start(self.node.run)
                nursery.start_soon(self.producer.run)
                nursery.start_soon(self.reader.run)
                await self._join(nursery)
                broker = await self._broker()
                self.node.on_drained(broker.completions.settle)
                nursery.start_soon(broker.run)
                self._register_metrics(broker)
                await self._serve_pages(broker, nursery)
                if self.settings.metrics is not None:
                    survey = Survey(broker, by_partition=self.settings.metrics_by_partition)
                    register_survey(self.metrics, survey)
                    nursery.start_soon(survey.run)
                await self._recover(broker, nursery)
                nursery.start_soon(broker.groups.run)
                nursery.start_soon(broker.transactions.run)
                if self.remembering.compared.is_set():
                    await self._create_topics(broker)
                else:
                    # What is there is served meanwhile.
                    nursery.start_soon(self._create_topics, broker)
                await self._serve(broker)
                if self.remembering.compared.is_set():
                    await self.remembering.keep(LAST_WORD_SECONDS)
                nursery.cancel_scope.cancel()

    async def _watch(self, nursery: trio.Nursery) -> None:
        """Signals and health, from the first moment on."""
        self.loop_watch.install(self.metrics)
        nursery.start_soon(give_back_freed_memory)
        nursery.start_soon(look_for_garbage)
        await nursery.start(watch_signals, self._stop, self._doors.read_again)
        self._doors.register(self.metrics)
        nursery.start_soon(self._doors.run)
        if self.settings.metrics is not None:
            pages = await open_listeners([self.settings.metrics], "--metrics")
            await nursery.start(serve_health, pages, self.health, self.metrics, self._doors.metrics)

    async def _serve_pages(self, broker: Broker, nursery: trio.Nursery) -> None:
        """The status page, from before the recovery on: it says what that waits for."""
        spec = self.settings.http
        if spec is None:
            return
        view = View(
            broker,
            self.metrics,
            lambda: self._server,
            surroundings=self._surroundings(),
            hide_values=self.settings.http_no_values,
            data=self.settings.http_data,
        )
        from gateway.http.server import HttpServer  # only who serves a page loads it

        self.pages = HttpServer(spec, view, self._doors.http)
        await nursery.start(self.pages.serve, await open_listeners([spec], "--http"))

    def _surroundings(self) -> Surroundings:
        """What the status page shows besides what the gateway knows."""
        return Surroundings(
            role="gateway",
            version=VERSION,
            not_ready_because=lambda: self.health.not_ready_because,
            longest_stretch=self.loop_watch.longest,
            long_stretches=lambda: self.loop_watch.long,
        )

    def _stop(self) -> None:
        self.health.not_ready("stopping")
        self._stopping.set()
        if self._server is None:
            self._scope.cancel()

    async def _create_topics(self, broker: Broker) -> None:
        """Those of the settings that are not there, once the catalog is compared."""
        await self.remembering.wait_compared()
        for name, partitions in self.settings.topics:
            if broker.topics.get(name) is None:
                copies = broker.stores.default_replication_factor
                try:
                    await broker.create_topic(name, partitions, {}, copies)
                except KafkaError as error:
                    if error.code is ErrorCode.POLICY_VIOLATION:
                        logger.error("topic %s of the settings is not created: %s", name, error.message)
                    elif error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                        raise

    def _say_ready(self, sockets: Sequence[ListenerSocket]) -> None:
        """Clients can connect from now on."""
        say_ready(sockets)

    async def _shut_down(self, server: Server, broker: Broker) -> None:
        """Once it is to stop: clients are served until others lead what they ask for."""
        await self._stopping.wait()
        with trio.move_on_after(HAND_OVER_SECONDS) as waited:
            await self._hand_over(broker)
        if waited.cancelled_caught:
            logger.warning(
                "not all that this gateway leads is led by others yet: they take it when it is gone"
            )
        server.shut_down()

    def _key_set(self) -> KeySet | None:
        """With which tokens are signed, if they count."""
        address = self.settings.oauth_keys
        if not address:
            return None
        from gateway.front.key_set import KeySet, load_from  # only who takes tokens loads it

        return KeySet(load_from(address), address)

    async def _sessions(self, broker: Broker, key_set: KeySet | None) -> Sessions:
        """How clients of listeners with SASL come in."""
        settings = self.settings
        validate = None
        if key_set is not None:
            from gateway.security.web_tokens import Expected, Validator  # as above

            expected = Expected(
                settings.oauth_audience,
                settings.oauth_issuer,
                settings.oauth_subject_claim,
                settings.oauth_clock_skew_seconds,
            )
            validate = Validator(key_set.key_of, expected).validate
        secret = await broker.scram_users.secret()
        reauth_ms = settings.connections_max_reauth_ms
        known = broker.delegation_tokens.known
        mechanisms = settings.sasl_enabled_mechanism
        return Sessions(broker.scram_users, secret, reauth_ms, mechanisms, validate, known)

    def _audit(self, broker: Broker) -> Audit | None:
        """What tells auditors, if anybody wants to know."""
        if not self.settings.audit:
            return None
        audit = Audit(sink_of(self.settings.audit), required=self.settings.audit_required)
        broker.acls.denied = audit.denied
        broker.changes.forbidden = lambda: audit.trouble
        self.metrics.register(AUDIT, audit)
        return audit

    def _answer(self) -> None:
        """Have clients answered, unless this process lacks what it serves with."""
        if self._server is not None:
            (self._server.resume if self._lacks() is None else self._server.suspend)()

    async def _answer_once_compared(self) -> None:
        """The stores may say only after the start whether the catalog is the newest."""
        await self.remembering.wait_compared()
        self._answer()

    async def _serve(self, broker: Broker) -> None:
        sockets = await open_listeners(self.settings.listen)
        warn_of_open_listeners(
            self.settings.listen,
            has_acls=broker.acls.is_on,
            asks_certificates=ClientAuth(self.settings.tls_client_auth) is ClientAuth.REQUIRED,
        )
        await self._tell_address(broker, sockets)
        certificates = self._doors.certificates
        key_set = self._key_set()
        begin_session: Callable[[Listener], SaslSession | None] = _without_sasl
        if any(one.protocol.has_sasl for one in self.settings.listen):
            begin_session = (await self._sessions(broker, key_set)).begin
        audit = self._audit(broker)
        server = self._server = Server(
            registry=self._registry,
            broker=broker,
            metrics=self.metrics,
            limits=Limits(max_client_connections=self.settings.max_client_connections),
            produce_gate=broker.context.window_gate,
            hurry=broker.wake_parked,
            begin_session=begin_session,
            tls_of=lambda listener: (
                certificates.context if certificates is not None and listener.protocol.has_tls else None
            ),
            principal_rules=PrincipalRules(self.settings.tls_principal_rules),
            grant=broker.acls.grant,
            audit=audit,
            quotas=broker.quotas.clients,
            connection_rates=broker.quotas.connections,
            places=broker.quotas.places,
        )
        broker.scram_users.on_revoked(partial(_revoke, server))
        broker.delegation_tokens.on_revoked(server.revoke_token)
        self._answer()
        async with trio.open_nursery() as nursery:
            if audit is not None:
                nursery.start_soon(audit.run)
            if key_set is not None:
                await nursery.start(key_set.run)
            nursery.start_soon(self._answer_once_compared)
            nursery.start_soon(self._shut_down, server, broker)
            nursery.start_soon(_wake_parked, server, broker)
            await nursery.start(_serve_clients, server, sockets, nursery)
            self.health.ready()
            self._say_ready(sockets)


def _without_sasl(_listener: Listener) -> SaslSession | None:
    """Nobody is asked who he is."""
    return None


def _revoke(server: Server, user: str, kinds: Collection[Hash]) -> None:
    """A user was deleted, or has another password. PLAIN takes whichever there is."""
    server.revoke(Principal(USER, user), {PLAIN, *(kind.value for kind in kinds)})


async def _wake_parked(server: Server, broker: Broker) -> None:
    await server.context.shutting_down.wait()
    broker.wake_parked()
    broker.groups.stop()
    broker.transactions.stop()


async def _serve_clients(
    server: Server,
    sockets: list[ListenerSocket],
    nursery: trio.Nursery,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    await server.serve(sockets, task_status=task_status)
    nursery.cancel_scope.cancel()
