"""`dafka standalone`."""

from pathlib import Path
from typing import Any

import click

from dafka.commands.configuration import (
    load_settings,
    of_one_kind,
    with_doors_of_something,
    with_guarded_pages,
    with_known_gateways,
    with_known_listener,
)
from dafka.commands.decorators import config_option, set_elsewhere, setting_options
from dafka.commands.logs import set_up_logs
from dafka.commands.options import OPTIONS
from dafka.processes.interpreter import loading
from dafka.processes.parent import STARTED_BY  # noqa: F401 - noted now: it may end while all else is loaded
from dafka.settings import Settings

HELP = """Serve Kafka from one process, or from several gateways of this machine, with all data in one
directory.

Any Kafka client and Spark's kafka source and sink can use it. What was acknowledged with the default
settings survives the death of the process and the loss of power. SIGTERM or Ctrl-C stops it within ten
seconds, a second one at once.

\b
Try it:
  dafka standalone --data ./data --topics orders:4
  echo hello | kcat -b 127.0.0.1:9092 -t orders -P
  kcat -b 127.0.0.1:9092 -t orders -C -e

\b
A cluster of three gateways and three stores, as processes that this one keeps running:
  dafka standalone --gateways 3 --data ./cluster

\b
For a test, in any language (docs/testing.md):
  dafka standalone --ephemeral --listen 127.0.0.1:0 --port-file ./bootstrap
"""


@click.command(
    help=HELP,
    short_help="Serve Kafka: gateway, store and mesh in one process.",
    epilog=set_elsewhere("fsync_interval_ms", "1000"),
)
@setting_options(Settings, OPTIONS)
@config_option
def standalone(config: Path | None, **flags: Any) -> int:
    """Serve until a signal; the exit code."""
    settings = with_known_listener(of_one_kind(load_settings(flags, config=config)))
    settings = with_doors_of_something(with_guarded_pages(settings))
    with_known_gateways(settings, is_alone=not settings.gateways)
    set_up_logs(settings.log_level, settings.log_format)
    with loading():
        from dafka.processes.standalone import run  # loads ZeroMQ and RocksDB, which --help has no need of

    return run(settings)
