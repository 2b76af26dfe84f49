"""Passwords: from a prompt, a file or standard input. Never from an argument, which every process may see."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import click

from dafka.commands.exits import CommandFailed

STANDARD_INPUT: Final = Path("-")

MAX_PASSWORD_CHARACTERS: Final = 1024
"""A longer text is another file, given by mistake."""


def read_password(path: Path) -> str:
    """The password in a file, which has nothing else, or in standard input (`-`). Raises CommandFailed."""
    try:
        if path == STANDARD_INPUT:
            text = sys.stdin.read(MAX_PASSWORD_CHARACTERS + 2)
        else:
            with path.open(encoding="utf-8") as file:
                text = file.read(MAX_PASSWORD_CHARACTERS + 2)
    except UnicodeDecodeError:
        raise CommandFailed(f"{_name(path)} has no password: it is no text in UTF-8") from None
    password = text.removesuffix("\n").removesuffix("\r")
    if not password:
        raise CommandFailed(f"{_name(path)} has no password: it is empty")
    if len(password) > MAX_PASSWORD_CHARACTERS or not _is_one_line(password):
        raise CommandFailed(
            f"{_name(path)} has no password: what is needed is one line of at most {MAX_PASSWORD_CHARACTERS} "
            "characters, and nothing else"
        )
    return password


def new_password(user: str, path: Path | None) -> str:
    """What a user's password is to be: in the file, or asked for twice, unseen. Raises CommandFailed."""
    if path is not None:
        return read_password(path)
    if not sys.stdin.isatty():
        raise CommandFailed(
            f"nobody can be asked for the password of {user} here: give --password-file FILE, or "
            "'--password-file -' to read it from standard input"
        )
    password = click.prompt(f"Password of {user}", hide_input=True, confirmation_prompt="Once more", err=True)
    return str(password)


def _is_one_line(password: str) -> bool:
    return not any(character in password for character in "\0\r\n")


def _name(path: Path) -> str:
    return "standard input" if path == STANDARD_INPUT else str(path)
