"""Where the keys can be with which tokens are signed."""

from __future__ import annotations

from urllib.parse import urlsplit


class BadKeySetAddress(ValueError):
    """Not where a set of keys can be. The message says what to write."""


def check_address(address: str) -> str:
    """The path of a file, or a URL of https. Raises BadKeySetAddress."""
    scheme, is_url, _ = address.partition("://")
    if is_url and scheme == "https" and urlsplit(address).hostname:
        return address
    if is_url or not address or "\0" in address:
        raise BadKeySetAddress(
            f"{address!r}: write the path of a file with the set of keys, or https://HOST/PATH. Over http "
            "anybody on the way could put in his own"
        )
    return address
