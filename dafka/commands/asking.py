"""What the commands share that ask a running Kafka about topics and configs."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Final

from dafka.commands.client_security import Bootstrap
from dafka.commands.exits import CommandFailed

if TYPE_CHECKING:
    from dafka.commands.kafka_client import KafkaTrouble

TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
"""Kinds of resources that have configs, in Kafka's numbers."""

SET_ON_TOPIC: Final = 1
"""The source of a config that was given for this topic."""

IF_NOT_EXISTS: Final = "TOPIC_ALREADY_EXISTS"
IF_EXISTS: Final = "UNKNOWN_TOPIC_OR_PARTITION"


def connect(bootstrap: Bootstrap) -> Any:
    """A connection with its versions known; says how to start a gateway where there is none."""
    from dafka.commands.kafka_client import KafkaClient, KafkaTrouble, Trouble, parse_bootstrap

    try:
        client = KafkaClient(*parse_bootstrap(bootstrap.address), bootstrap.security)
        client.negotiate()
    except KafkaTrouble as trouble:
        if trouble.trouble is Trouble.NOT_KNOWN:
            raise
        raise CommandFailed(f"{trouble} {_next_step(trouble, bootstrap)}") from trouble
    return client


def _next_step(trouble: "KafkaTrouble", bootstrap: Bootstrap) -> str:
    from dafka.commands.kafka_client import Trouble

    more = f"'dafka doctor {bootstrap}' says more."
    if trouble.trouble in {Trouble.REFUSED, Trouble.NO_ADDRESS, Trouble.TIMED_OUT}:
        return f"Start a gateway with 'dafka standalone', or say with --bootstrap where it is; {more}"
    if trouble.trouble is Trouble.TLS:
        return f"Give --tls-ca FILE with the certificate that the server's is signed by; {more}"
    return more[0].upper() + more[1:]


def api_keys() -> Any:
    """`ApiKey`, loaded when it is needed: its package loads Kafka's schemas, which --help has no need of."""
    from wireproto.kafka.api_keys import ApiKey

    return ApiKey


def error_name(code: int) -> str:
    """A Kafka error by its name."""
    from dafka.commands.kafka_client import error_name as name_of

    return name_of(code)


def report(doing: str, results: Sequence[Any], unless: str = "") -> None:
    """Raises CommandFailed that names every topic or resource with an error, each with the server's reason.

    `unless` is the name of an error that is none.
    """
    failures = []
    for result in results:
        name = error_name(result.error_code)
        if result.error_code and name != unless:
            message = getattr(result, "error_message", None)
            what = getattr(result, "name", None) or getattr(result, "resource_name", None) or "all nodes"
            failures.append(f"{what}: {name}{f' ({message.rstrip(chr(46))})' if message else ''}")
    if failures:
        raise CommandFailed(f"{doing} {'; '.join(failures)}. {_advice(failures)}")


def partitions_of(topic: Any, wanted: Collection[int]) -> list[int]:
    """Those that are wanted of a topic in a Metadata response, each once; all of its own where none is named.

    Raises CommandFailed for one that the topic does not have.
    """
    there = {one.partition_index for one in topic.partitions}
    if missing := set(wanted) - there:
        raise CommandFailed(
            f"{topic.name} has no partition {min(missing)}: its partitions are 0 to {max(there)}."
        )
    return sorted(set(wanted) or there)


def _advice(failures: Sequence[str]) -> str:
    text = " ".join(failures)
    for name, advice in (
        (IF_NOT_EXISTS, "Add --if-not-exists if that is fine."),
        (IF_EXISTS, "'dafka topics list' shows those that are there."),
        (
            "INVALID_CONFIG",
            "'dafka configs describe topic NAME --all' shows every config, and what it means.",
        ),
        ("configs dynamically", "What is given at the start is a flag: 'dafka gateway --help'."),
        ("INVALID_PARTITIONS", "A topic can only get more partitions than it has."),
        ("_AUTHORIZATION_FAILED", "This user has no ACL for it: docs/authorization.md says which it takes."),
        ("INVALID_REPLICATION_FACTOR", "Leave --replication-factor out, or start more stores."),
    ):
        if name in text:
            return advice
    return "Nothing was changed for the topics named."


SET, DELETE, APPEND, SUBTRACT = range(4)
"""What IncrementalAlterConfigs does to one config."""


def alterations(
    sets: Sequence[str], deletes: Sequence[str], appends: Sequence[str] = (), subtracts: Sequence[str] = ()
) -> list[tuple[str, int, str | None]]:
    """(name, operation, value) of each config, as given to a command's options. Raises CommandFailed."""
    made: list[tuple[str, int, str | None]] = []
    for option, operation, texts in (
        ("--set", SET, sets),
        ("--append", APPEND, appends),
        ("--subtract", SUBTRACT, subtracts),
    ):
        for text in texts:
            name, value = key_value(option, text)
            made.append((name, operation, value))
    made += [(name, DELETE, None) for name in deletes]
    names = [name for name, _, _ in made]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise CommandFailed(f"{', '.join(twice)}: named twice. Say once what is to become of each config.")
    return made


def key_value(option: str, text: str) -> tuple[str, str]:
    """The two sides of KEY=VALUE, as given to an option. Raises CommandFailed."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise CommandFailed(f"{option} {text}: write KEY=VALUE, for example max.message.bytes=2000000")
    return key, value


def count(number: int, what: str) -> str:
    """One partition, two partitions."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def join_numbers(numbers: Sequence[int]) -> str:
    """For people."""
    return ",".join(map(str, numbers)) or "none"
