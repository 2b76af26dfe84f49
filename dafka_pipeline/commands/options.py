"""What all commands take: which Kafka, which Spark, what is told, how the job stops."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from dafka_pipeline.failures import PipelineError, Stopped, UsageFailure
from dafka_pipeline.kafka.options import KafkaOptions, check_bootstrap
from dafka_pipeline.running.metrics import JobMetrics, served
from dafka_pipeline.running.report import Report
from dafka_pipeline.running.stopping import DEADLINE_SECONDS, Stop, stop_on_signals
from dafka_pipeline.spark.errors import explain_spark, is_sparks
from dafka_pipeline.spark.installed import check_extra
from dafka_pipeline.spark.session import SparkOptions, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BOOTSTRAP: Final = "127.0.0.1:9092"
PATIENCE_SECONDS: Final = 300.0
"""How long a job with an end waits for Kafka: a restart, and not the rest of the night."""


@dataclass
class Run:
    """One call of a command: its options, its voice, and whether it shall stop."""

    name: str
    kafka: KafkaOptions
    spark_options: SparkOptions
    report: Report
    stop: Stop
    deadline_seconds: float
    patience_given: float | None = None
    """`--patience`, in seconds."""

    @property
    def patience_seconds(self) -> float | None:
        """How long a job that has an end waits for a Kafka that is away."""
        return self.patience(for_ever=False)

    def patience(self, *, for_ever: bool) -> float | None:
        """As `patience_seconds`; a job without an end waits for ever (None) unless it was told otherwise."""
        if self.patience_given is not None:
            return self.patience_given
        return None if for_ever else PATIENCE_SECONDS

    @contextmanager
    def spark(self, *, avro: bool = False) -> Iterator[SparkSession]:
        """The Spark session of this call. Jobs that outlive the deadline of a stop are cancelled.

        What Spark raises in the block comes out as one of our failures.
        """
        with spark_session(self.spark_options, f"dafka-pipeline {self.name}", avro=avro) as session:
            self.stop.catch_again()
            self.stop.cancel_late(
                self.deadline_seconds, session.sparkContext.cancelAllJobs, self._say_that_it_stops
            )
            try:
                yield session
            except Exception as error:
                if not is_sparks(error) and not isinstance(error, OSError):
                    raise
                if self.stop.asked:
                    # The JVM got the signal, too (it is in the same process group), and went first.
                    raise Stopped("Stopped. The same command goes on.") from error
                raise explain_spark(error) from error

    def _say_that_it_stops(self) -> None:
        self.report.say(f"Stopping. What runs may finish within {self.deadline_seconds:,.0f} seconds.")


def pairs(values: Sequence[str], flag: str) -> Mapping[str, str]:
    """`NAME=VALUE`s. Raises UsageFailure for one without `=`."""
    found = {}
    for value in values:
        name, equals, rest = value.partition("=")
        if not equals or not name:
            raise UsageFailure(f"{flag} {name}: give it as NAME=VALUE.")
        found[name] = rest
    return found


def names(text: str, flag: str) -> tuple[str, ...]:
    """Topics `A,B`, sorted, each once. Raises UsageFailure where none is named."""
    found = tuple(sorted({name.strip() for name in text.split(",") if name.strip()}))
    if not found:
        raise UsageFailure(f"{flag} {text!r} names no topic: give one or more, as A,B.")
    return found


KAFKA_OPTIONS: Final = (
    click.option(
        "--bootstrap",
        default=BOOTSTRAP,
        show_default=True,
        metavar="HOST:PORT[,...]",
        envvar="DAFKA_BOOTSTRAP",
        help="The Kafka to work with.",
    ),
    click.option(
        "--kafka",
        "kafka",
        multiple=True,
        metavar="NAME=VALUE",
        help="A property of Kafka's Java clients, e.g. security.protocol=SASL_SSL. Repeatable.",
    ),
    click.option(
        "--kafka-file",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help="A file of such properties, one NAME=VALUE a line: keeps secrets off the command line.",
    ),
    click.option(
        "--librdkafka",
        multiple=True,
        metavar="NAME=VALUE",
        help="A property of librdkafka, where it differs from Java's. Repeatable.",
    ),
    click.option(
        "--patience",
        type=click.FloatRange(min=0),
        metavar="SECONDS",
        help="How long to wait for a Kafka that is away.  [default: 300, for ever where a job has no end]",
    ),
)


def job_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that every command of a job with Kafka has; it gets a `Run` as its first argument."""
    call = spark_options(function)
    for option in reversed(KAFKA_OPTIONS):
        call = option(call)
    return call


