"""Topics that are created because a client asked about them (`auto.create.topics.enable`).

A Metadata request that names a missing topic is answered at once, as Kafka answers it: the topic is
unknown. Meanwhile the topic is created here, so that the client finds it when it asks again, a tenth of a
second later. The creation is this object's and not the connection's: it goes on when the client is gone.

Rule: a name is under way once, however many requests ask for it. Clients have their turns, one name at a
time, so that one which asks for thousands, in however many requests, does not keep the one name of another
waiting; and they share the places (`gateway.common.shares`). What finds no place is left out, and the answer
to it is the same; the client asks again.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from itertools import islice
from typing import TYPE_CHECKING, Final

import trio

from gateway.administration.topic_creation import (
    DEFAULT,
    MAX_PARTITIONS_PER_REQUEST,
    check_new_topic,
    create_topic,
)
from gateway.common.failures import ends_process
from gateway.common.log_limit import LogLimit, warn_once
from gateway.common.shares import Shares
from gateway.common.topic_names import CLUSTER_METADATA_TOPIC, invalid_topic_name, is_internal
from wireproto.kafka.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gateway.cluster.cluster import Cluster
    from gateway.quotas.client_quotas import Charges

MAX_UNDER_WAY: Final = 10_000
"""Topics that wait to be created automatically, of all clients together: some megabytes of names. One
client may take half of what others have left, so that there is room for whoever comes with a few."""

logger = logging.getLogger(__name__)


class AutomaticCreation:
    """The automatic creations of one gateway: `ask` takes names, `run` creates them one after the other."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._waiting: OrderedDict[str, deque[str]] = OrderedDict()
        """Names by the client that asked for them, in the order of the clients' turns."""
        self._under_way: set[str] = set()
        self._places = Shares(MAX_UNDER_WAY)
        self._work = trio.Event()
        self._defects = LogLimit(logger)

    @property
    def under_way(self) -> int:
        """Topics that are being created, or wait for it."""
        return len(self._under_way)

    def ask(self, client: str, names: Iterable[str], charges: Charges | None = None) -> None:
        """Have those of one request created that are missing and may be created; returns at once.

        client: who asks (`gateway.common.clients`); `charges`: by his quotas, what is too much is left out.
        Kafka's internal topics may not be created so. A request for more topics and partitions than
        MAX_PARTITIONS_PER_REQUEST creates none of them.
        """
        most = MAX_PARTITIONS_PER_REQUEST // (1 + self._cluster.settings.partitions)
        missing = list(islice(filter(self._is_missing, names), most + 1))
        if len(missing) > most:
            warn_once(
                logger,
                "more than %d missing topics of %d partitions each were not created automatically: one "
                "request may create no more than %d topics and partitions",
                most,
                self._cluster.settings.partitions,
                MAX_PARTITIONS_PER_REQUEST,
            )
            return
        places = self._places
        room = max(0, places.share(client) - places.held(client))
        taken = [name for name in missing if name not in self._under_way][:room]
        if charges is not None:
            partitions = self._cluster.settings.partitions
            taken = [name for name in taken if charges.may_change(partitions, strictly=True, waits=False)]
        if taken:
            self._under_way.update(taken)
            places.charge(client, len(taken))
            self._waiting.setdefault(client, deque()).extend(taken)
            self._work.set()

    def _is_missing(self, name: str) -> bool:
        """Whether a topic of this name could be created. A name that collides never can."""
        topics = self._cluster.topics
        if topics.get(name) is not None or not _may_be_created(name):
            return False
        if other := topics.collision(name):
            self._could_not(name, f"Topic '{name}' collides with existing topic: {other}")
            return False
        return True

    async def run(self) -> None:
        """Create what was asked for, for ever."""
        while True:
            await self._work.wait()
            while self._waiting:
                await trio.lowlevel.checkpoint()  # the checks of one topic take some time
                client, names = self._waiting.popitem(last=False)
                name = names.popleft()
                if names:
                    self._waiting[client] = names
                try:
                    await self._create(name)
                finally:
                    self._under_way.discard(name)
                    self._places.charge(client, -1)
            self._cluster.remember_soon()
            self._work = trio.Event()

    async def _create(self, name: str) -> None:
        # Other requests create and delete topics meanwhile: the name is looked up anew.
        try:
            await create_topic(self._cluster, check_new_topic(self._cluster, name, DEFAULT, DEFAULT, {}))
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                self._could_not(name, error.message)
        except Exception as error:
            if ends_process(error):
                raise
            self._defects.exception("a defect in the automatic creation of topic %s", name)

    @staticmethod
    def _could_not(name: str, why: str) -> None:
        warn_once(
            logger,
            "topic %s could not be created automatically: %s. (Others will not be mentioned.)",
            name,
            why,
        )


def _may_be_created(name: str) -> bool:
    return invalid_topic_name(name) is None and not is_internal(name) and name != CLUSTER_METADATA_TOPIC
