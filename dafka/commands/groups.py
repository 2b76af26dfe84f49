"""`dafka groups`: show, reset and delete consumer groups, of a gateway or of any Kafka."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from dafka.commands.asking import count
from dafka.commands.client_security import Bootstrap
from dafka.commands.decorators import bootstrap_option, json_option, log_options
from dafka.commands.exits import CommandFailed
from dafka.commands.groups_reset import reset
from dafka.commands.groups_session import Session
from dafka.commands.tables import plain, print_json, print_table

if TYPE_CHECKING:
    from dafka.commands.cluster import Cluster
    from dafka.commands.groups_cluster import Described

HELP: Final = "Consumer groups: who is in them, how far they are. Of any Kafka: --bootstrap says which."

DESCRIBE_HELP: Final = """Show how far groups are: what they committed, where the log ends, who reads it.

\b
dafka groups describe payments
dafka groups describe payments --json
"""


@click.group(short_help="Show, reset and delete consumer groups.", help=HELP)
def groups() -> None:
    """The group."""


groups.add_command(reset)


@groups.command(name="list", short_help="List groups.", help="List groups, with their states.")
@bootstrap_option
@json_option
@log_options
def list_groups(bootstrap: Bootstrap, as_json: bool) -> None:
    """List groups."""
    with Session(bootstrap) as session:
        found = session.groups.list()
    if as_json:
        print_json([{"group": name, "type": kind, "state": state} for name, kind, state in found])
        return
    print_table(("group", "state", "type"), [(name, state, kind or "-") for name, kind, state in found])


@groups.command(short_help="Show how far groups are.", help=DESCRIBE_HELP)
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@bootstrap_option
@json_option
@log_options
def describe(names: Sequence[str], bootstrap: Bootstrap, as_json: bool) -> None:
    """Describe groups."""
    with Session(bootstrap) as session:
        shown = [_look(session, name) for name in dict.fromkeys(names)]
    if as_json:
        print_json(shown)
        return
    for number, group in enumerate(shown):
        if number:
            click.echo()
        members = count(len(group["members"]), "member")
        click.echo(
            f"group {group['group']}: {group['state']}, {members}, protocol {group['protocol'] or '-'}"
        )
        for member in group["members"]:
            assigned = _in_short(member["partitions"])
            who = member["instance"] or member["client"]
            click.echo(f"  {plain(who)} at {member['host']}: {assigned}")
        if group["offsets"]:
            titles = ("  topic", "partition", "committed", "end", "lag", "read by")
            print_table(titles, [_row(one) for one in group["offsets"]])


@groups.command(
    short_help="Delete groups.", help="Delete groups whose consumers are stopped, and their offsets."
)
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@bootstrap_option
@log_options
def delete(names: Sequence[str], bootstrap: Bootstrap) -> None:
    """Delete groups."""
    failures: list[str] = []
    with Session(bootstrap) as session:
        for name in dict.fromkeys(names):
            try:
                session.groups.delete(name)
            except CommandFailed as error:
                failures.append(str(error))
            else:
                click.echo(f"group {name} is deleted")
    if failures:
        raise CommandFailed(" ".join(failures))


def _look(session: Session, name: str) -> dict[str, Any]:
    group: Described = session.groups.describe(name)
    committed = session.groups.committed(name)
    readers = {
        (topic, index): member.instance_id or member.client_id
        for member in group.members
        for topic, indexes in (member.partitions or {}).items()
        for index in indexes
    }
    places = sorted(committed.keys() | readers.keys())
    ends = _ends(session.cluster, sorted({topic for topic, _ in places}))
    offsets = []
    for place in places:
        offset, end = committed.get(place), ends.get(place)
        offsets.append(
            {
                "topic": place[0],
                "partition": place[1],
                "committed": offset,
                "end": end,
                "lag": None if offset is None or end is None else max(0, end - offset),
                "member": readers.get(place),
            }
        )
    return {
        "group": name,
        "state": group.state,
        "type": group.protocol_type,
        "protocol": group.protocol,
        "members": [
            {
                "id": member.member_id,
                "instance": member.instance_id,
                "client": member.client_id,
                "host": member.host,
                "partitions": member.partitions,
            }
            for member in group.members
        ],
        "offsets": offsets,
    }


def _ends(cluster: Cluster, names: Sequence[str]) -> dict[tuple[str, int], int]:
    """The end of each partition; topics that are gone are left out."""
    if not names:
        return {}
    topics = [topic for topic in cluster.metadata(names).topics if not topic.error_code]
    return {
        (topic.name, index): end
        for topic in topics
        for index, end in cluster.offsets(topic, cluster.LATEST).items()
    }


def _row(one: dict[str, Any]) -> tuple[object, ...]:
    cells = (one["partition"], one["committed"], one["end"], one["lag"], one["member"])
    return f"  {one['topic']}", *("-" if cell is None else cell for cell in cells)


def _in_short(partitions: dict[str, list[int]] | None) -> str:
    if partitions is None:
        return "an assignment that is not a consumer's"
    if not partitions:
        return "no partitions"
    return " ".join(
        f"{topic}[{','.join(map(str, sorted(some)))}]" for topic, some in sorted(partitions.items())
    )
