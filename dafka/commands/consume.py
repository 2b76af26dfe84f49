"""`dafka consume`."""

from typing import Any

import click

from dafka.commands.configuration import load
from dafka.commands.decorators import setting_options
from dafka.commands.logs import set_up_logs
from dafka.commands.mesh_options import NATIVE_OPTIONS
from dafka.commands.produce import check_subject
from dafka.settings import NativeSettings

HELP = """Write each native Dafka record of SUBJECT as a line to standard output, until Ctrl-C.

Records of one producer come in its order, each once. Of Kafka topics it shows what a gateway publishes while
it listens, as whole record batches and before they count; stores tell it nothing of those.

\b
Try it, with 'dafka tower' and 'dafka store' on the same machine:
  echo hello | dafka produce greetings
  dafka consume greetings --from-beginning
"""
EPILOG = (
    "Exit codes: 0 it was stopped, or has written --max-records; 2 the command line or the environment is "
    "wrong. --tower is also read from DAFKA_TOWER."
)


@click.command(help=HELP, short_help="Write native Dafka records as lines.", epilog=EPILOG)
@click.argument("subject")
@click.option(
    "--from-beginning",
    is_flag=True,
    help="What stores have kept, too. Without it, what is published from now on.",
)
@click.option(
    "--with-address",
    is_flag=True,
    help="Put the subject and the producer's address before each record, as the C console consumer does.",
)
@click.option(
    "--max-records",
    metavar="N",
    type=click.IntRange(0),
    default=0,
    help="End after so many.  [default: none]",
)
@setting_options(NativeSettings, NATIVE_OPTIONS)
def consume(subject: str, from_beginning: bool, with_address: bool, max_records: int, **flags: Any) -> None:
    """Write until a signal."""
    check_subject(subject)
    from dafka.commands import native_tools  # loads ZeroMQ, which --help has no need of

    settings = load(NativeSettings, NATIVE_OPTIONS, flags)
    set_up_logs(settings.log_level, settings.log_format)
    native_tools.consume(
        settings,
        subject,
        from_beginning=from_beginning,
        with_address=with_address,
        max_records=max_records,
    )
