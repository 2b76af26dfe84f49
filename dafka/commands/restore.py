"""`dafka restore`."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from dafka.commands.configuration import load
from dafka.commands.decorators import setting_options
from dafka.commands.exits import CommandFailed
from dafka.commands.logs import set_up_logs
from dafka.commands.mesh_options import GATEWAY_OPTIONS, ON_THE_MESH
from dafka.settings import GatewaySettings, Settings

HELP = """Put a backup back: into the empty stores of a new mesh, or into a directory for 'dafka standalone'.

TARGET is where 'dafka backup take' has put it. Offsets, topic ids, configs, groups' offsets and idempotent
producers go on as they were. The cluster is a new one, so what is left of the old one is refused. If it is
interrupted repeat it with the same options: it goes on where it was.

\b
  dafka restore /backups/prod --data ./data                      # then: dafka standalone --data ./data
\b
  dafka tower &                                                  # a mesh: empty stores first
  for n in 1 2 3; do dafka store --data ./new-store-$n --name new-$n & done
  dafka restore /backups/prod --data ./new-gateway --stores 3    # then: dafka gateway --data ./new-gateway
\b
  dafka restore /backups/prod --data ./data --before 2026-11-23T08:00:00Z
"""

MESH_OPTIONS = {name: GATEWAY_OPTIONS[name] for name in ON_THE_MESH}
LOG_OPTIONS = {name: GATEWAY_OPTIONS[name] for name in ("log_level", "log_format")}


def _moment(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise CommandFailed(f"--before {text}: no such time. Write it as 2026-11-23T08:00:00Z") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


@click.command(help=HELP, short_help="Put a backup back into empty stores.")
@click.argument("target")
@click.option(
    "--data",
    metavar="DIR",
    type=click.Path(path_type=Path),
    required=True,
    help="An empty directory, or none: that of the new gateway with --stores, else that of a standalone.",
)
@click.option(
    "--stores",
    metavar="N",
    type=click.IntRange(min=1),
    help="Restore into so many empty stores, which run and are found through --tower.",
)
@click.option("--backup", "chosen", metavar="ID", help="The backup; else the newest, or that of --before.")
@click.option(
    "--before",
    metavar="TIME",
    help="Leave out what was appended after this time (ISO 8601, UTC unless it says otherwise), by whole "
    "segments: a log ends with the last segment that was closed by then. Without --backup of the first one "
    "that was taken after it.",
)
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Restore a backup that lacks something: such a log begins after it.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be restored.")
@setting_options(GatewaySettings, {**MESH_OPTIONS, **LOG_OPTIONS})
def restore(
    target: str,
    data: Path,
    stores: int | None,
    chosen: str | None,
    before: str | None,
    *,
    accept_loss: bool,
    dry_run: bool,
    **flags: Any,
) -> int:
    """Restore it; the exit code."""
    from dafka.backup.plan import plan
    from dafka.backup.reading import choose, choose_before, read_manifest
    from dafka.backup.target import open_target

    settings = load(GatewaySettings, GATEWAY_OPTIONS, flags)
    set_up_logs(settings.log_level, settings.log_format)
    opened = open_target(target)
    before_ms = None if before is None else _moment(before)
    if before_ms is not None and chosen is None:
        chosen = choose_before(opened, before_ms)
    manifest = read_manifest(opened, choose(opened, chosen))
    planned = plan(manifest, before_ms, accept_loss=accept_loss)
    for each in planned:
        if each.lost or dry_run:
            left_out = f", {each.lost} offsets left out" if each.lost else ""
            click.echo(f"{each.saved.name}: offsets {each.log_start} to {each.end}{left_out}")
    if dry_run:
        return 0
    from dafka.processes.restore import Work, restore_mesh, restore_standalone

    work = Work(opened, manifest, planned, before_ms, lambda line: click.echo(line, err=True))
    if stores is None:
        served = "dafka standalone"
        whole = restore_standalone(Settings(data=data, log_level=settings.log_level), work)
    else:
        served = "dafka gateway"
        mesh = {name: getattr(settings, name) for name in MESH_OPTIONS}
        whole = restore_mesh(GatewaySettings(data=data, stores=stores, **mesh), work)
    if not whole:
        raise CommandFailed("interrupted: repeat it, and it goes on where it was")
    size = sum(segment.size for each in planned for segment in each.segments)
    click.echo(
        f"backup {manifest.id} is restored: {len(manifest.topics)} topics, {size / 1e6:,.1f} MB. "
        f"'{served}' with the same --data serves it."
    )
    return 0
