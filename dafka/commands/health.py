"""`dafka health`."""

import os
import socket
import time
from typing import Final

import click

from dafka.commands import parsing
from dafka.commands.configuration import ConfigurationError
from dafka.commands.exits import EXIT_OK
from dafka.commands.options import variable_of
from gateway.front.listeners import ListenerSpec, join_host_port

DEFAULT_METRICS: Final = "127.0.0.1:9404"
"""Where the image and the files in deploy/ serve metrics."""

LOOPBACK: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared with, not bound
"""By what address a process is reached on its own machine that listens on all of them."""

EXIT_UNHEALTHY: Final = 1
"""What container runtimes want; 2 and above is not theirs to read."""

MAX_ANSWER_BYTES: Final = 64 * 1024
"""Bytes: an answer has a hundred; more comes from something else."""

MAX_SECONDS: Final = 3600
"""Seconds: an hour. Whoever runs a check gives up before."""

HELP: Final = """Ask a running process of this machine whether it is ready.

The process (standalone, gateway, store or tower) must serve --metrics; where is read from $DAFKA_METRICS,
which both of them see, or given here. It needs neither a shell nor curl, as a container may have none. Exit
code 0: ready, or with --live just alive; 1: not, or nothing answers, and the line on standard error says why.

\b
Examples:
  dafka health
  dafka health --metrics 127.0.0.1:9100 --live
"""


@click.command(help=HELP, short_help="Ask a process of this machine whether it is ready.")
@click.option(
    "--metrics",
    "where",
    metavar="HOST:PORT",
    help=f"Where the process serves metrics.  [default: ${variable_of('metrics')}, else {DEFAULT_METRICS}]",
)
@click.option(
    "--tls",
    "over_tls",
    is_flag=True,
    help=f"It serves them over TLS.  [default: ${variable_of('metrics_tls')}]",
)
@click.option("--live", is_flag=True, help="Ask only whether it answers at all.")
@click.option(
    "--timeout-seconds",
    metavar="S",
    default=2,
    show_default=True,
    type=click.IntRange(1, MAX_SECONDS),
    help="How long the answer may take.",
)
def health(where: str | None, over_tls: bool, live: bool, timeout_seconds: int) -> int:
    """Print what it answers; the exit code."""
    target = _target(where)
    host, port = LOOPBACK.get(target.host, target.host), target.port
    path = "/health/live" if live else "/health/ready"
    try:
        status, body = ask(host, port, path, timeout_seconds, over_tls=over_tls or _is_over_tls())
    except OSError as error:
        reason = "no answer in time" if isinstance(error, TimeoutError) else str(error)
        click.echo(f"dafka: health: {join_host_port(host, port)}: {reason}", err=True)
        return EXIT_UNHEALTHY
    healthy = status == "200"
    click.echo(body, err=not healthy)
    return EXIT_OK if healthy else EXIT_UNHEALTHY


def _target(where: str | None) -> ListenerSpec:
    name, text = "--metrics", where
    if text is None:
        name = variable_of("metrics")
        text = os.environ.get(name) or DEFAULT_METRICS
    try:
        return parsing.parse_metrics(text)
    except ValueError as error:
        raise ConfigurationError(f"{name}: {error}") from error


def _is_over_tls() -> bool:
    name = variable_of("metrics_tls")
    try:
        return parsing.parse_switch(os.environ.get(name) or "false")
    except ValueError as error:
        raise ConfigurationError(f"{name}: {error}") from error


def _connected(host: str, port: int, seconds: float, *, over_tls: bool) -> socket.socket:
    plain = socket.create_connection((host, port), timeout=seconds)
    if not over_tls:
        return plain
    import ssl  # takes longer than all else here

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        return context.wrap_socket(plain)
    except BaseException:
        plain.close()
        raise


def ask(host: str, port: int, path: str, seconds: float, *, over_tls: bool = False) -> tuple[str, str]:
    """The status and the body of a page; the server closes after it. Over TLS whoever answers is believed: he
    is told nothing that is secret. Raises OSError, TimeoutError too.
    """
    deadline = time.monotonic() + seconds
    answer = b""
    with _connected(host, port, seconds, over_tls=over_tls) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {join_host_port(host, port)}\r\n\r\n".encode())
        while len(answer) < MAX_ANSWER_BYTES:
            connection.settimeout(max(deadline - time.monotonic(), 0.001))
            chunk = connection.recv(MAX_ANSWER_BYTES)
            if not chunk:
                break
            answer += chunk
    head, _, body = answer.partition(b"\r\n\r\n")
    words = head.decode("latin-1").split(None, 2)
    if len(words) < 2 or not words[0].startswith("HTTP/"):
        raise OSError("what answers there is not a process of Dafka's")
    return words[1], body.decode(errors="replace").strip()
