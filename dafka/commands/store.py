"""`dafka store`, and below it what is done with the stores of a mesh."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dafka.commands.configuration import load, with_doors_of_something
from dafka.commands.decorators import (
    config_option,
    gateway_data_option,
    json_option,
    set_elsewhere,
    setting_options,
)
from dafka.commands.exits import CommandFailed
from dafka.commands.logs import set_up_logs
from dafka.commands.mesh_options import STORE_OPTIONS
from dafka.commands.tables import print_json, print_table, size, there
from dafka.processes.interpreter import loading
from dafka.settings import MeshStoreSettings

if TYPE_CHECKING:
    from dafka.operators.damaged_log import DamagedLog
    from dafka.operators.lost_stores import LostStores

HELP = """Keep records for gateways, and for native Dafka producers: one store of a mesh.

It finds the gateways and the other stores through a tower. What it acknowledged is on its disk; what it
missed while it was away it fetches from the others by itself.

\b
Try it, with a tower and a gateway on the same machine:
  dafka tower &
  dafka store --data ./store-1 --name one &
  dafka gateway --data ./gateway --stores 1
"""


@click.group(
    help=HELP,
    short_help="Keep records: one store of a mesh.",
    epilog=set_elsewhere("fsync_interval_ms", "1000"),
    invoke_without_command=True,
)
@setting_options(MeshStoreSettings, STORE_OPTIONS)
@config_option
@click.pass_context
def store(context: click.Context, /, config: Path | None, **flags: Any) -> int | None:
    """Serve until a signal; the exit code. With a subcommand, only that is done."""
    if context.invoked_subcommand is not None:
        return None
    settings = with_doors_of_something(load(MeshStoreSettings, STORE_OPTIONS, flags, config=config))
    set_up_logs(settings.log_level, settings.log_format)
    with loading():
        from dafka.processes.store import run  # loads ZeroMQ and RocksDB, which --help has no need of

    return run(settings)


@store.command(
    name="list",
    short_help="List the stores.",
    help="Show the stores of a running gateway: those that count, and those that were heard of and do not.",
)
@gateway_data_option
@json_option
def list_stores(data: Path, as_json: bool) -> None:
    """List stores."""
    stores = _ask(data, "stores.list")
    if as_json:
        print_json(stores)
        return
    rows: list[Sequence[object]] = [
        (
            entry["id"] or "-",
            entry["name"] or "-",
            entry["state"] + (f" ({entry['replacement']})" if entry["replacement"] else ""),
            there(entry),
            size(entry["free_bytes"]),
            entry["incarnation"],
        )
        for entry in stores
    ]
    print_table(("id", "name", "state", "there", "free", "incarnation"), rows)
    for entry in stores:
        if entry["refused"]:
            click.echo(f"store {entry['id'] or entry['incarnation']}: {entry['refused']}", err=True)


@store.command(
    short_help="Let another store count.",
    help="Have a store that the gateway has heard of keep new segments from now on. It is named by its name "
    "or its incarnation.",
)
@click.argument("name")
@gateway_data_option
def admit(name: str, data: Path) -> None:
    """Admit one store."""
    done = _ask(data, "stores.admit", store=name)
    click.echo(f"store {done['id']} ({done['name']}) is admitted: incarnation {done['incarnation']}")


@store.command(
    short_help="Let one store take another one's place.",
    help="Have store NEW take the place of store OLD: it copies all that OLD keeps, from any store that has "
    "it, and new segments go to it. It may take long, and goes on over restarts; 'dafka store list' shows "
    "how far it is. Then OLD may be removed. Both are named by id, name or incarnation.",
)
@click.argument("old")
@click.argument("new")
@gateway_data_option
def replace(old: str, new: str, data: Path) -> None:
    """Begin a replacement."""
    done = _ask(data, "stores.replace", store=old, by=new)
    before, after = done["old"], done["new"]
    click.echo(
        f"store {after['id']} ({after['name']}) takes the place of store {before['id']} ({before['name']}); "
        "'dafka store list' shows how far it is"
    )


@store.command(
    short_help="Let a store count no more.",
    help="Remove a store that no segment counts on any more. It is named by its id, name or incarnation.",
)
@click.argument("name")
@gateway_data_option
def remove(name: str, data: Path) -> None:
    """Remove one store."""
    done = _ask(data, "stores.remove", store=name)
    click.echo(f"store {done['id']} ({done['name']}) is removed")


@store.command(
    short_help="Check a stopped store's data.",
    help="Read every byte of a stopped store and check it: checksums, sequences, offsets, heads. DIR is "
    "what was given to --data, of a store or of 'dafka standalone'. Nothing is changed. Exit code 3 if "
    "something is wrong.",
)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@json_option
def verify(directory: Path, as_json: bool) -> int:
    """Check one data directory."""
    from dafka.operators.verify import verify_store  # loads RocksDB

    report = verify_store(directory)
    if as_json:
        print_json(report.as_json)
    else:
        for line in report.lines:
            click.echo(line)
    return report.exit_code


@store.command(
    name="restored",
    short_help="Make another store of one that was put back from a copy.",
    help="""Have a stopped store, whose directory was put back from a copy, be another store. It keeps what is
there, and nobody counts on it for what it lacks.

\b
Try it:
  dafka store restored --data ./store-3
  dafka store --data ./store-3 &
  dafka store admit NEW && dafka store replace OLD NEW
""",
)
@click.option(
    "--data",
    metavar="DIR",
    required=True,
    type=click.Path(path_type=Path),
    help="The data directory of the stopped store.",
)
def restored(data: Path) -> None:
    """Make another store of one."""
    from dafka.operators.restored import restored as make_another  # loads RocksDB

    for line in make_another(data):
        click.echo(line)


@store.command(
    name="accept-loss",
    short_help="Give up what cannot be had any more.",
    help="""The last resort, when there is no copy to restore. What is given up is named, segment by segment,
before anything is done, and asked for.

\b
With DIR: the data directory of a stopped store whose write-ahead log is
damaged, or lacks what was acknowledged. The log is cut there, and it
becomes another store.
With --gone: stores that are lost for good, so many that partitions wait for
them. The stores that are left decide where those partitions end.

\b
Try it:
  dafka store accept-loss ./store-3
  dafka store accept-loss --gone store-1 --gone store-2 --data ./gateway
""",
)
@click.argument("directory", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@click.option(
    "--gone", metavar="STORE", multiple=True, help="A store that is lost, by id, name or incarnation."
)
@click.option("--yes", is_flag=True, help="Do not ask: for programs.")
@gateway_data_option
def accept_loss(directory: Path | None, gone: Sequence[str], yes: bool, data: Path) -> None:
    """Give something up."""
    from dafka.operators.damaged_log import DamagedLog  # loads RocksDB
    from dafka.operators.lost_stores import LostStores

    if (directory is None) == (not gone):
        raise CommandFailed(
            "name either DIR, of a store whose log is damaged, or --gone, stores that are lost"
        )
    if directory is None:
        _give_up(LostStores(data, gone), yes=yes)
        return
    with DamagedLog(directory, data) as damaged:
        _give_up(damaged, yes=yes)


def _give_up(loss: "DamagedLog | LostStores", *, yes: bool) -> None:
    for line in loss.given_up():
        click.echo(line)
    if not yes:
        if not sys.stdin.isatty():
            raise CommandFailed("nothing was changed: read what is given up, and run it again with --yes")
        if not click.confirm("Give this up?"):
            raise CommandFailed("nothing was changed")
    for line in loss.give_up():
        click.echo(line)


def _ask(data: Path, do: str, **details: Any) -> Any:
    from dafka.operators.socket import ask  # loads trio

    return ask(data, do, **details)
