"""`--help` of every command is complete: what it does, each option, and no marks of how it is written."""

import re
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from dafka.cli import dafka
from dafka_pipeline.cli import cli as dafka_pipeline


def commands(command: click.Command, *names: str) -> Iterator[tuple[str, click.Command]]:
    yield " ".join(names), command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from commands(inner, *names, name)


ALL = dict([*commands(dafka, "dafka"), *commands(dafka_pipeline, "dafka-pipeline")])


@pytest.mark.parametrize("name", ALL)
def test_help_is_complete(name: str) -> None:
    command = ALL[name]
    options = [option for option in command.params if isinstance(option, click.Option) and not option.hidden]
    assert [option.name for option in options if not (option.help or "").strip()] == []
    answered = CliRunner().invoke(command, ["--help"], prog_name=name, terminal_width=80)
    assert answered.exit_code == 0
    assert "\\b" not in answered.output
    described = answered.output.partition("\n\n")[2].partition("Options:")[0]
    assert len(described.split()) >= 3
    assert [line for line in answered.output.splitlines() if len(line) > 120] == []
    assert list(re.findall(r"\{[a-z_]+\}|%[sd]", answered.output)) == []
