"""`dafka users`: who may come in by a password, at a running gateway or any Kafka (KIP-554).

The password is salted here: neither it nor what could be used in its place leaves this process.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from dafka.commands.asking import api_keys, connect, error_name
from dafka.commands.client_security import Bootstrap
from dafka.commands.decorators import bootstrap_option, json_option, log_options
from dafka.commands.exits import CommandFailed
from dafka.commands.tables import print_json, print_table

NUMBERS: Final = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
"""The mechanisms, as the protocol has them."""

FEWEST_ITERATIONS: Final = 4096
"""How often a password is hashed, at least; Kafka's default."""

MOST_ITERATIONS: Final = 16384
"""How often it may be: Kafka takes no more, nor does a gateway (`gateway.security.scram`)."""

_NONE_THERE: Final = "RESOURCE_NOT_FOUND"

password_file_option = click.option(
    "--password-file",
    metavar="FILE",
    type=click.Path(path_type=Path, allow_dash=True),
    help="File with the password and nothing else; '-' is standard input.  [default: asked for, twice]",
)


@click.group(
    short_help="Create, list and delete users.",
    help="Users who come in by a password (SCRAM-SHA-256, SCRAM-SHA-512, PLAIN). It works with any Kafka: "
    "--bootstrap says which. The first user of a new cluster is made by 'dafka init'.",
)
def users() -> None:
    """The group."""


@users.command(
    help="Create a user. The password is asked for, or read from a file; it is never an argument, which "
    "others could see.\n\n\b\ndafka users create alice --password-file ./alice.password"
)
@click.argument("name")
@click.option(
    "--mechanism",
    "mechanisms",
    type=click.Choice(tuple(NUMBERS)),
    multiple=True,
    help="By which mechanism; may be given twice.  [default: both, and so PLAIN]",
)
@click.option(
    "--iterations",
    metavar="N",
    type=click.IntRange(FEWEST_ITERATIONS, MOST_ITERATIONS),
    default=FEWEST_ITERATIONS,
    show_default=True,
    help="How often the password is hashed: what it costs to guess it by what is kept.",
)
@password_file_option
@click.option("--replace", is_flag=True, help="A user who is there already gets this password.")
@bootstrap_option
@log_options
def create(
    name: str,
    mechanisms: Sequence[str],
    iterations: int,
    password_file: Path | None,
    replace: bool,
    bootstrap: Bootstrap,
) -> None:
    """Create a user."""
    from dafka.commands.passwords import new_password

    with connect(bootstrap) as client:
        is_there = bool(_mechanisms(client, [name]).get(name))
        if is_there and not replace:
            raise CommandFailed(f"there is a user {name} already: add --replace to give him another password")
        password = new_password(name, password_file)
        for mechanism in dict.fromkeys(mechanisms) or NUMBERS:
            credential = salted(name, mechanism, password, iterations)
            _alter(client, f"cannot create {name} for {mechanism}", [credential])
    click.echo(f"changed the password of {name}" if is_there else f"created {name}")


@users.command(name="list", help="List the users, and by which mechanisms they may come in.")
@bootstrap_option
@json_option
@log_options
def list_users(bootstrap: Bootstrap, as_json: bool) -> None:
    """List users."""
    with connect(bootstrap) as client:
        found = _mechanisms(client, None)
    names = {number: name for name, number in NUMBERS.items()}
    shown = [
        {"user": user, "mechanism": names.get(number, str(number)), "iterations": iterations}
        for user, known in sorted(found.items())
        for number, iterations in sorted(known.items())
    ]
    if as_json:
        print_json(shown)
    else:
        print_table(("USER", "MECHANISM", "ITERATIONS"), [tuple(map(str, one.values())) for one in shown])


@users.command(help="Delete users: nobody comes in by their names any more.")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--if-exists", is_flag=True, help="A user who is not there is no failure.")
@bootstrap_option
@log_options
def delete(names: Sequence[str], if_exists: bool, bootstrap: Bootstrap) -> None:
    """Delete users."""
    with connect(bootstrap) as client:
        found = _mechanisms(client, names)
        if (missing := [name for name in names if name not in found]) and not if_exists:
            raise CommandFailed(
                f"there is no user {', '.join(missing)}. 'dafka users list' shows who is there"
            )
        for name in names:
            # The protocol takes each user once in a request.
            for mechanism in found.get(name, ()):
                _alter(client, f"cannot delete {name}", deletions=[(name, mechanism)])
            click.echo(f"deleted {name}" if name in found else f"{name} is not there")


def salted(name: str, mechanism: str, password: str, iterations: int) -> tuple[str, int, int, bytes, bytes]:
    """What is sent of a password: name, mechanism, iterations, salt, SaltedPassword."""
    from gateway.security.scram import SALT_BYTES, Hash, salted_password

    salt = secrets.token_bytes(SALT_BYTES)
    hashed = salted_password(Hash(mechanism), password, salt, iterations)
    return name, NUMBERS[mechanism], iterations, salt, hashed


def _alter(client: Any, doing: str, upsertions: Sequence[Any] = (), deletions: Sequence[Any] = ()) -> None:
    key = api_keys().ALTER_USER_SCRAM_CREDENTIALS
    answer = client.ask(key, 0, deletions=list(deletions), upsertions=list(upsertions))
    for result in answer.results:
        if result.error_code:
            raise CommandFailed(f"{doing}: {error_name(result.error_code)} ({result.error_message})")


def _mechanisms(client: Any, names: Sequence[str] | None) -> dict[str, dict[int, int]]:
    """User -> mechanism -> iterations, of those that are there. Raises CommandFailed."""
    wanted = None if names is None else [(name,) for name in dict.fromkeys(names)]
    answer = client.ask(api_keys().DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=wanted)
    if answer.error_code:
        raise CommandFailed(f"cannot list users: {error_name(answer.error_code)} ({answer.error_message})")
    found: dict[str, dict[int, int]] = {}
    for result in answer.results:
        if not result.error_code:
            found[result.user] = {one.mechanism: one.iterations for one in result.credential_infos}
        elif error_name(result.error_code) != _NONE_THERE:
            raise CommandFailed(f"{result.user}: {error_name(result.error_code)} ({result.error_message})")
    return found
