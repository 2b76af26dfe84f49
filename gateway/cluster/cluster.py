"""What a gateway knows of its cluster, and the few things that change it: topics, configs, users, ACLs."""

import logging
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Protocol, TypeVar

import trio

from gateway.catalog import keys
from gateway.catalog.interface import Compare, CompareFailed
from gateway.cluster.acls import Acls
from gateway.cluster.changes import Changes
from gateway.cluster.delegation_tokens import DelegationTokens
from gateway.cluster.deletion import Deletion
from gateway.cluster.dynamic_configs import DynamicConfigs
from gateway.cluster.feature_levels import PREFERRED_LEADERS
from gateway.cluster.features import Decide, Features
from gateway.cluster.following import Following
from gateway.cluster.gateway_orders import IS_ALIVE, GatewayOrders, GatewayRefused
from gateway.cluster.gateways import OneGateway, SharedGateways
from gateway.cluster.leading import Leading
from gateway.cluster.native_addresses import NativeAddresses
from gateway.cluster.preferred_leaders import PreferredLeaders, Wish
from gateway.cluster.producer_id_owners import ProducerIdOwners
from gateway.cluster.quotas import made_quotas, place_limits
from gateway.cluster.replacement import Replacement
from gateway.cluster.scram_users import Change, Refusal, ScramUsers, Upsertion
from gateway.cluster.slot_leadership import SlotLeadership
from gateway.cluster.stores import Stores
from gateway.cluster.subject_names import SubjectNames
from gateway.cluster.topics import Topics, build_topic, load_topics, topic_record
from gateway.common.log_limit import LogLimit
from gateway.common.settings import LogSettings
from gateway.common.topic_names import is_internal
from gateway.configs.broker_validation import CLEANER_BACKOFF, parse_broker_integer
from gateway.leadership.slots import topic_id_for
from gateway.log.appends import Completions
from gateway.log.compaction.compactor import Compaction
from gateway.log.context import LogContext
from gateway.log.recovery.recovery import Recovery
from gateway.log.retention import Retention
from gateway.log.topic import Topic
from gateway.quotas.alteration import Values
from gateway.quotas.entities import Entity
from gateway.security.acls import Acl
from gateway.security.delegation_tokens import TokenSecret
from gateway.security.producer_ids import Whom
from wireproto.kafka.errors import ErrorCode, KafkaError

NODE_ID = 1
"""This gateway's node id: gateways have 1 to 999, stores start at 1000."""

KEPT_SECONDS = 1.0
"""How long an administrator's request waits for the stores to remember what it has changed, and the creation
of a topic for their word on the catalog."""

TOKENS_SWEPT_SECONDS = 3600.0
"""Between two looks for delegation tokens that are over; Kafka's
`delegation.token.expiry.check.interval.ms`."""

_Result = TypeVar("_Result")

ChangeConfigs = Callable[[Mapping[str, str]], dict[str, str]]
"""The configs that there are -> those that there shall be. Raises KafkaError."""


logger = logging.getLogger(__name__)


def _now_ms() -> int:
    """A clock that does not go back."""
    return int(trio.current_time() * 1_000)


class Parked(Protocol):
    """A Fetch that waits for records."""

    @property
    def client(self) -> str:
        """Whose it is (`gateway.common.clients`)."""

    def hurry(self) -> None:
        """Answer with what there is."""


