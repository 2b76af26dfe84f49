"""The options of `dafka produce` and `dafka consume` that are for Kafka topics, and what goes with them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

import click
from click.core import ParameterSource

from dafka.commands.decorators import Function
from dafka.commands.exits import CommandFailed
from dafka.commands.kafka_formats import CODECS, FORMATS

WHOSE: Final = "Kafka: "
"""How the help of these options begins."""

bootstrap_option: Final = click.option(
    "--bootstrap",
    metavar="HOST:PORT",
    help=f"{WHOSE}the topic is one of the Kafka that listens there, a gateway or any other. Without it, "
    "TOPIC is a subject of a Dafka mesh.",
)

format_option: Final = click.option(
    "--format",
    "how",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help=f"{WHOSE}a line for each record as text, as JSON with all that it has, or in hexadecimal; or 'raw', "
    "its bytes and nothing else.",
)

codec_option: Final = click.option(
    "--codec",
    type=click.Choice(CODECS),
    default="none",
    show_default=True,
    help=f"{WHOSE}how batches are compressed.",
)


def only(context: click.Context, names: Collection[str], flags: Mapping[str, str], why: str) -> None:
    """Refuse options that were given and mean nothing here. Raises CommandFailed."""
    for name in names:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise CommandFailed(f"{flags.get(name, '--' + name.replace('_', '-'))} is {why}")


def stacked(*options: Callable[[Function], Function]) -> Callable[[Function], Function]:
    """Several options as one decorator, in the order in which help shows them."""

    def decorate(function: Function) -> Function:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate
