"""`dafka catalog`: back a gateway's catalog up, and put a backup back."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click

from dafka.commands.configuration import load
from dafka.commands.decorators import setting_options
from dafka.commands.exits import CommandFailed
from dafka.commands.mesh_options import GATEWAY_OPTIONS
from dafka.settings import GatewaySettings

HELP = """Export a gateway's catalog to a file, and make a catalog from one.

The catalog says which topics there are, and what is where; the records are the stores'. The stores keep a
copy of it, and 'dafka gateway rebuild-catalog' reads a lost one back from them. An export is what can be kept
elsewhere, and read. 'dafka backup' takes the records too.

\b
  dafka catalog export --data ./gateway catalog.jsonl
  dafka catalog import --data ./new-gateway catalog.jsonl
  dafka catalog import --catalog etcd://n1:2379,n2:2379,n3:2379 catalog.jsonl
"""

_OPTIONS: Final = {
    "data": replace(
        GATEWAY_OPTIONS["data"], help="Data directory of the gateway, or of a standalone, if not --catalog."
    ),
    **{name: option for name, option in GATEWAY_OPTIONS.items() if name.startswith("catalog")},
}


@click.group(help=HELP, short_help="Back the catalog up, and put a backup back.")
def catalog() -> None:
    """A group."""


@catalog.command(
    name="export",
    short_help="Write the catalog to a file.",
    help="Write the catalog to FILE, or to standard output (-): JSON lines, of one moment. A gateway or "
    "standalone that runs is asked.",
)
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@setting_options(GatewaySettings, _OPTIONS)
def export_command(file: Path, **flags: Any) -> None:
    """Export it."""
    settings = load(GatewaySettings, _OPTIONS, flags)
    from dafka.operators.catalog import export_catalog, export_from_etcd
    from mesh.data_directory import replace_file

    is_file = settings.catalog == "sqlite"
    text = export_catalog(settings.data) if is_file else export_from_etcd(settings)
    if str(file) == "-":
        sys.stdout.write(text)
        return
    replace_file(file, text.encode())
    click.echo(f"{file}: {text.count(chr(10)) - 2} entries")


@catalog.command(
    name="import",
    short_help="Make a catalog from such a file.",
    help="Make the catalog of a gateway from an export, in a data directory or an etcd without one. When "
    "the gateway starts, its stores are asked: if they remember more than the export has, it ends with 3, "
    "unless --older was given. Then partitions that were written to since serve nothing, and topics that "
    "were made since are not there: 'dafka gateway rebuild-catalog' is what brings all of them back.",
)
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@setting_options(GatewaySettings, _OPTIONS)
@click.option(
    "--older", is_flag=True, help="It is to count although it is older than what the stores remember."
)
def import_command(file: Path, older: bool, **flags: Any) -> None:
    """Import it."""
    settings = load(GatewaySettings, _OPTIONS, flags)
    from dafka.operators.catalog import import_catalog, import_into_etcd
    from gateway.cluster.exported import summary

    try:
        text = file.read_text()
    except UnicodeDecodeError:
        raise CommandFailed(f"{file}: it is no text. Give a file that 'dafka catalog export' made") from None
    if settings.catalog == "sqlite":
        found = import_catalog(settings.data, text, older=older)
    else:
        found = import_into_etcd(settings, text, older=older)
    for line in summary(found):
        click.echo(line)
