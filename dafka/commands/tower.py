"""`dafka tower`."""

from pathlib import Path
from typing import Any

import click

from dafka.commands.configuration import load, with_doors_of_something
from dafka.commands.decorators import config_option, set_elsewhere, setting_options
from dafka.commands.logs import set_up_logs
from dafka.commands.mesh_options import TOWER_OPTIONS
from dafka.processes.interpreter import loading
from dafka.settings import TowerSettings

HELP = """Introduce the nodes of a mesh to each other: stores, gateways, and native Dafka programs.

Nothing but beacons passes through a tower, and it keeps nothing. While it is down, nodes that know each other
go on; new ones are not found. Give nodes several towers (--tower, repeated) where that matters. SIGTERM or
Ctrl-C stops it at once.

\b
Try it:
  dafka tower
  dafka store --tower 127.0.0.1 --data ./store
  dafka gateway --tower 127.0.0.1 --data ./gateway
"""


@click.command(
    help=HELP,
    short_help="Introduce the nodes of a mesh to each other.",
    epilog=set_elsewhere("port_in", "5556"),
)
@setting_options(TowerSettings, TOWER_OPTIONS)
@config_option
def tower(config: Path | None, **flags: Any) -> int:
    """Serve until a signal; the exit code."""
    settings = with_doors_of_something(load(TowerSettings, TOWER_OPTIONS, flags, config=config))
    set_up_logs(settings.log_level, settings.log_format)
    with loading():
        from dafka.processes.tower import run  # loads ZeroMQ, which --help has no need of

    return run(settings)
