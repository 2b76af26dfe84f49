"""The command line: `dafka-pipeline COMMAND ...`. Finds the command, runs it; a failure becomes one line."""

import importlib
import json
import os
import sys
import time
import traceback
from collections.abc import Sequence
from typing import Final

import click

from dafka_pipeline.failures import EXIT_BUG, EXIT_OK, EXIT_USAGE, PipelineError

COMMANDS: Final = ("archive", "compact", "replay", "audit", "transform")
"""Each is a function of this name in the module of this name in `dafka_pipeline.commands`."""

HELP: Final = """Data pipelines on Spark, over any Kafka.

\b
dafka-pipeline archive --topics orders --to ./archive --once     topics become a Delta table
dafka-pipeline audit ./archive 127.0.0.1:9092                    and are compared with it, record by record
dafka-pipeline replay ./archive --topics orders --to restored    a table becomes topics again
dafka-pipeline compact ./archive                                 few large files instead of many small ones
dafka-pipeline transform jobs:clean --from orders --to cleaned   your function between topics, with state

Exit codes: 0 done, 1 an audit found differences, 2 usage or environment, 3 refused, 4 failed, 5 a bug.
"""


class _LazyGroup(click.Group):
    """Imports a command's module when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        command = getattr(importlib.import_module(f"dafka_pipeline.commands.{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)
        return command


@click.group(
    cls=_LazyGroup,
    help=HELP,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
def cli() -> None:
    """The group itself; see HELP."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it and end the process with its exit code."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run it; the exit code (see `dafka_pipeline.failures`)."""
    as_json = "--json" in (sys.argv[1:] if arguments is None else arguments)
    try:
        code = cli.main(
            args=None if arguments is None else list(arguments),
            prog_name="dafka-pipeline",
            standalone_mode=False,
        )
        return code if isinstance(code, int) else EXIT_OK
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.ClickException as error:
        if as_json:
            _tell_json(error, error.format_message(), EXIT_USAGE)
        else:
            error.show()
        return EXIT_USAGE
    except PipelineError as error:
        if as_json and not error.told:
            _tell_json(error, str(error), error.exit_code)
        elif not error.told:
            print(f"dafka-pipeline: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        # Whoever read our output has gone, e.g. `| head`.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK
    except Exception:  # noqa: BLE001  # the last place that sees it
        traceback.print_exc()
        print(
            "dafka-pipeline: this is a bug of ours, please report it with the lines above.", file=sys.stderr
        )
        return EXIT_BUG


def _tell_json(error: Exception, text: str, exit_code: int) -> None:
    """A failure before there was a job whose report could tell it, in the report's form."""
    facts = {"text": text, "failure": type(error).__name__, "exit_code": exit_code}
    head = {"event": "failed", "job": "dafka-pipeline", "time": time.time()}
    print(json.dumps(head | facts), file=sys.stderr)


if __name__ == "__main__":
    main()
