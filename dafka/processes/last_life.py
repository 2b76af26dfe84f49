"""Which life of a gateway began last on a data directory: who has its lock knows that this one is over."""

from pathlib import Path

from mesh.data_directory import replace_file
from mesh.private_files import read_file

FILE = "life"

MAX_BYTES = 64
"""More than a life's name has: a larger file is none."""


def last_life_in(directory: Path) -> str:
    """Its name, "" where none has begun there."""
    try:
        return read_file(directory / FILE, MAX_BYTES).decode("ascii", "replace").strip()
    except FileNotFoundError:
        return ""


def note_life(directory: Path, life: str) -> None:
    """This one has begun. Raises OSError."""
    replace_file(directory / FILE, f"{life}\n".encode())
