"""`dafka produce`."""

from typing import Any

import click

from dafka.commands.configuration import load
from dafka.commands.decorators import setting_options
from dafka.commands.exits import CommandFailed
from dafka.commands.logs import set_up_logs
from dafka.commands.mesh_options import NATIVE_OPTIONS
from dafka.settings import NativeSettings

HELP = """Publish each line of standard input as a native Dafka record of SUBJECT.

Stores keep the records, native consumers (dafka consume, and C ones) hear them at once. They are no Kafka
topic's: Kafka clients do not see them. At the end of the input, or with Ctrl-C, it waits until a store has
acknowledged everything.

\b
Try it, with 'dafka tower' and 'dafka store' on the same machine:
  echo hello | dafka produce greetings
  dafka consume greetings --from-beginning
"""
EPILOG = (
    "Exit codes: 0 everything was acknowledged, 2 something was not (the message says what) or the command "
    "line is wrong. --tower is also read from DAFKA_TOWER."
)


@click.command(help=HELP, short_help="Publish lines as native Dafka records.", epilog=EPILOG)
@click.argument("subject")
@click.option(
    "--stores",
    metavar="N",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="Keep each record until so many different stores have acknowledged it. C stores do not say which "
    "one they are: all of them together count as one.",
)
@click.option(
    "--wait-seconds",
    metavar="S",
    type=click.FloatRange(0),
    default=30.0,
    show_default=True,
    help="How long to wait at the end for what was not acknowledged.",
)
@setting_options(NativeSettings, NATIVE_OPTIONS)
def produce(subject: str, stores: int, wait_seconds: float, **flags: Any) -> None:
    """Publish until the end of the input."""
    check_subject(subject)
    from dafka.commands import native_tools  # loads ZeroMQ, which --help has no need of

    settings = load(NativeSettings, NATIVE_OPTIONS, flags)
    set_up_logs(settings.log_level, settings.log_format)
    native_tools.produce(settings, subject, stores, wait_seconds)


def check_subject(subject: str) -> None:
    """Raises CommandFailed for what cannot be a subject on the mesh."""
    if not 1 <= len(subject.encode(errors="surrogatepass")) <= 255 or not subject.isprintable():
        raise CommandFailed(f"{subject[:32]!r} is no subject: 1 to 255 bytes of printable text are")