class Cluster:
    """Made when the catalog is open and the stores are known; `recover` before it serves."""

    def __init__(
        self,
        context: LogContext,
        stores: Stores,
        settings: LogSettings,
        deliver: Callable[[], None],
        features: Features | None = None,
        token_secret: TokenSecret | None = None,
    ) -> None:
        leadership = context.leadership
        self.node_id = leadership.gateway if isinstance(leadership, SlotLeadership) else NODE_ID
        self.deliver = deliver
        """Hands what was just published to nodes in this process (`mesh.links.Context.deliver`)."""
        self.cluster_id = context.cluster_id
        self.settings = settings
        self.context = context
        self.stores = stores
        self.features = features or Features(context.catalog, self.node_id)
        self.features.read()
        self.scram_users = ScramUsers(context.catalog)
        self.producer_id_owners = ProducerIdOwners(context.catalog, self.scram_users)
        self.acls = Acls(context.catalog, settings)
        self.delegation_tokens = DelegationTokens(context.catalog, token_secret, settings, context.now_ms)
        self.quotas = made_quotas(context.catalog, settings, _now_ms)
        self.dynamic = DynamicConfigs(context.catalog, self.node_id)
        self.gateways: OneGateway | SharedGateways = OneGateway(self.node_id, settings.rack)
        if isinstance(leadership, SlotLeadership):
            leadership.read()  # partitions begin with their leader epochs
            self.gateways = SharedGateways(context.catalog, leadership, settings.rack)
        self.gateway_orders = (
            GatewayOrders(context.catalog, self.gateways)
            if isinstance(self.gateways, SharedGateways)
            else None
        )
        """Where there are several gateways."""
        self.topics: Topics = load_topics(context, self.dynamic.in_force)
        self.recovery = Recovery(context, accept_loss=settings.accept_loss)
        self.deletion = Deletion(context, stores, settings.delete_delay_ms / 1000)
        self.log_starts = context.log_starts
        self.replacement = Replacement(context, stores, self.topics)
        self.retention = Retention(context, self.topics, settings.retention_check_interval_ms)
        self.compaction = Compaction(context, self.topics, settings.compaction_backoff_ms)
        self.leading = (
            Leading(context, leadership, self.gateways, self.topics, self.recovery)
            if isinstance(leadership, SlotLeadership) and isinstance(self.gateways, SharedGateways)
            else None
        )
        """Where there are several gateways."""
        if self.leading is not None:
            for topic in self.topics.all():
                self.leading.place(topic.partitions)
        self.native_addresses = NativeAddresses(context.catalog)
        self.subject_names = SubjectNames()
        self.following = Following(
            context, self.topics, self.dynamic, stores, self.recovery, self.leading, self.features,
            {
                keys.SCRAM: self.scram_users,
                keys.ACLS: self.acls,
                keys.QUOTAS: self.quotas,
                keys.TOKENS: self.delegation_tokens,
                keys.NATIVE: self.native_addresses,
            },
        )  # fmt: skip
        self.following.on_configs(self._apply_dynamic)
        self.following.on_deleted(context.segments_dropped)
        self._apply_dynamic()
        self.completions = Completions()
        self.parked: set[Parked] = set()
        """Fetches that wait for records."""
        self.changes = Changes(context.catalog)
        self._too_few = LogLimit(logger, lines=1)
        self._closer_loaded = trio.Event()

    def wake_parked(self, client: str | None = None) -> None:
        """Have parked fetches answered at once, all or those of one client: the gateway stops, or others wait
        for their memory.
        """
        for waiter in tuple(self.parked):
            if client is None or waiter.client == client:
                waiter.hurry()

    async def recover(self) -> None:
        """Recover all partitions: afterwards all of them serve, or say why not. Groups need the gateway's own
        topics, so those come first.
        """
        topics = sorted(self.topics.all(), key=lambda topic: not topic.internal)
        partitions = [partition for topic in topics for partition in topic.partitions]
        self.load_ends()
        await self.recovery.recover(partitions)

    def load_ends(self) -> None:
        """Take up telling stores where segments end: before anything else is closed or deleted."""
        self.context.closer.load()
        self._closer_loaded.set()

    async def run(self) -> None:
        """The background work of the log, for ever."""
        async with trio.open_nursery() as nursery:
            for worker in (
                self.completions.run,
                self.context.opener.run,
                self.context.closer.run,
                self.context.cold.ahead.run,
                self.context.wake_ups.run,
                self.recovery.run,
                self.changes.run,
                self.following.run,
                self._sweep_tokens,
                *([] if self.leading is None else [self.leading.run]),
                self.retention.run,
                self.compaction.run,
            ):
                nursery.start_soon(worker)
            if self.stores.lives is not None:
                nursery.start_soon(self.stores.lives.run)
            # These look whose ends are yet to be heard: the closer has to know that first.
            await self._closer_loaded.wait()
            nursery.start_soon(self.deletion.run)
            nursery.start_soon(self.replacement.run)

    async def create_topic(
        self,
        name: str,
        partitions: int,
        configs: dict[str, str],
        replication_factor: int,
        *,
        feature: str = "",
        maker: str = "",
    ) -> Topic:
        """Make a topic, on the account of `maker` ("": nobody's); it serves at once. Raises KafkaError:
        TOPIC_ALREADY_EXISTS, or NOT_CONTROLLER: too few stores have vouched for the catalog yet; or
        POLICY_VIOLATION: the catalog is too large for a store, or there are too many partitions, or too many
        of the maker's; or
        UNSUPPORTED_VERSION: it needs a `feature`, which is not in effect.
        """
        await self._check_compared()
        self._check_size()

        async def create() -> Topic:
            if not is_internal(name):  # groups and transactions are kept there, however many others there are
                self.topics.check_room(maker, partitions)  # others may have been made meanwhile
            topic_id = topic_id_for(name, uuid.uuid4())
            in_force = self.dynamic.in_force
            topic = build_topic(
                self.context, name, topic_id, partitions, replication_factor, configs, in_force, maker
            )
            await self._create(topic, feature)
            return self.topics.get(name) or topic

        return await self.changes.make(create)

    async def _create(self, topic: Topic, feature: str = "") -> None:
        exists = KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists.")
        if self.topics.get(topic.name) is not None:
            raise exists
        key = keys.topic_key(topic.name)
        with self.following.making(topic):
            try:
                compares, puts = self.features.needed(feature) if feature else ([], {})
                puts = {key: topic_record(topic), **puts}
                await self.context.catalog.transact([Compare(key, 0), *compares], puts)
            except CompareFailed:
                await self.following.take()
                raise exists from None
            await self.following.take()

    async def add_partitions(self, topic: Topic, count: int, *, asker: str = "") -> None:
        """Have a topic of `count` partitions; the new ones serve at once. It is on the account of `asker`
        then ("": it stays on whose it is).

        Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION or INVALID_PARTITIONS when somebody else was faster;
        POLICY_VIOLATION: the catalog is too large for a store, or there would be too many partitions, or too
        many of the asker's.
        """
        self._check_size()
        await self.changes.make(partial(self._add_partitions, topic, count, asker))

    async def _add_partitions(self, topic: Topic, count: int, asker: str) -> None:
        self._check_there(topic)
        before = len(topic.partitions)
        if count <= before:
            raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {before} partition(s).")
        self.topics.check_growth(topic, asker, count)
        with self.following.making(topic):
            await self._put_topic(topic, topic_record(topic, partitions=count, maker=asker))
            await self.following.take()

    async def alter_topic(self, topic: Topic, change: ChangeConfigs) -> None:
        """Change a topic's configs; what takes effect does so for the next request.

        Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION, or what `change` raises.
        """
        await self.changes.make(partial(self._alter_topic, topic, change))

    async def _alter_topic(self, topic: Topic, change: ChangeConfigs) -> None:
        self._check_there(topic)
        configs = change(topic.configs)
        if configs == topic.configs:
            return
        await self._put_topic(topic, topic_record(topic, configs=configs))
        await self.following.take()

    async def alter_broker(self, node: int | None, change: ChangeConfigs) -> None:
        """Change the configs of this node (its id), or of all nodes of the cluster (None).

        Raises KafkaError: what `change` raises, and as `Changes.make`.
        """
        await self.changes.make(partial(self._alter_broker, node, change))

    async def _alter_broker(self, node: int | None, change: ChangeConfigs) -> None:
        try:
            await self.dynamic.alter(node, change)
        finally:
            await self.following.take()

    def _apply_dynamic(self) -> None:
        """Have broker configs take effect that are no topic's (`broker_validation.OWN_EFFECT`)."""
        backoff_ms = self.dynamic.in_force.get(CLEANER_BACKOFF)
        self.compaction.set_backoff(
            self.settings.compaction_backoff_ms
            if backoff_ms is None
            else parse_broker_integer(CLEANER_BACKOFF, backoff_ms)
        )
        self.quotas.places.limits = place_limits(self.dynamic.in_force)

    def _check_there(self, topic: Topic) -> None:
        if self.topics.get(topic.name) is not topic:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    async def _put_topic(self, topic: Topic, record: bytes) -> None:
        key = keys.topic_key(topic.name)
        try:
            await self.context.catalog.transact([Compare(key, topic.revision)], {key: record})
        except CompareFailed:
            await self.following.take()
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "another gateway has changed this topic") from None

    async def delete_topic(self, topic: Topic) -> None:
        """Delete a topic: gone for clients at once, from the stores' disks in the background.

        Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION when somebody else was faster.
        """
        await self.changes.make(partial(self._delete_topic, topic))

    async def _delete_topic(self, topic: Topic) -> None:
        self._check_there(topic)
        for partition in topic.partitions:
            partition.delete()
        await self.deletion.bury(topic)
        await self.following.take()

    async def alter_quotas(self, changes: Mapping[Entity, Values], addresses: Mapping[Entity, str]) -> None:
        """Have entities have other quotas; in force when this returns, on other gateways as soon as they
        follow. Raises KafkaError: as `Quotas.alter`, and as `Changes.make`.
        """
        await self.changes.make(partial(self._alter_quotas, changes, addresses))

    async def _alter_quotas(self, changes: Mapping[Entity, Values], addresses: Mapping[Entity, str]) -> None:
        await self.following.take()  # what others have set is seen
        try:
            await self.quotas.alter(changes, addresses)
        finally:
            await self.following.take()

    async def change_features(self, decide: Decide) -> None:
        """Have other levels of features in effect. Raises KafkaError: what `decide` raises, and as
        `Changes.make`.
        """
        await self.changes.make(partial(self._change_features, decide))

    async def _change_features(self, decide: Decide) -> None:
        try:
            await self.features.change(decide)
        finally:
            await self.following.take()

    async def change_tokens(
        self, change: Callable[[], Awaitable[_Result]], *, is_more: bool = False
    ) -> _Result:
        """Change delegation tokens; `is_more`: there is one more then. What any gateway did before this was
        called is seen.

        Raises KafkaError: what `change` raises, and as `Changes.make`; POLICY_VIOLATION: the catalog is too
        large for a store.
        """
        if is_more:
            self._check_size()
        return await self.changes.make(partial(self._change_tokens, change))

    async def _change_tokens(self, change: Callable[[], Awaitable[_Result]]) -> _Result:
        await self._catch_up()
        try:
            return await change()
        finally:
            await self.following.take()

    async def _sweep_tokens(self) -> None:
        """Delete delegation tokens that are over, for ever. Each gateway does so."""
        while True:
            await trio.sleep(TOKENS_SWEPT_SECONDS)
            try:
                while await self.change_tokens(self.delegation_tokens.sweep):
                    pass
            except KafkaError as error:
                logger.info("delegation tokens that are over are left for the next time: %s", error.message)

    async def alter_user(self, change: Change) -> Refusal | None:
        """Make, change or delete what is kept of a user's password; why that is refused.

        Raises KafkaError: as `Changes.make`; POLICY_VIOLATION: the catalog is too large for a store.
        """
        if isinstance(change, Upsertion):
            self._check_size()
        return await self.changes.make(partial(self._alter_user, change))

    async def _alter_user(self, change: Change) -> Refusal | None:
        await self.following.take()  # the users that others have made are counted
        try:
            return await self.scram_users.make(change)
        finally:
            await self.following.take()

    async def forget_gateway(self, number: int) -> None:
        """Have a gateway that is gone for good be known no more. Raises GatewayRefused, and as
        `Changes.make`.
        """
        if self.gateway_orders is not None:
            await self.changes.make(partial(self.gateway_orders.remove, number))
        elif number == self.node_id:
            raise GatewayRefused(ErrorCode.INVALID_REQUEST, IS_ALIVE.format(number))
        else:
            raise GatewayRefused(ErrorCode.BROKER_ID_NOT_REGISTERED, f"there is no gateway {number}")

    @property
    def preferred(self) -> PreferredLeaders | None:
        """Who is to lead which partitions, where there are several gateways."""
        return None if self.leading is None else self.leading.preferred

    async def prefer_leaders(self, wishes: Sequence[Wish]) -> list[KafkaError | None]:
        """Have certain of several gateways lead certain partitions; what is against each, as
        `gateway.cluster.preferred_leaders.PreferredLeaders.put`. Raises KafkaError: as `Changes.make`.
        """
        return await self.changes.make(partial(self._prefer_leaders, wishes))

    async def _prefer_leaders(self, wishes: Sequence[Wish]) -> list[KafkaError | None]:
        assert self.preferred is not None, "there is one gateway, which leads everything"
        await self.following.take()  # what others want is seen
        try:
            return await self.preferred.put(wishes, partial(self.features.needed, PREFERRED_LEADERS))
        finally:
            await self.following.take()

    async def create_acls(self, acls: Mapping[str, Acl]) -> None:
        """Have these, by their keys (`gateway.cluster.acls.key_of`); they are in force here then, and on
        other gateways as they follow.

        Raises KafkaError: as `Acls.create` and `Changes.make`; POLICY_VIOLATION: the catalog is too large
        for a store.
        """
        self._check_size()
        await self.changes.make(partial(self._create_acls, acls))

    async def _create_acls(self, acls: Mapping[str, Acl]) -> None:
        await self._catch_up()  # what is there already stays: that must be true
        try:
            await self.acls.create(acls)
        finally:
            await self.following.take()

    async def delete_acls(self, revisions: Mapping[str, int]) -> set[str]:
        """Delete the ACLs with these keys that are still as they were at these revisions; gives the keys of
        those that it has deleted. Raises KafkaError: as `Changes.make`.
        """
        return await self.changes.make(partial(self._delete_acls, revisions))

    async def _delete_acls(self, revisions: Mapping[str, int]) -> set[str]:
        try:
            return await self.acls.delete(revisions)
        finally:
            await self.following.take()

    async def catch_up(self) -> None:
        """Have in memory what was changed before this was called, by whichever gateway. Raises KafkaError: as
        `Changes.make`.
        """
        await self.changes.make(self._catch_up)

    async def _catch_up(self) -> None:
        await self.context.catalog.fresh()
        await self.following.take()

    async def remembered(self) -> None:
        """Wait until enough stores remember what was changed, so that it cannot be lost unnoticed with a
        catalog; but not for long: it is done.
        """
        if not await self.context.copies.keep(KEPT_SECONDS):
            self._too_few.warning(
                "too few stores remember the catalog as it is now: start those that are away, or what an "
                "administrator has changed may be lost unnoticed with this gateway's disk"
            )

    def remember_soon(self) -> None:
        """Have the stores remember what was changed, and do not wait for it."""
        self.context.copies.hurry()

    async def _check_compared(self) -> None:
        """Raises KafkaError: NOT_CONTROLLER, too few stores have vouched for the catalog yet."""
        with trio.move_on_after(KEPT_SECONDS) as waited:
            await self.context.copies.wait_compared()
        if waited.cancelled_caught:
            raise KafkaError(
                ErrorCode.NOT_CONTROLLER,
                "too few stores have said yet whether this gateway's catalog is the newest: start those that "
                "are away",
            )

    def _check_size(self) -> None:
        """Raises KafkaError: POLICY_VIOLATION, the catalog is larger than what stores keep of it."""
        if self.context.copies.is_full:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                "the catalog is too large for stores to keep a copy of it: delete topics, or configs that "
                "topics have of their own",
            )

    async def allocate_producer_id(self, whom: Whom) -> int:
        """A producer id that was never given before, over all lives; of use only to `whom`.

        Raises KafkaError: COORDINATOR_LOAD_IN_PROGRESS, too few stores remember the next ones yet, or the
        catalog is away.
        """
        await self.producer_id_owners.prepare()
        return self.producer_id_owners.bind(await self.context.producer_ids.allocate(), whom)
