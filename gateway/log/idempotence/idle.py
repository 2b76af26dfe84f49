"""Who of a partition's producers has been idle for longest, client by client.

Kept only by partitions that are full: others need it never. What it says costs no look at all producers:
when one writes nothing is noted here, and whoever turns out to have written since moves to the end. Who has
an open transaction is not idle.
"""

from collections import OrderedDict
from collections.abc import Mapping

from gateway.log.idempotence.greedy import greedy_client
from gateway.log.idempotence.producer import Producer


class IdleProducers:
    """The producers of one partition by their clients, each with the offset at which it was heard, as far as
    is known. (Not the time: what a recovery reads back is all of one moment.)
    """

    __slots__ = ("_by_client", "_producers")

    def __init__(self, producers: Mapping[int, Producer]) -> None:
        self._producers = producers
        self._by_client: dict[str, OrderedDict[int, int]] = {}
        for producer_id, producer in producers.items():
            if not producer.has_open:
                self.add(producer_id, producer)

    def add(self, producer_id: int, producer: Producer) -> None:
        """This one is new, or its transaction has ended."""
        self._by_client.setdefault(producer.client, OrderedDict())[producer_id] = producer.last_offset

    def remove(self, producer_id: int, producer: Producer) -> None:
        """This one is forgotten, or has begun a transaction."""
        of_client = self._by_client[producer.client]
        del of_client[producer_id]
        if not of_client:
            del self._by_client[producer.client]

    def longest(self, client: str) -> int | None:
        """The producer that this client used longest ago, about; None if it has none."""
        of_client = self._by_client.get(client)
        if of_client is None:
            return None
        while True:
            producer_id, heard = next(iter(of_client.items()))
            last_offset = self._producers[producer_id].last_offset
            if last_offset == heard:
                return producer_id
            of_client[producer_id] = last_offset
            of_client.move_to_end(producer_id)

    def greedy_client(self) -> str | None:
        """The client that has half of the producers here, or more."""
        return greedy_client(self._by_client, len(self._producers))
