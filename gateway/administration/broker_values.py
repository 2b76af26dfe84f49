"""The broker configs that have a value of this gateway's own: DescribeConfigs calls them static."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.common.handlers import Request
from gateway.configs.broker_configs import broker_configs

if TYPE_CHECKING:
    from gateway.cluster.cluster import Cluster


def own_broker_configs(request: Request, broker: Cluster) -> dict[str, str]:
    """What differs from Kafka's defaults: values by config name.

    The addresses are those of the listener the request came in on.
    """
    host, port = request.local_address
    address = f"PLAINTEXT://{f'[{host}]' if ':' in host else host}:{port}"
    settings = broker.settings
    values: dict[str, str | None] = {
        "advertised.listeners": address,
        "auto.create.topics.enable": "true" if settings.auto_create_topics else "false",
        "broker.id": str(broker.node_id),
        "broker.rack": settings.rack or None,
        "controller.listener.names": "",
        "default.replication.factor": str(broker.stores.default_replication_factor),
        "delegation.token.expiry.time.ms": str(settings.delegation_token_expiry_time_ms),
        "delegation.token.max.lifetime.ms": str(settings.delegation_token_max_lifetime_ms),
        "group.initial.rebalance.delay.ms": str(settings.group_initial_rebalance_delay_ms),
        "group.max.session.timeout.ms": str(settings.group_max_session_timeout_ms),
        "group.max.size": str(settings.group_max_size),
        "group.min.session.timeout.ms": str(settings.group_min_session_timeout_ms),
        "inter.broker.listener.name": settings.gateway_listener or None,
        "listeners": address,
        "log.cleaner.backoff.ms": str(settings.compaction_backoff_ms),
        "log.retention.check.interval.ms": str(settings.retention_check_interval_ms),
        "max.incremental.fetch.session.cache.slots": str(settings.fetch_session_slots),
        "node.id": str(broker.node_id),
        "num.partitions": str(settings.partitions),
        "offsets.retention.minutes": str(settings.offsets_retention_minutes),
        "offsets.topic.replication.factor": str(broker.stores.default_replication_factor),
        "process.roles": "broker,controller",
    }
    defaults = broker_configs()
    return {
        name: value for name, value in values.items() if value is not None and value != defaults[name].default
    }
