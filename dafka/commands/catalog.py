"""`dafka catalog`: back a gateway's catalog up, and put a backup back."""

import sys
from pathlib import Path

import click

from dafka.commands.exits import CommandFailed
from dafka.settings import GatewaySettings

HELP = """Export a gateway's catalog to a file, and make a catalog from one.

The catalog says which topics there are, and what is where; the records are the stores'. The stores keep a
copy of it, and 'dafka gateway rebuild-catalog' reads a lost one back from them. An export is what can be kept
elsewhere, and read. 'dafka backup' takes the records too.

\b
  dafka catalog export --data ./gateway catalog.jsonl
  dafka catalog import --data ./new-gateway catalog.jsonl
"""

data_option = click.option(
    "--data",
    metavar="DIR",
    type=click.Path(path_type=Path),
    default=GatewaySettings().data,
    show_default=True,
    help="Data directory of the gateway, or of a standalone.",
)


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
@data_option
def export_command(file: Path, data: Path) -> None:
    """Export it."""
    from dafka.operators.catalog import export_catalog
    from mesh.data_directory import replace_file

    text = export_catalog(data)
    if str(file) == "-":
        sys.stdout.write(text)
        return
    replace_file(file, text.encode())
    click.echo(f"{file}: {text.count(chr(10)) - 2} entries")


@catalog.command(
    name="import",
    short_help="Make a catalog from such a file.",
    help="Make the catalog of a gateway whose data directory is empty, or not there, from an export. When "
    "the gateway starts, its stores are asked: if they remember more than the export has, it ends with 3, "
    "unless --older was given. Then partitions that were written to since serve nothing, and topics that "
    "were made since are not there: 'dafka gateway rebuild-catalog' is what brings all of them back.",
)
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@data_option
@click.option(
    "--older", is_flag=True, help="It is to count although it is older than what the stores remember."
)
def import_command(file: Path, data: Path, older: bool) -> None:
    """Import it."""
    from dafka.operators.catalog import import_catalog
    from gateway.cluster.exported import summary

    try:
        text = file.read_text()
    except UnicodeDecodeError:
        raise CommandFailed(f"{file}: it is no text. Give a file that 'dafka catalog export' made") from None
    for line in summary(import_catalog(data, text, older=older)):
        click.echo(line)
