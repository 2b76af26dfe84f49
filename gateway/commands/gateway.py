"""`dafka gateway`."""

from pathlib import Path
from typing import Any

import click

from gateway.commands.configuration import load, with_partitions
from gateway.commands.decorators import config_option, setting_options
from gateway.commands.logs import set_up_logs
from gateway.commands.mesh_options import GATEWAY_OPTIONS
from gateway.settings import GatewaySettings

HELP = """Serve Kafka on stores that are processes of their own, found through a tower.

Any Kafka client and Spark's kafka source and sink can use it. At its very first start it waits for --stores
stores and makes them members; 'dafka store admit' adds later ones. It keeps no records itself: its data
directory has the catalog, which says what is where. One gateway serves a mesh.

\b
Try it, on one machine:
  dafka tower &
  for n in 1 2 3; do dafka store --data ./store-$n --name store-$n & done
  dafka gateway --data ./gateway --stores 3
"""


@click.command(help=HELP, short_help="Serve Kafka: one gateway of a mesh.")
@setting_options(GATEWAY_OPTIONS)
@config_option
def gateway(config: Path | None, **flags: Any) -> int:
    """Serve until a signal; the exit code."""
    settings = with_partitions(load(GatewaySettings, GATEWAY_OPTIONS, flags, config=config))
    set_up_logs(settings.log_level, settings.log_format)
    from gateway.gateway_process import run  # loads ZeroMQ, which --help has no need of

    return run(settings)
