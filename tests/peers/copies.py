"""Copies of data directories."""

import shutil
from pathlib import Path


def copy_data(data: Path, to: Path) -> Path:
    """Copy a data directory, but for its sockets, to where nothing is yet. Returns `to`."""
    shutil.copytree(data, to, ignore=_sockets)
    return to


def _sockets(directory: str, names: list[str]) -> list[str]:
    return [name for name in names if (Path(directory) / name).is_socket()]
