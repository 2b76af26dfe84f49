"""`dafka doctor`."""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Final

import click

from dafka.commands.client_security import ClientSecurity
from dafka.commands.decorators import LOCAL_BOOTSTRAP, log_options, security_options
from dafka.commands.exits import EXIT_OK, EXIT_USAGE

HELP: Final = """Check that Spark, or any Kafka client, can use the server at HOST:PORT.

It asks what Spark's Kafka connector asks, in the same order, says what a failure means and what to do about
it, and prints the --packages line for your version of Spark. It changes nothing: no topic is created, no
record is written.

\b
Examples:
  dafka doctor 127.0.0.1:9092
  dafka doctor kafka.example:9092 --topic orders
  dafka doctor 127.0.0.1:9092 --data /var/lib/dafka/gateway

The exit code is 0 when Spark can read from it, and 2 when not.
"""


@click.command(help=HELP, short_help="Check that Spark can use a server, and say what to do if not.")
@click.argument("address", metavar="[HOST:PORT]", default=LOCAL_BOOTSTRAP)
@click.option(
    "--topic",
    "topics",
    metavar="NAME",
    multiple=True,
    help="A topic that should be there; may be given several times.  [default: all that are]",
)
@click.option(
    "--data",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Data directory of the gateway, if it runs on this machine: looks at native records on their way "
    "into and out of topics, too.",
)
@security_options
@log_options
def doctor(address: str, topics: Sequence[str], data: Path | None, security: ClientSecurity) -> int:
    """Print the findings; the exit code."""
    from dafka.commands.doctor_checks import Doctor, Verdict
    from dafka.commands.doctor_natives import look_at_natives
    from dafka.commands.kafka_client import parse_bootstrap

    host, port = parse_bootstrap(address)
    failed = False
    found: list[str] = []
    natives = () if data is None else look_at_natives(data)
    for finding in chain(Doctor(host, port, topics, security).examine(), natives):
        click.echo(f"{finding.verdict.value:<5} {finding.question}: {finding.text}")
        if finding.next_step:
            click.echo(f"      -> {finding.next_step}")
        failed = failed or finding.verdict is Verdict.FAILED
        if finding.verdict is Verdict.OK and finding.question.startswith("topic "):
            found.append(finding.question.removeprefix("topic "))
    click.echo("")
    if failed:
        click.echo("Spark cannot use it as it is: see the lines with FAIL.")
        return EXIT_USAGE
    _print_spark(address, found[0] if found else "TOPIC")
    return EXIT_OK


def _print_spark(address: str, topic: str) -> None:
    from dafka.commands.spark_packages import DEFAULT_SPARK, connector, installed_pyspark, java_is_there

    version = installed_pyspark()
    which = f"pyspark {version} is installed" if version else f"no pyspark here; for Spark {DEFAULT_SPARK}"
    click.echo(f"Spark can use it. The connector must have Spark's own version ({which}):")
    click.echo(f"  spark-submit --packages {connector(version or DEFAULT_SPARK)} your_job.py")
    click.echo(f'  spark.read.format("kafka").option("kafka.bootstrap.servers", "{address}")')
    click.echo(f'       .option("subscribe", "{topic}").option("startingOffsets", "earliest").load()')
    if not java_is_there():
        click.echo(
            "note  Java: none is found here. Spark 4 needs Java 17 or newer, on the PATH or as JAVA_HOME."
        )
