"""Whether broker configs may be set while the gateway runs (KIP-226).

Source: `kafka.server.DynamicBrokerConfig.validate` and Kafka's `ConfigDef`s. Four kinds are told apart:

* defaults of topic configs (`TOPIC_DEFAULTS`): checked as the topic config is, and take effect at once;
* the few others that Kafka can change and that mean something here (`OWN_EFFECT`): checked, and take effect;
* those that Kafka can change and that mean nothing here (`NO_EFFECT`: thread pools, the cleaner's buffers,
  throttles, when tickets and logins of a SASL that is not there are renewed): checked, kept and given back;
* everything else: refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.configs.alteration import Operation
from gateway.configs.broker_configs import NATIVE_TOPICS, THROTTLES, broker_configs, settable_broker_configs
from gateway.configs.checks import AddressCounts, Between, Check, TopicNames
from gateway.configs.topic_configs import TOPIC_CONFIGS, TopicConfig
from gateway.configs.validation import MAX_VALUE_LENGTH
from gateway.configs.values import ConfigType, InvalidValue, Value, parse_value, quoted
from wireproto.kafka.errors import ErrorCode, KafkaError

TOPIC_DEFAULTS: Final[dict[str, TopicConfig]] = {
    config.broker_config: config for config in TOPIC_CONFIGS.values() if config.broker_config is not None
}
"""Broker config -> the topic config whose default it is."""

CLEANER_BACKOFF: Final = "log.cleaner.backoff.ms"

MOST_CONNECTIONS: Final = "max.connections"
MOST_OF_ADDRESS: Final = "max.connections.per.ip"
MOST_OF_SOME: Final = "max.connections.per.ip.overrides"
CONNECTIONS_PER_SECOND: Final = "max.connection.creation.rate"

OWN_EFFECT: Final[dict[str, Check | None]] = {
    CLEANER_BACKOFF: Between(0),
    MOST_CONNECTIONS: Between(0),
    MOST_OF_ADDRESS: Between(0),
    MOST_OF_SOME: AddressCounts(),
    CONNECTIONS_PER_SECOND: Between(0),
}
"""Broker configs that take effect while the gateway runs and are no topic config's default, with Kafka's
ranges."""

NO_EFFECT: Final[dict[str, Check | None]] = {
    "background.threads": Between(1),
    "log.cleaner.dedupe.buffer.size": None,
    "log.cleaner.io.buffer.load.factor": None,
    "log.cleaner.io.buffer.size": Between(0),
    "log.cleaner.io.max.bytes.per.second": None,
    "log.cleaner.threads": Between(0),
    "num.io.threads": Between(1),
    "num.network.threads": Between(1),
    "num.recovery.threads.per.data.dir": Between(1),
    "num.replica.fetchers": None,
    "producer.id.expiration.ms": Between(1),
    "sasl.kerberos.kinit.cmd": None,
    "sasl.kerberos.min.time.before.relogin": None,
    "sasl.kerberos.ticket.renew.jitter": None,
    "sasl.kerberos.ticket.renew.window.factor": None,
    "sasl.login.refresh.buffer.seconds": None,
    "sasl.login.refresh.min.period.seconds": None,
    "sasl.login.refresh.window.factor": None,
    "sasl.login.refresh.window.jitter": None,
    "transaction.partition.verification.enable": None,
}
"""Broker configs that are accepted and mean nothing here, with Kafka's ranges."""

ONE_NODE_ONLY: Final = frozenset(name for name in NO_EFFECT if name.startswith("sasl."))
"""Those of them that are set for a node and never for all nodes of a cluster (`perBrokerConfigs`)."""

_OTHERS: Final[dict[str, Check | None]] = {
    **OWN_EFFECT,
    **NO_EFFECT,
    **dict.fromkeys(THROTTLES, Between(0)),
    NATIVE_TOPICS: TopicNames(),
}


def validate_broker_configs(configs: Mapping[str, str], *, whole_cluster: bool = False) -> None:
    """Whether these may be set, all of them, for one node or for all nodes of the cluster.

    Raises KafkaError: INVALID_REQUEST (as Kafka: not INVALID_CONFIG, KAFKA-13609) for the first that may not.
    """
    fixed = [name for name in configs if name in broker_configs() and not _may_change(name)]
    if fixed:
        names = quoted(", ".join(sorted(fixed)))
        raise _refused(f"Cannot update these configs dynamically: [{names}]")
    unknown = sorted(name for name in configs if not _may_change(name))
    if unknown:
        raise _refused(f"Unknown broker config name: {quoted(unknown[0])}")
    for name, text in configs.items():
        if len(text) > MAX_VALUE_LENGTH:
            raise _refused(f"The value of {name} is longer than {MAX_VALUE_LENGTH} characters")
        try:
            _parse(name, text)
        except InvalidValue as error:
            raise _refused(str(error)) from None
    if whole_cluster and (alone := ", ".join(sorted(ONE_NODE_ONLY & configs.keys()))):
        raise _refused(
            f"Cannot update these configs at default cluster level, broker id must be specified: [{alone}]"
        )


def parse_broker_integer(name: str, text: str) -> int:
    """The number that a broker config is set to; it was checked when it was set."""
    value = _parse(name, text)
    assert isinstance(value, int)
    return value


def broker_list_default(name: str) -> str | None:
    """For `alteration.altered`: Kafka's default of a broker config that is a list."""
    config = broker_configs().get(name)
    return config.default or "" if config is not None and config.type is ConfigType.LIST else None


def broker_not_a_list(name: str, operation: Operation) -> str:
    """For `alteration.altered`: Kafka's words where a broker config is no list."""
    if name not in broker_configs():
        return f"Unknown config name: {quoted(name)}"
    return f"Config value {operation.name.lower()} is not allowed for config key: {name}"


def _may_change(name: str) -> bool:
    known = settable_broker_configs().get(name)
    return known is not None and not known.read_only and (name in TOPIC_DEFAULTS or name in _OTHERS)


def _parse(name: str, text: str) -> Value:
    value = parse_value(name, settable_broker_configs()[name].type, text)
    check = TOPIC_DEFAULTS[name].check if name in TOPIC_DEFAULTS else _OTHERS[name]
    return value if check is None else check(name, value)


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
