"""`dafka gateways`: the gateways that share a catalog, as one of them sees them."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from dafka.commands.decorators import gateway_data_option, json_option
from dafka.commands.exits import CommandFailed
from dafka.commands.tables import print_json, print_table

HELP: Final = (
    "Several gateways that share a catalog: who leads how much. --data names one of them, which is asked."
)

DRAIN_HELP: Final = """Have others lead what gateway ID leads, and give it nothing any more: before its
machine is taken away, say. It goes on to answer clients. --stop has it lead its share again.

\b
dafka gateways drain 2 --wait 60 && sudo systemctl stop dafka-gateway
"""

PREFERRED_HELP: Final = """Show the partitions that were moved to a certain gateway
(kafka-reassign-partitions), which leads them whenever it can.
"""

SHARE_HELP: Final = """Have the gateways share TOPIC's partitions evenly again, where some were
moved to a certain gateway (kafka-reassign-partitions); `dafka gateways preferred` shows which.
"""

LOOK_SECONDS: Final = 0.5
"""Between two looks whether a gateway is drained."""


@click.group(short_help="Show gateways, drain, upgrade and remove them.", help=HELP)
def gateways() -> None:
    """The group."""


@gateways.command(
    name="list", short_help="List the gateways.", help="Show the gateways, and what each leads."
)
@gateway_data_option
@json_option
def list_gateways(data: Path, as_json: bool) -> None:
    """List gateways."""
    found = _ask(data, "gateways.list")
    if as_json:
        print_json(found)
        return
    rows: list[Sequence[object]] = [
        (
            entry["id"],
            entry["state"],
            entry["partitions"],
            entry["topics"],
            ", ".join(f"{name} {address}" for name, address in entry["listeners"].items()) or "-",
            entry["release"] or "-",
        )
        for entry in found
    ]
    print_table(("id", "state", "partitions", "topics", "listens on", "version"), rows)
    for line in feature_lines(_ask(data, "gateways.features"), found):
        click.echo(line)


def feature_lines(features: Sequence[dict[str, Any]], found: Sequence[dict[str, Any]]) -> list[str]:
    """The levels of features for people, what could be raised, and by what."""
    versions = _versions(found)
    lines = ["features: " + ", ".join(f"{one['feature']} {one['level']}" for one in features)]
    for one in features:
        name, possible = one["feature"], one["possible"]
        if possible > one["level"]:
            lines.append(
                f"all gateways can do {name} at level {possible}: 'dafka gateways upgrade' raises it"
            )
        lines += _held_up(one, versions)
    return lines


def _versions(found: Sequence[dict[str, Any]]) -> dict[int, str]:
    return {entry["id"]: entry["release"] or "unknown" for entry in found}


def _held_up(feature: dict[str, Any], versions: Mapping[int, str]) -> list[str]:
    """A line that says which gateways keep a feature from a higher level, if any do."""
    numbers = feature["held_up_by"]
    if not numbers:
        return []
    who = ", ".join(f"{number} (version {versions.get(number, 'unknown')})" for number in numbers)
    return [f"{feature['feature']} goes no higher before these are upgraded, or removed: gateway {who}"]


@gateways.command(
    short_help="Switch on what all gateways can do.",
    help="Raise the levels of features as far as all gateways can: after the last one of them was upgraded. "
    "A gateway of an older version, which cannot do them, does not start from then on.",
)
@gateway_data_option
def upgrade(data: Path) -> None:
    """Raise levels."""
    before = {one["feature"]: one["level"] for one in _ask(data, "gateways.features")}
    after = _ask(data, "gateways.upgrade")
    raised = [one for one in after if one["level"] > before.get(one["feature"], 0)]
    for one in raised:
        click.echo(f"{one['feature']} is at level {one['level']} now")
    if not raised:
        click.echo("every feature is as high as all gateways can already")
    versions = _versions(_ask(data, "gateways.list"))
    for one in after:
        for line in _held_up(one, versions):
            click.echo(line)


@gateways.command(short_help="Have others lead what one leads.", help=DRAIN_HELP)
@click.argument("gateway", metavar="ID", type=click.IntRange(1))
@click.option("--stop", is_flag=True, help="Take it back: it leads its share again.")
@click.option(
    "--wait",
    metavar="SECONDS",
    type=click.FloatRange(0),
    help="Wait until it leads nothing, for so long at most; exit code 2 if it still does.",
)
@gateway_data_option
def drain(gateway: int, stop: bool, wait: float | None, data: Path) -> None:
    """Drain one gateway."""
    if stop and wait is not None:
        raise CommandFailed("--wait is for what is drained: leave it out with --stop")
    _ask(data, "gateways.drain", gateway=gateway, stop=stop)
    if stop:
        click.echo(f"gateway {gateway} is given its share again")
        return
    if wait is None:
        click.echo(
            f"gateway {gateway} is drained from now on; 'dafka gateways list' shows what it still leads"
        )
        return
    deadline = time.monotonic() + wait
    while left := _leads(data, gateway):
        if time.monotonic() > deadline:
            raise CommandFailed(
                f"gateway {gateway} still leads {left} partitions after {wait:g} s, and is drained further: "
                "'dafka gateways list' shows whether another one serves, which could take them"
            )
        time.sleep(LOOK_SECONDS)
    click.echo(f"gateway {gateway} leads nothing")


@gateways.command(
    short_help="Forget a gateway.",
    help="Forget a gateway that was stopped for good: it is listed no more, and its number is free.",
)
@click.argument("gateway", metavar="ID", type=click.IntRange(1))
@gateway_data_option
def remove(gateway: int, data: Path) -> None:
    """Remove one gateway."""
    _ask(data, "gateways.remove", gateway=gateway)
    click.echo(f"gateway {gateway} is forgotten")


@gateways.command(short_help="Show who was chosen to lead what.", help=PREFERRED_HELP)
@gateway_data_option
@json_option
def preferred(data: Path, as_json: bool) -> None:
    """List preferred leaders."""
    found = _ask(data, "gateways.preferred")
    if as_json:
        print_json(found)
        return
    rows: list[Sequence[object]] = [
        (
            entry["topic"],
            entry["partition"],
            entry["preferred"],
            entry["leader"] if entry["leader"] > 0 else "-",
            "moves" if entry["moving"] else "leads" if entry["leader"] == entry["preferred"] else "away",
        )
        for entry in found
    ]
    print_table(("topic", "partition", "preferred", "leader", "state"), rows)


@gateways.command(short_help="Share a topic evenly again.", help=SHARE_HELP)
@click.argument("topic")
@click.option("--partition", metavar="N", type=click.IntRange(0), help="This one alone.")
@gateway_data_option
def share(topic: str, partition: int | None, data: Path) -> None:
    """Take preferred leaders back."""
    told = _ask(data, "gateways.share", topic=topic, partition=partition)
    click.echo(f"{told['partitions']} partitions of {topic} are shared evenly again")


def _leads(data: Path, gateway: int) -> int:
    """Partitions that it leads."""
    return sum(entry["partitions"] for entry in _ask(data, "gateways.list") if entry["id"] == gateway)


def _ask(data: Path, do: str, **details: Any) -> Any:
    from dafka.operators.socket import ask  # loads trio

    return ask(data, do, **details)
