"""`dafka configs`: show and change the configs of topics and brokers, of a gateway or of any Kafka."""

from collections.abc import Sequence
from typing import Any, Final

import click

from dafka.commands.asking import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    alterations,
    api_keys,
    connect,
    error_name,
    report,
)
from dafka.commands.client_security import Bootstrap
from dafka.commands.decorators import bootstrap_option, json_option, log_options
from dafka.commands.exits import CommandFailed
from dafka.commands.tables import print_json, print_table

KINDS: Final = ("topic", "broker", "cluster")

SOURCES: Final = {
    1: "topic",
    2: "broker, set since its start",
    3: "cluster, set since its start",
    4: "broker, given at its start",
    5: "default",
}
"""Where a value comes from, by the source in DescribeConfigs."""

DEFAULT: Final = 5

MEANING_WIDTH: Final = 60
"""Characters of what a config means, in a table."""

HELP: Final = """Configs of topics and brokers. It works with any Kafka: --bootstrap says which.

\b
topic NAME...    those of topics
broker [ID...]   those of brokers, by default all
cluster          those that are set for all brokers of the cluster
"""

DESCRIBE_HELP: Final = """Show configs that are not Kafka's defaults: from where they are, what they mean.

\b
dafka configs describe topic orders
dafka configs describe topic orders --all
dafka configs describe broker --json
"""

ALTER_HELP: Final = """Change configs. Those that take effect do so at once: docs/topic-configs.md.

\b
dafka configs alter topic orders --set retention.ms=3600000 --delete max.message.bytes
dafka configs alter topic orders --append cleanup.policy=compact
dafka configs alter cluster --set log.retention.ms=86400000
"""


@click.group(short_help="Show and change configs of topics and brokers.", help=HELP)
def configs() -> None:
    """The group."""


@configs.command(help=DESCRIBE_HELP, short_help="Show configs and where they come from.")
@click.argument("kind", metavar="KIND", type=click.Choice(KINDS))
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="The defaults, too.")
@bootstrap_option
@json_option
@log_options
def describe(kind: str, names: Sequence[str], everything: bool, bootstrap: Bootstrap, as_json: bool) -> None:
    """Describe configs."""
    with connect(bootstrap) as client:
        answer = client.ask(
            api_keys().DESCRIBE_CONFIGS,
            4,
            resources=[(_number(kind), name, None) for name in _names(client, kind, names)],
            include_synonyms=True,
            include_documentation=True,
        )
    report("cannot describe", answer.results)
    shown = [
        {
            "kind": kind,
            "name": result.resource_name,
            "configs": [
                _config(config) for config in result.configs if everything or config.config_source != DEFAULT
            ],
        }
        for result in answer.results
    ]
    if as_json:
        print_json(shown)
        return
    for resource in shown:
        click.echo(f"{kind} {resource['name']}".rstrip())
        rows = [
            (f"  {one['name']}", one["value"], one["source"], _in_short(one["documentation"]))
            for one in resource["configs"]
        ]
        if rows:
            print_table(("  config", "value", "from", "meaning"), rows)
        else:
            click.echo("  nothing but defaults (--all shows them)")


@configs.command(help=ALTER_HELP, short_help="Change configs.")
@click.argument("kind", metavar="KIND", type=click.Choice(KINDS))
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Set a config.")
@click.option("--delete", "deletes", multiple=True, metavar="KEY", help="Back to the default.")
@click.option("--append", "appends", multiple=True, metavar="KEY=VALUE", help="Add to a list.")
@click.option("--subtract", "subtracts", multiple=True, metavar="KEY=VALUE", help="Take from a list.")
@click.option("--dry-run", is_flag=True, help="Let the server check it, and change nothing.")
@bootstrap_option
@json_option
@log_options
def alter(
    kind: str,
    names: Sequence[str],
    sets: Sequence[str],
    deletes: Sequence[str],
    appends: Sequence[str],
    subtracts: Sequence[str],
    dry_run: bool,
    bootstrap: Bootstrap,
    as_json: bool,
) -> None:
    """Alter configs."""
    changes = alterations(sets, deletes, appends, subtracts)
    if not changes:
        raise CommandFailed("nothing to change. Give --set, --delete, --append or --subtract.")
    with connect(bootstrap) as client:
        wanted = _names(client, kind, names)
        answer = client.ask(
            api_keys().INCREMENTAL_ALTER_CONFIGS,
            1,
            resources=[(_number(kind), name, changes) for name in wanted],
            validate_only=dry_run,
        )
    done = [result.resource_name for result in answer.responses if not result.error_code]
    if as_json:
        print_json(
            [
                {
                    "kind": kind,
                    "name": result.resource_name,
                    "error": error_name(result.error_code) if result.error_code else None,
                    "message": result.error_message,
                    "dry_run": dry_run,
                }
                for result in answer.responses
            ]
        )
    else:
        for name in done:
            click.echo(f"{'would change' if dry_run else 'changed'} {kind} {name}".rstrip())
    report("cannot change", answer.responses)


def _number(kind: str) -> int:
    return TOPIC_RESOURCE if kind == "topic" else BROKER_RESOURCE


def _names(client: Any, kind: str, names: Sequence[str]) -> list[str]:
    """The resources that are meant. Raises CommandFailed."""
    if kind == "cluster":
        if names:
            raise CommandFailed("cluster takes no name: it means all brokers. For one of them: broker ID")
        return [""]
    if kind == "broker" and not names:
        answer = client.ask(api_keys().METADATA, 12, topics=[], allow_auto_topic_creation=False)
        return [str(broker.node_id) for broker in answer.brokers]
    if not names:
        raise CommandFailed("which topic? 'dafka topics list' shows those that are there.")
    return list(names)


def _in_short(documentation: str | None) -> str:
    """The beginning of the first sentence, for a table; --json has all of it."""
    sentence = (documentation or "").partition(". ")[0]
    return sentence if len(sentence) <= MEANING_WIDTH else sentence[: MEANING_WIDTH - 3] + "..."


def _config(config: Any) -> dict[str, Any]:
    return {
        "name": config.name,
        "value": "(secret)" if config.is_sensitive else config.value,
        "source": SOURCES.get(config.config_source, str(config.config_source)),
        "read_only": config.read_only,
        "documentation": config.documentation,
        "synonyms": [
            {"name": one.name, "value": one.value, "source": SOURCES.get(one.source, str(one.source))}
            for one in config.synonyms
        ],
    }
