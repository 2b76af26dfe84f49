"""The command line: `dafka COMMAND ...`. Finds the command, runs it, and turns a failure into one line."""

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Final

import click

from dafka.commands.exits import EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE, explain
from dafka.commands.logs import logger, tell
from dafka.first_process import FIRST_PROCESS, end_at_stop_signals
from dafka.version import VERSION
from gateway.common.open_files import raise_file_limit

COMMANDS: Final = (
    "standalone",
    "gateway",
    "gateways",
    "store",
    "tower",
    "mesh",
    "keys",
    "catalog",
    "backup",
    "restore",
    "init",
    "users",
    "topics",
    "configs",
    "groups",
    "transactions",
    "produce",
    "consume",
    "bench",
    "top",
    "chaos",
    "doctor",
    "health",
    "completion",
)
"""Each is a function of this name in the module of this name in `dafka.commands`."""


OWNERS_ALONE: Final = 0o077
"""The process's umask."""


HELP: Final = """Kafka clients and Spark on a durable log in one process.

\b
dafka standalone                  serve Kafka on 127.0.0.1:9092, with the data in ./dafka-data
dafka topics create orders        make a topic
dafka doctor 127.0.0.1:9092       check that Spark can use it, and say what to do where it cannot

Exit codes: 0 done, 1 a bug, 2 usage or environment, 3 the data directory is refused, 4 a disk failed.
"""


class _LazyGroup(click.Group):
    """Imports a command's module when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        command = getattr(importlib.import_module(f"dafka.commands.{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)
        return command


def _print_version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if not asked or ctx.resilient_parsing:
        return
    click.echo(f"dafka {VERSION}")
    ctx.exit(EXIT_OK)


@click.group(
    cls=_LazyGroup,
    help=HELP,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version.",
)
def dafka() -> None:
    """The program."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line (without the program's name; None: the process's own) and return its exit code."""
    stdout = sys.stdout
    try:
        result = dafka.main(args=arguments, prog_name="dafka", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return EXIT_USAGE
    except click.ClickException as error:
        tell(EXIT_USAGE, _usage(error))
        return EXIT_USAGE
    except (click.Abort, KeyboardInterrupt):
        tell(EXIT_INTERRUPTED, "interrupted")
        return EXIT_INTERRUPTED
    except (BrokenPipeError, SystemExit):
        # The reader of our output went away (`dafka topics list | head -1`): no failure, and nobody to tell.
        # Click makes a SystemExit of it, and wraps standard output.
        if sys.stdout is stdout and isinstance(sys.exception(), SystemExit):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), stdout.fileno())
        return EXIT_OK
    except Exception as error:  # noqa: BLE001 - the last place: whatever it is becomes one line
        code, text = explain(error)
        logger.debug("exit code %d", code, exc_info=True)
        tell(code, text)
        return code
    return result if isinstance(result, int) else EXIT_OK


def _usage(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "dafka"
    return f"{error.format_message().rstrip('.')}. See '{command} --help'."


def main() -> None:
    """The console script. What the process makes is its owner's alone, also what libraries make: set once,
    before there are threads. It may have as many files as it may have at all: whoever speaks to many others
    needs them, and 1024, which is usual, are soon used up.
    """
    os.umask(OWNERS_ALONE)
    raise_file_limit()
    if os.getpid() == FIRST_PROCESS:
        end_at_stop_signals()  # until a process that serves has handlers of its own
    sys.exit(run())


if __name__ == "__main__":
    main()
