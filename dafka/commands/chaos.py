"""`dafka chaos`: faults on order, for tests of applications."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from dafka.commands.decorators import Function, json_option
from dafka.commands.options import variable_of
from dafka.commands.tables import print_json, print_table

HELP = """Have a server fail on order: errors, delays, cut connections, expired members.

For tests of applications, against a server that was started with --chaos SOCKET; nothing fails without that
flag. API is a name as Kafka has it: Produce, Fetch, JoinGroup, Heartbeat, OffsetCommit ...

\b
dafka standalone --ephemeral --chaos ./chaos &
dafka chaos error Produce NOT_LEADER_OR_FOLLOWER --times 3 --socket ./chaos
dafka chaos delay Fetch 500 --socket ./chaos
dafka chaos clear --socket ./chaos
"""


@click.group(help=HELP, short_help="Have a server of your tests fail on order.")
def chaos() -> None:
    """The group."""


socket_option = click.option(
    "--socket",
    metavar="SOCKET",
    required=True,
    envvar=variable_of("chaos"),
    type=click.Path(path_type=Path),
    help=f"What the server was given as --chaos; also ${variable_of('chaos')}.",
)


def whom_options(times: int | None) -> Callable[[Function], Function]:
    """How many requests meet a fault, and whose."""

    def decorate(function: Function) -> Function:
        for option in (
            click.option("--client-id", metavar="ID", default="", help="Only those of clients of this id."),
            click.option("--topic", metavar="NAME", default="", help="Only those that name this topic."),
            click.option(
                "--times",
                metavar="N",
                type=click.IntRange(0),
                default=times or 0,
                show_default=True,
                help="How many requests meet it; 0: all until 'dafka chaos clear'.",
            ),
        ):
            function = option(function)
        return socket_option(function)

    return decorate


@chaos.command(short_help="Answer requests with an error.")
@click.argument("api")
@click.argument("error")
@whom_options(1)
def error(api: str, error: str, **whom: Any) -> None:
    """Answer requests of API with ERROR, by Kafka's name; they do nothing. A Produce or a Fetch that names
    the topic fails as a whole.
    """
    _add("error", api, error=error, **whom)


@chaos.command(short_help="Let requests wait.")
@click.argument("api")
@click.argument("milliseconds", type=click.IntRange(1))
@whom_options(None)
def delay(api: str, milliseconds: int, **whom: Any) -> None:
    """Let requests of API wait for so many MILLISECONDS before they are handled."""
    _add("delay", api, delay_ms=milliseconds, **whom)


@chaos.command(short_help="Close the connection of requests.")
@click.argument("api")
@click.option("--lose-answer", is_flag=True, help="Do what they ask before.")
@whom_options(1)
def drop(api: str, lose_answer: bool, **whom: Any) -> None:
    """Close the connection of requests of API, which do nothing."""
    _add("lose-answer" if lose_answer else "drop", api, **whom)


@chaos.command(short_help="End the sessions of a group's members.")
@click.argument("group")
@click.argument("member", required=False)
@socket_option
def expire(group: str, member: str | None, socket: Path) -> None:
    """End the session of MEMBER of GROUP, or of all its members, as if they had not been heard of."""
    click.echo(f"expired {_ask(socket, 'chaos.expire', group=group, member=member)}")


@chaos.command(short_help="Close all connections.")
@socket_option
def disconnect(socket: Path) -> None:
    """Close the connections of all clients."""
    click.echo(f"closed {_ask(socket, 'chaos.disconnect')}")


@chaos.command(name="list", short_help="Show what is ordered.")
@json_option
@socket_option
def list_faults(socket: Path, as_json: bool) -> None:
    """Show what is ordered and not over, and how many requests have met it."""
    faults = _ask(socket, "chaos.list")
    if as_json:
        print_json(faults)
        return
    rows = [
        (
            one["kind"] + (f" {one['delay_ms']} ms" if one["delay_ms"] else ""),
            one["api"],
            one["error"] or "-",
            "all" if one["left"] is None else one["left"],
            one["topic"] or "-",
            one["client_id"] or "-",
            one["met"],
        )
        for one in faults
    ]
    print_table(("FAULT", "API", "ERROR", "LEFT", "TOPIC", "CLIENT", "MET"), rows)


@chaos.command(short_help="No faults any more.")
@socket_option
def clear(socket: Path) -> None:
    """Take back all orders."""
    _ask(socket, "chaos.clear")


def _add(kind: str, api: str, socket: Path, times: int, **details: Any) -> None:
    _ask(socket, "chaos.add", kind=kind, api=api, times=times or None, **details)


def _ask(socket: Path, do: str, **details: Any) -> Any:
    from dafka.operators.socket import NoGateway, ask_at  # loads trio, which --help has no need of

    try:
        return ask_at(socket, do, **details)
    except NoGateway as nobody:
        raise NoGateway(
            f"{nobody}. Start one with 'dafka standalone --chaos {socket}', or name its socket with --socket"
        ) from None
