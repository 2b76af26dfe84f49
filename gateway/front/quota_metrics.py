"""What is shown of quotas: who is throttled is not told, since clients choose their ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from gateway.common.metrics import Counter, Figure, Gauge
from gateway.quotas.client_quotas import ClientQuotas, Throttled
from gateway.quotas.connection_rates import ConnectionRates
from gateway.quotas.entities import CONNECTIONS


class Quotas(NamedTuple):
    """Those of one gateway."""

    clients: ClientQuotas
    connections: ConnectionRates

    @property
    def throttled(self) -> Mapping[str, Throttled]:
        """By Kafka's name of the quota."""
        return {**self.clients.throttled, CONNECTIONS: self.connections.throttled}


QUOTAS: Final[Sequence[Figure[Quotas]]] = (
    Counter(
        "dafka_throttled_total",
        "Requests whose connection was not read for a while, and connections that came too fast, by quota.",
        lambda quotas: {(key,): one.times for key, one in quotas.throttled.items()},
        ("quota",),
    ),
    Counter(
        "dafka_throttled_seconds_total",
        "For how long, all of them together, by quota.",
        lambda quotas: {(key,): one.milliseconds / 1_000 for key, one in quotas.throttled.items()},
        ("quota",),
    ),
    Gauge(
        "dafka_quota_meters",
        "Users, client ids and addresses whose use is kept, since a quota is for them.",
        lambda quotas: quotas.clients.measured + quotas.connections.measured,
    ),
)
