"""The gateway's side of `dafka store accept-loss`: what it answers, over its socket.

`loss.plan` says what is given up with stores that are lost (`--gone`), `loss.accept` gives up exactly that,
and `loss.segments` says what the catalog knows of segments in a damaged log (`DIR`). The commands that ask
are in `lost_stores` and `damaged_log`; giving up itself is in `gateway.cluster.giving_up`.
"""

from collections.abc import Collection, Mapping
from typing import Any

from dafka.operators.alone import check_alone
from dafka.operators.socket import Handler, OperatorRefused
from gateway.broker import Broker
from gateway.catalog import keys
from gateway.cluster.giving_up import GivingUp, Plan
from gateway.cluster.stores import StoreRefused, Stores
from gateway.log.partition import Partition, PartitionState
from gateway.log.recovery.one_partition import named_transactions
from gateway.log.segment import Segment
from gateway.transactions.internal_topic import TRANSACTION_TOPIC

MAX_ASKED_SEGMENTS = 500
"""Segments asked about in one request."""


class LossRequestHandlers:
    """What one gateway does with the requests `loss.plan`, `loss.accept` and `loss.segments`."""

    def __init__(self, stores: Stores, broker: Broker) -> None:
        self._stores = stores
        self._broker = broker
        self._giving_up = GivingUp(broker)

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """The handlers, by what a request has as `do`."""
        return {
            "loss.plan": self._plan,
            "loss.accept": self._accept,
            "loss.segments": self._segments,
        }

    async def _plan(self, request: dict[str, Any]) -> dict[str, Any]:
        """What is given up with these stores. Nothing is changed."""
        gone = self._gone(request)
        return _told(await self._giving_up.plan(gone))

    async def _accept(self, request: dict[str, Any]) -> dict[str, Any]:
        """Give up what a plan named, if it is still that."""
        check_alone(self._broker, "giving up lost stores")
        gone = self._gone(request)
        plan = await self._giving_up.plan(gone)
        if request.get("token") != plan.token:
            raise OperatorRefused("it is no longer what was named: run the command again, and look at it")
        away = sorted({name for loss in plan.losses for name in loss.unanswered})
        if away:
            raise OperatorRefused(
                f"the stores {', '.join(away)} do not answer: start them, or name them as lost too"
            )
        if not plan.losses:
            raise OperatorRefused("no partition waits for these stores: there is nothing to give up")
        accepted_ms = self._broker.context.now_ms()
        for one in self._giving_up.named(plan):
            if one.topic.name == TRANSACTION_TOPIC:
                self._broker.transactions.lost_end(one.index)
        partitions = await self._giving_up.accept(gone, plan)
        # Who reads what is committed before a segment that is lost as a whole needs what it says of aborted
        # ones: with markers behind it he would be told an error where he waits now.
        whole = {(one.topic, one.partition) for one in plan.unreadable}
        others: list[Partition] = []
        if any(one.topic.name == TRANSACTION_TOPIC for one in partitions):
            others = [one for topic in self._broker.topics.all() for one in topic.partitions]
        aborted = await self._broker.after_loss.end(
            [one for one in partitions if (one.topic.name, one.index) not in whole],
            accepted_ms,
            [one for one in others if (one.topic.name, one.index) not in whole],
        )
        return {
            "partitions": [
                {
                    "partition": f"{one.topic.name}-{one.index}",
                    "serves": one.state is PartitionState.READY,
                    "end": one.high_watermark,
                    "reason": "" if one.state is PartitionState.READY else one.reason,
                    "open": named_transactions(one.producers.state.open_transactions()),
                    "aborted": named_transactions(dict(aborted.get((one.topic.name, one.index), ()))),
                }
                for one in partitions
            ]
        }

    def _gone(self, request: dict[str, Any]) -> Collection[str]:
        """The incarnations of the stores that are lost. Raises OperatorRefused: one of them is there."""
        names = request.get("gone")
        if not isinstance(names, list) or not names:
            raise OperatorRefused("no store is named that is lost")
        try:
            entries = [self._stores.find(str(name)) for name in names]
        except StoreRefused as error:
            raise OperatorRefused(str(error)) from None
        for entry in entries:
            if self._stores.live(entry.incarnation):
                raise OperatorRefused(f"store {entry.id} ({entry.name}) is there: it is not lost")
        return frozenset(entry.incarnation for entry in entries)

    async def _segments(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        """What the catalog knows of some segments, and which other stores keep them."""
        asked = request.get("addresses")
        if not isinstance(asked, list) or len(asked) > MAX_ASKED_SEGMENTS:
            raise OperatorRefused(f"a list of {MAX_ASKED_SEGMENTS} addresses at most is asked about")
        wanted, found = set(map(str, asked)), []
        for topic in self._broker.topics.all():
            for entry in self._broker.context.catalog.range(keys.segments_prefix(topic.id)):
                segment = Segment.unpack(entry.value)
                if segment.address in wanted:
                    index = int(entry.key.removeprefix(keys.SEGMENTS).split("/")[1])
                    found.append(self._segment(topic.name, index, segment, topic.partitions[index]))
        return found

    def _segment(self, topic: str, index: int, segment: Segment, partition: Any) -> dict[str, Any]:
        shown = segment.end_offset
        if shown is None and partition.state is PartitionState.READY:
            shown = partition.high_watermark
        return {
            "segment": segment.address,
            "topic": topic,
            "partition": index,
            "start": segment.start_offset,
            "end": shown,
            "stores": {member: self._stores.name(member) for member in segment.members},
        }


def _told(plan: Plan) -> dict[str, Any]:
    return {**plan.as_json, "token": plan.token}
