"""What version of the program this is."""

from __future__ import annotations

NOT_INSTALLED = "(not installed: running from its sources)"


def program_version() -> str:
    """The version of the distribution, or that it is not installed."""
    from importlib import metadata  # takes as long as the rest of the imports

    try:
        return metadata.version("dafka-gateway")
    except metadata.PackageNotFoundError:
        return NOT_INSTALLED
