"""`dafka top`: topics and groups of a Kafka, live in a terminal."""

from __future__ import annotations

import sys
import time
from typing import Any

import click

from dafka.commands.client_security import Bootstrap
from dafka.commands.decorators import bootstrap_option, log_options

HELP = """Show topics with their rates, and groups with their lags, anew every second until Ctrl-C.

It asks as a client does, so it works with any Kafka. Rates are offsets a second, "offsets" the distance from
the first one to the end: with compaction there are fewer records.
"""

SCREEN, LEAVE, HOME, CLEAR_LINE, CLEAR_BELOW = "\x1b[?1049h", "\x1b[?1049l", "\x1b[H", "\x1b[K", "\x1b[J"


@click.command(help=HELP, short_help="Watch topics, groups, rates and lags in a terminal.")
@bootstrap_option
@click.option(
    "--interval", metavar="S", type=click.FloatRange(0.1), default=1.0, show_default=True,
    help="Seconds between two looks.",
)  # fmt: skip
@click.option("--internal", is_flag=True, help="Also Kafka's own topics.")
@click.option("--once", is_flag=True, help="Two looks, one view without a screen, and the end.")
@log_options
def top(bootstrap: Bootstrap, interval: float, internal: bool, once: bool) -> None:
    """Show until Ctrl-C."""
    from dafka.commands.groups_session import Session
    from dafka.commands.top_view import Look, lines, look

    with Session(bootstrap) as session:
        before: Look = look(session, internal=internal)
        if once:
            time.sleep(interval)
            click.echo("\n".join(lines(before, look(session, internal=internal), bootstrap.address)))
            return
        on_screen = sys.stdout.isatty()
        if on_screen:
            _show(SCREEN)
        try:
            while True:
                now = look(session, internal=internal)
                text = lines(before, now, bootstrap.address)
                _show(_drawn(text) if on_screen else "\n".join([*text, "", ""]))
                time.sleep(interval)
                before = now
        except KeyboardInterrupt:
            pass  # the usual end
        finally:
            if on_screen:
                _show(LEAVE)


def _drawn(text: list[str]) -> str:
    """A view over the one before: what does not fit is left out."""
    width, height = _terminal()
    shown = [line[: width - 1] + CLEAR_LINE for line in text[: height - 1]]
    return HOME + "\r\n".join(shown) + CLEAR_BELOW


def _terminal() -> tuple[int, int]:
    import shutil

    size: Any = shutil.get_terminal_size()
    return size.columns, size.lines


def _show(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
