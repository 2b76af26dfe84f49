"""Topics that are created because a client asked about them (`auto.create.topics.enable`).

A Metadata request that names a missing topic is answered at once, as Kafka answers it: the topic is
unknown. Meanwhile the topic is created here, so that the client finds it when it asks again, a tenth of a
second later. The creation is this object's and not the connection's: it goes on when the client is gone.

Rule: a name is under way once, however many requests ask for it. Requests have their turns: one with
thousands of names does not keep the one name of another waiting. What finds no place is left out, and the
answer to it is the same; the client asks again.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Final

import trio

from gateway.administration.topic_creation import (
    DEFAULT,
    MAX_PARTITIONS_PER_REQUEST,
    TakenNames,
    check_new_topic,
    create_topic,
)
from gateway.common.failures import DiskFailed
from gateway.common.log_limit import warn_once
from gateway.common.topic_names import CLUSTER_METADATA_TOPIC, invalid_topic_name, is_internal
from wireproto.kafka.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gateway.cluster.cluster import Cluster

MAX_UNDER_WAY: Final = 10_000
"""Topics that wait to be created automatically, of all requests together: some megabytes of names. More are
left to the client's next request."""

logger = logging.getLogger(__name__)


class AutomaticCreation:
    """The automatic creations of one gateway: `ask` takes names, `run` creates them one after the other."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._requests: deque[deque[str]] = deque()
        """What is left of each request, in the order of their turns."""
        self._under_way: set[str] = set()
        self._work = trio.Event()

    @property
    def under_way(self) -> int:
        """Topics that are being created, or wait for it."""
        return len(self._under_way)

    def ask(self, names: Iterable[str]) -> None:
        """Have those of one request created that are missing and may be created; returns at once.

        Kafka's internal topics may not. A request for more topics and partitions than
        MAX_PARTITIONS_PER_REQUEST creates none of them.
        """
        missing = [name for name in names if self._cluster.topics.get(name) is None and _may_be_created(name)]
        partitions = self._cluster.settings.partitions
        if len(missing) * (1 + partitions) > MAX_PARTITIONS_PER_REQUEST:
            warn_once(
                logger,
                "%d missing topics of %d partitions each were not created automatically: one request may "
                "create no more than %d topics and partitions",
                len(missing),
                partitions,
                MAX_PARTITIONS_PER_REQUEST,
            )
            return
        new = [name for name in missing if name not in self._under_way]
        taken = deque(new[: MAX_UNDER_WAY - len(self._under_way)])
        if taken:
            self._under_way.update(taken)
            self._requests.append(taken)
            self._work.set()

    async def run(self) -> None:
        """Create what was asked for, for ever."""
        while True:
            await self._work.wait()
            while self._requests:
                await trio.lowlevel.checkpoint()  # the checks of one topic may take a millisecond
                names = self._requests.popleft()
                name = names.popleft()
                if names:
                    self._requests.append(names)
                try:
                    await self._create(name)
                finally:
                    self._under_way.discard(name)
            self._work = trio.Event()

    async def _create(self, name: str) -> None:
        # Other requests create and delete topics meanwhile: the names are looked up anew for each.
        taken = TakenNames(self._cluster)
        try:
            new = check_new_topic(self._cluster, taken, name, DEFAULT, DEFAULT, {})
            await create_topic(self._cluster, taken, new)
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                warn_once(
                    logger,
                    "topic %s could not be created automatically: %s. (Others will not be mentioned.)",
                    name,
                    error.message,
                )
        except (DiskFailed, BaseExceptionGroup):
            raise
        except Exception:
            logger.exception("a defect in the automatic creation of topic %s", name)


def _may_be_created(name: str) -> bool:
    return invalid_topic_name(name) is None and not is_internal(name) and name != CLUSTER_METADATA_TOPIC
