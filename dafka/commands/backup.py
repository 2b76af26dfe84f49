"""`dafka backup`: take backups of a running gateway, look at them, read them back, prune them."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dafka.commands.decorators import json_option
from dafka.settings import GatewaySettings

if TYPE_CHECKING:
    from dafka.backup.manifest import Manifest

HELP = """Back a whole cluster up while it runs: topics, records, groups' offsets, configs.

TARGET is a directory, on another disk than the stores', or s3://BUCKET/PATH (with the extra [s3]; keys,
region and endpoint are those of the environment: AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL and so on). Only what
is new since the last backup is copied. 'dafka restore' puts a backup into empty stores.

\b
  dafka backup take /backups/prod --data ./gateway
  dafka backup list /backups/prod
  dafka backup verify /backups/prod
  dafka backup prune /backups/prod --keep 14
  dafka restore /backups/prod --data ./new-gateway --stores 3
"""

EXIT_INCOMPLETE = 3


@click.group(help=HELP, short_help="Back a cluster up: take, list, verify, prune.")
def backup() -> None:
    """A group."""


target_argument = click.argument("target")


@backup.command(
    short_help="Take a backup of a running gateway.",
    help="Take a backup of the gateway, or standalone, that runs on --data, as it is at one moment. "
    "Producers and consumers go on. What earlier backups in TARGET have is not copied again. If it is "
    "interrupted repeat it: it goes on with what it has. Exit code 3: it was taken, and lacks something, "
    "which is named.",
)
@target_argument
@click.option(
    "--data",
    metavar="DIR",
    type=click.Path(path_type=Path),
    default=GatewaySettings().data,
    show_default=True,
    help="Data directory of the running gateway, or standalone: it is asked through a socket there.",
)
@json_option
def take(target: str, data: Path, *, as_json: bool) -> int:
    """Take one; the exit code."""
    from dafka.backup.taking import Taking
    from dafka.backup.target import open_target
    from dafka.operators.catalog import gateway_directory

    def say(line: str) -> None:
        click.echo(line, err=True)

    taken = Taking(gateway_directory(data), open_target(target, make=True), say).run()
    manifest = taken.manifest
    if as_json:
        told = {"objects": taken.objects, "copied_bytes": taken.copied}
        click.echo(json.dumps(_summary(manifest) | told))
    else:
        click.echo(f"backup {manifest.id}: {_sizes(manifest)}, {taken.copied / 1e6:,.1f} MB of it new")
    return _tell_gaps(manifest)


@backup.command(name="list", short_help="Which backups there are.")
@target_argument
@json_option
def list_backups(target: str, *, as_json: bool) -> int:
    """Which backups there are, oldest first."""
    from dafka.backup.manifest import BadManifest
    from dafka.backup.reading import all_ids, read_manifest
    from dafka.backup.target import open_target

    opened, code, rows = open_target(target), 0, []
    for each in all_ids(opened):
        try:
            manifest = read_manifest(opened, each)
        except BadManifest as error:
            click.echo(str(error), err=True)
            code = EXIT_INCOMPLETE
            continue
        rows.append(_summary(manifest))
        if not as_json:
            gaps = f", {len(manifest.gaps)} gaps" if manifest.gaps else ""
            click.echo(f"{manifest.id}  {_sizes(manifest)}{gaps}")
    if as_json:
        click.echo(json.dumps(rows))
    return code


@backup.command(
    short_help="Read a backup back and check it.",
    help="Read everything that a backup needs, and check it: each object's SHA-256, each batch's checksum, "
    "its offsets and its epoch, and each log for holes. What is damaged or missing is named, with the "
    "partition and the offsets; exit code 3. Delete a damaged object: the next backup copies it again, if "
    "the log still has it.",
)
@target_argument
@click.option("--backup", "chosen", metavar="ID", help="The backup; the newest without it.")
@click.option("--all", "everything", is_flag=True, help="All backups.")
def verify(target: str, chosen: str | None, *, everything: bool) -> int:
    """Verify; the exit code."""
    from dafka.backup.reading import Verification, all_ids, choose, read_manifest
    from dafka.backup.target import open_target

    opened, code = open_target(target), 0
    ids = all_ids(opened) if everything else [choose(opened, chosen)]
    verification = Verification(opened)
    for each in ids:
        manifest = read_manifest(opened, each)
        faults = verification.check(manifest)
        for fault in faults:
            click.echo(fault, err=True)
        gaps = _tell_gaps(manifest)
        code = EXIT_INCOMPLETE if faults or gaps else code
        outcome = f"{len(faults)} faults" if faults else "all of it is there and good"
        click.echo(f"backup {each}: {_sizes(manifest)}: {outcome}")
    return code


@backup.command(
    short_help="Delete old backups.",
    help="Delete all but the newest --keep backups, and the objects that none of those needs. While a "
    "backup is being taken into TARGET it refuses.",
)
@target_argument
@click.option("--keep", metavar="N", type=click.IntRange(min=1), required=True, help="Backups that stay.")
@click.option("--dry-run", is_flag=True, help="Say what would be deleted.")
def prune(target: str, keep: int, *, dry_run: bool) -> int:
    """Prune; the exit code."""
    from dafka.backup.reading import prune as prune_target
    from dafka.backup.target import open_target

    pruned = prune_target(open_target(target), keep, dry_run=dry_run)
    for each in pruned.backups:
        click.echo(f"backup {each}: {'would go' if dry_run else 'deleted'}")
    would = "would be " if dry_run else ""
    click.echo(f"{len(pruned.objects)} objects, {pruned.bytes / 1e6:,.1f} MB, {would}deleted")
    return 0


def _summary(manifest: "Manifest") -> dict[str, object]:
    return {
        "id": manifest.id,
        "taken_ms": manifest.taken_ms,
        "cluster": manifest.cluster,
        "topics": len(manifest.topics),
        "partitions": len(manifest.partitions),
        "bytes": manifest.size,
        "gaps": len(manifest.gaps),
    }


def _sizes(manifest: "Manifest") -> str:
    topics, partitions = len(manifest.topics), len(manifest.partitions)
    return f"{topics} topics, {partitions} partitions, {manifest.size / 1e6:,.1f} MB"


def _tell_gaps(manifest: "Manifest") -> int:
    for partition, gap in manifest.gaps:
        end = "its end" if gap.end < 0 else f"offset {gap.end}"
        click.echo(f"{partition.name} lacks what is from offset {gap.start} to {end}: {gap.why}", err=True)
    return EXIT_INCOMPLETE if manifest.gaps else 0
