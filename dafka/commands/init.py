"""`dafka init`: the first user, before the first start."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click

from dafka.commands.configuration import load
from dafka.commands.decorators import setting_options
from dafka.commands.mesh_options import GATEWAY_OPTIONS
from dafka.commands.users import FEWEST_ITERATIONS, MOST_ITERATIONS, password_file_option
from dafka.settings import InitSettings

HELP = """Make the first user of a cluster, who then makes the others.

Where every client has to say who it is nobody could come in to make the first user. So this puts one into the
catalog while no process uses that: before the first start, or before the one that asks clients who they are.
Gateways whose catalog is in an etcd may run.

\b
  dafka init --data ./data --admin admin --password-file ./admin.password
  dafka standalone --data ./data --listen SASL_SSL://127.0.0.1:9092 --tls-certificate ./server.pem \\
    --authorizer acl --super-user User:admin
"""

KINDS: Final = ("standalone", "gateways", "gateway")

_OPTIONS: Final = {
    "data": replace(
        GATEWAY_OPTIONS["data"], help="Data directory of the standalone or gateway, made if absent."
    ),
    **{name: option for name, option in GATEWAY_OPTIONS.items() if name.startswith("catalog")},
}


@click.command(help=HELP, short_help="Make the first user, before the first start.")
@click.option("--admin", "name", metavar="NAME", required=True, help="The name of the user.")
@password_file_option
@click.option(
    "--iterations",
    metavar="N",
    type=click.IntRange(FEWEST_ITERATIONS, MOST_ITERATIONS),
    default=FEWEST_ITERATIONS,
    show_default=True,
    help="How often the password is hashed: what it costs to guess it by what is kept.",
)
@click.option(
    "--kind",
    type=click.Choice(KINDS),
    help="What will be started on --data: 'dafka standalone', the same with --gateways, or 'dafka gateway'.  "
    "[default: what was started on it, else standalone]",
)
@click.option(
    "--if-not-exists",
    is_flag=True,
    help="Succeed where there are users already, and leave them as they are: for a command that runs before "
    "each start. The user is made only where there is none at all, so one who was deleted stays deleted "
    "while there are others.",
)
@setting_options(InitSettings, _OPTIONS)
def init(
    name: str,
    password_file: Path | None,
    iterations: int,
    kind: str | None,
    if_not_exists: bool,
    **flags: Any,
) -> None:
    """Make the user."""
    settings = load(InitSettings, _OPTIONS, flags)
    from dafka.operators.first_user import NotTheFirst, UserExists

    try:
        where = _add(settings, name, password_file, iterations, kind, if_not_exists)
    except UserExists:
        if not if_not_exists:
            raise
        click.echo(f"there is a user {name} already, who stays as he is")
    except NotTheFirst as said:
        click.echo(str(said))
    else:
        click.echo(f"created {name} in {where}")


def _add(
    settings: InitSettings,
    name: str,
    password_file: Path | None,
    iterations: int,
    kind: str | None,
    only_first: bool,
) -> object:
    """Where the user has been put. Raises UserExists, NotTheFirst, CommandFailed, DataDirectoryRefused,
    CatalogLost.
    """
    from dafka.commands.exits import CommandFailed
    from dafka.commands.passwords import new_password
    from dafka.operators import first_user

    if settings.catalog != "sqlite":
        password = new_password(name, password_file)
        return first_user.add_user_in_etcd(settings, name, password, iterations, only_first=only_first)
    found = first_user.kind_of(settings.data)
    if found is not None and kind not in {None, found}:
        raise CommandFailed(
            f"{settings.data} is the directory of another kind ({found}): leave --kind out, or give "
            "--data another directory"
        )
    password = new_password(name, password_file)
    return first_user.add_user(
        settings.data, found or kind or "standalone", name, password, iterations, only_first=only_first
    )
