"""Whether a topic may be created as asked, and with what: for CreateTopics and for automatic creation.

The checks, their order and their words are those of `ReplicationControlManager.createTopic`; the limits on
the number of partitions are ours where Kafka has none.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gateway.common.log_limit import warn_once
from gateway.common.topic_names import invalid_topic_name, is_internal
from gateway.configs.broker_configs import NATIVE_TOPICS
from gateway.configs.checks import is_named
from gateway.configs.effective import effective_topic_configs
from gateway.configs.internal import new_internal_configs
from gateway.configs.validation import NATIVE_SUBJECT, check_native_partition, validate_topic_configs
from wireproto.kafka.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.cluster.cluster import Cluster
    from gateway.log.topic import Topic

MAX_PARTITIONS_PER_REQUEST: Final = 10_000
"""Topics and partitions that one request may create. Kafka 4's limit of records in one batch of its
metadata log (`QuorumController.MAX_RECORDS_PER_USER_OP`); a larger request is POLICY_VIOLATION as a
whole."""

DEFAULT: Final = -1
"""A number of partitions or a replication factor that the broker is to choose."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic that may be created."""

    name: str
    partitions: int
    replication_factor: int
    configs: dict[str, str]
    maker: str = ""


def check_new_topic(
    broker: Cluster,
    name: str,
    partitions: int,
    replication_factor: int,
    configs: Mapping[str, str | None],
    assignments: Sequence[tuple[int, Sequence[int]]] = (),
    maker: str = "",
) -> NewTopic:
    """The topic that is to be created, defaults filled in, on the account of `maker` ("": nobody's).

    `assignments` are (partition, broker ids) chosen by hand; then the two numbers have to be DEFAULT.
    Raises KafkaError: INVALID_TOPIC_EXCEPTION, TOPIC_ALREADY_EXISTS, INVALID_CONFIG,
    INVALID_REPLICATION_FACTOR, INVALID_PARTITIONS, INVALID_REPLICA_ASSIGNMENT, INVALID_REQUEST or
    POLICY_VIOLATION.
    """
    _check_name(broker, name)
    kept = _with_native_subject(broker, name, new_internal_configs(name, validate_topic_configs(configs)))
    if assignments:
        partitions, replication_factor = _check_assignments(
            broker, partitions, replication_factor, assignments
        )
    else:
        partitions, replication_factor = _check_numbers(broker, partitions, replication_factor)
    check_native_partition(kept, partitions)
    broker.subject_names.check(broker.topics, name, effective_topic_configs(kept))
    broker.topics.check_room(maker, partitions)
    return NewTopic(name, partitions, replication_factor, kept, maker)


async def create_topic(broker: Cluster, new: NewTopic) -> Topic:
    """Create it. Raises KafkaError: TOPIC_ALREADY_EXISTS when another client was faster."""
    if new.replication_factor > _store_count(broker):
        warn_once(
            logger,
            "topic %s keeps replication factor %d although there are fewer stores (%d), as asked for by "
            "--relax-replication-factor",
            new.name,
            new.replication_factor,
            _store_count(broker),
        )
    return await broker.create_topic(
        new.name, new.partitions, new.configs, new.replication_factor, maker=new.maker
    )


def _with_native_subject(broker: Cluster, name: str, configs: dict[str, str]) -> dict[str, str]:
    """The configs of a new topic, with its own name for a subject where the cluster says so. A topic that is
    compacted cannot have one, and no internal one does.
    """
    in_force = broker.dynamic.in_force
    if NATIVE_SUBJECT in configs or is_internal(name) or not is_named(name, in_force.get(NATIVE_TOPICS, "")):
        return configs
    if effective_topic_configs(configs, in_force).cleanup_compact:
        return configs
    return {**configs, NATIVE_SUBJECT: name}


def _store_count(broker: Cluster) -> int:
    return len(broker.stores.admitted)


def _check_name(broker: Cluster, name: str) -> None:
    if reason := invalid_topic_name(name):
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
    if broker.topics.get(name) is not None:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    other = broker.topics.collision(name)
    if other is not None:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}"
        )
    broker.subject_names.check_name(name)


def _check_numbers(broker: Cluster, partitions: int, replication_factor: int) -> tuple[int, int]:
    if replication_factor < DEFAULT or replication_factor == 0:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if partitions < DEFAULT or partitions == 0:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
        )
    if partitions == DEFAULT:
        partitions = broker.settings.partitions
    if replication_factor == DEFAULT:
        replication_factor = broker.stores.default_replication_factor
    if replication_factor > _store_count(broker) and not broker.settings.relax_replication_factor:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): there are only "
            f"{_store_count(broker)} store(s). (--relax-replication-factor accepts it all the same.)",
        )
    return partitions, replication_factor


def _check_assignments(
    broker: Cluster,
    partitions: int,
    replication_factor: int,
    assignments: Sequence[tuple[int, Sequence[int]]],
) -> tuple[int, int]:
    if replication_factor != DEFAULT:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        )
    if partitions != DEFAULT:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        )
    seen: set[int] = set()
    for partition, broker_ids in assignments:
        if partition in seen:
            raise bad_assignment(f"Found multiple manual partition assignments for partition {partition}")
        seen.add(partition)
        check_replicas(broker, broker_ids)
    if seen != set(range(len(seen))):
        raise bad_assignment("partitions should be a consecutive 0-based integer sequence")
    return len(seen), 1


def check_replicas(broker: Cluster, broker_ids: Sequence[int]) -> None:
    """A partition's replicas as chosen by hand. One of the gateways can be named: they are the brokers that
    Metadata shows (`ReplicationControlManager.validateManualPartitionAssignment`). Which one leads is decided
    by all of them, and stores keep the copies.

    Raises KafkaError: INVALID_REPLICA_ASSIGNMENT.
    """
    if not broker_ids:
        raise bad_assignment("The manual partition assignment includes an empty replica list.")
    for broker_id in broker_ids:
        if broker_id != broker.node_id and broker_id not in broker.gateways.others:
            raise bad_assignment(
                f"The manual partition assignment includes broker {broker_id}, "
                "but no such broker is registered."
            )
    if len(set(broker_ids)) < len(broker_ids):
        doubled = next(number for number in broker_ids if broker_ids.count(number) > 1)
        raise bad_assignment(f"The manual partition assignment includes the broker {doubled} more than once.")
    if len(broker_ids) > 1:
        raise bad_assignment(
            "The manual partition assignment includes several gateways, and a partition has one; its copies "
            "are kept by stores. Leave the assignment out, and give a replication factor."
        )


def bad_assignment(message: str) -> KafkaError:
    """The error for what is wrong with partitions that are assigned by hand."""
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
