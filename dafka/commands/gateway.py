"""`dafka gateway`."""

from pathlib import Path
from typing import Any

import click

from dafka.commands.configuration import (
    load,
    with_doors_of_something,
    with_guarded_pages,
    with_known_gateways,
    with_known_listener,
    with_one_catalog,
    with_partitions,
)
from dafka.commands.decorators import config_option, set_elsewhere, setting_options
from dafka.commands.logs import set_up_logs
from dafka.commands.mesh_options import GATEWAY_OPTIONS, REBUILD_OPTIONS
from dafka.processes.interpreter import loading
from dafka.settings import GatewaySettings

HELP = """Serve Kafka on stores that are processes of their own, found through a tower.

Any Kafka client and Spark's kafka source and sink can use it. At its very first start it waits for --stores
stores and makes them members; 'dafka store admit' adds later ones. It keeps no records itself: its data
directory has the catalog, which says what is where. With the catalog in an etcd several gateways share a
mesh, each with a --gateway-id of its own: each leads a part of the partitions, and the others take that over
when it is gone. A second process with the same id waits to take the first one's place.

\b
Try it, on one machine:
  dafka tower &
  for n in 1 2 3; do dafka store --data ./store-$n --name store-$n & done
  dafka gateway --data ./gateway --stores 3
"""


@click.group(
    help=HELP,
    short_help="Serve Kafka: one gateway of a mesh.",
    epilog=set_elsewhere("stores", "3"),
    invoke_without_command=True,
)
@setting_options(GatewaySettings, GATEWAY_OPTIONS)
@config_option
@click.pass_context
def gateway(context: click.Context, /, config: Path | None, **flags: Any) -> int | None:
    """Serve until a signal; the exit code. With a subcommand, only that is done."""
    if context.invoked_subcommand is not None:
        return None
    settings = load(GatewaySettings, GATEWAY_OPTIONS, flags, config=config)
    settings = with_partitions(with_one_catalog(with_known_listener(settings)))
    with_known_gateways(settings, is_alone=settings.catalog == "sqlite")
    settings = with_doors_of_something(with_guarded_pages(settings))
    set_up_logs(settings.log_level, settings.log_format)
    with loading():
        from dafka.processes.gateway import run  # loads ZeroMQ, which --help has no need of

    return run(settings)


@gateway.command(
    name="rebuild-catalog",
    short_help="Read a lost catalog back from the stores.",
    help="Set the catalog in the data directory aside, if there is one, and read it back from the stores: "
    "topics, configs, segments and epochs. Waits for --stores of them, says what it found, and ends; "
    "'dafka gateway' then serves it. The gateway must not run meanwhile.",
)
@setting_options(GatewaySettings, REBUILD_OPTIONS)
@config_option
@click.pass_context
def rebuild_catalog(context: click.Context, /, config: Path | None, **flags: Any) -> int:
    """Rebuild the catalog; the exit code."""
    before = context.parent.params if context.parent is not None else {}
    given = {name: before.get(name) if value in (None, ()) else value for name, value in flags.items()}
    config = config or before.get("config")
    settings = load(GatewaySettings, GATEWAY_OPTIONS, given | {"rebuild_catalog": True}, config=config)
    set_up_logs(settings.log_level, settings.log_format)
    from dafka.processes.rebuild_catalog import run

    return run(settings)