def spark_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a command that knows tables only; it gets a `Run` as its first argument."""

    @click.option(
        "--master",
        default="",
        metavar="MASTER",
        help="Spark's master, e.g. local[2], spark://HOST:7077, yarn.",
    )
    @click.option(
        "--conf", multiple=True, metavar="NAME=VALUE", help="A setting of Spark. Repeatable; it wins."
    )
    @click.option(
        "--jars",
        type=click.Path(path_type=Path),
        metavar="DIR",
        envvar="DAFKA_PIPELINE_JARS",
        help="A folder with the connector's and Delta's jars, where Maven cannot be reached.",
    )
    @click.option("--metrics", metavar="HOST:PORT", help="Serve Prometheus metrics there.")
    @click.option("--json", "as_json", is_flag=True, help="Tell everything as JSON, one object a line.")
    @click.option(
        "--stop-deadline",
        type=click.FloatRange(min=0),
        default=DEADLINE_SECONDS,
        show_default=True,
        metavar="SECONDS",
        help="How long a batch may go on after SIGTERM before it is cancelled.",
    )
    @click.option("--verbose", is_flag=True, help="Show Spark's own log.")
    @functools.wraps(function)
    def call(
        *,
        bootstrap: str = BOOTSTRAP,
        kafka: Sequence[str] = (),
        kafka_file: Path | None = None,
        librdkafka: Sequence[str] = (),
        master: str,
        conf: Sequence[str],
        jars: Path | None,
        metrics: str | None,
        as_json: bool,
        stop_deadline: float,
        patience: float | None = None,
        verbose: bool,
        **own: Any,
    ) -> Any:
        check_extra()
        check_bootstrap(bootstrap)
        name = function.__name__
        properties = {**_from_file(kafka_file), **pairs(kafka, "--kafka")}
        options = KafkaOptions(bootstrap, properties, pairs(librdkafka, "--librdkafka"))
        options.for_librdkafka()
        spark = SparkOptions(master, jars, pairs(conf, "--conf"), verbose)
        report = Report(name, as_json=as_json, hide=options.hide)
        with _told(report, options), _measured(report, name, metrics), stop_on_signals() as stop:
            return function(Run(name, options, spark, report, stop, stop_deadline, patience), **own)

    return call


@contextmanager
def _told(report: Report, options: KafkaOptions) -> Iterator[None]:
    """A failure ends the terminal's line, is told as JSON if that was asked for, and shows no secret."""
    try:
        yield
    except PipelineError as error:
        error.args = (options.hide(str(error)),)
        report.failed(error, error.exit_code)
        error.told = report.as_json
        raise
    finally:
        report.close()


@contextmanager
def _measured(report: Report, name: str, address: str | None) -> Iterator[None]:
    if address is None:
        yield
        return
    metrics = JobMetrics(name)
    with served(metrics, address) as bound:
        report.listen(metrics)
        report.say(f"Metrics are served on http://{bound}/metrics", metrics=bound)
        yield


def _from_file(file: Path | None) -> Mapping[str, str]:
    if file is None:
        return {}
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageFailure(f"--kafka-file {file} cannot be read as text: {error}.") from error
    lines = [line.strip() for line in text.splitlines()]
    return pairs(
        [line for line in lines if line and not line.startswith(("#", "!"))], f"--kafka-file {file}:"
    )
