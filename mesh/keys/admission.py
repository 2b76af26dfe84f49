"""What is answered to ZAP: whether a key may connect (RFC 27 of ZeroMQ, CURVE alone).

A key that is not known is answered 300, "not now", so that who has it tries again and is let in once it is
added; 400 would have ZeroMQ never try again.
"""

from collections.abc import Callable, Sequence

from mesh.keys.z85 import encode

VERSION = b"1.0"
_REQUEST_FRAMES = 9
"""Routing id, empty, version, request id, domain, address, peer's id, mechanism, and one credential."""

_KEY_BYTES = 32


def answer(request: Sequence[bytes], admits: Callable[[str, str], bool]) -> list[bytes] | None:
    """The reply to a request, with the public key as the user's id; None for what is no request.

    `admits` takes the key, and the address that it came from.
    """
    if len(request) < 5:
        return None
    status, user = b"400", b""
    if len(request) == _REQUEST_FRAMES and request[2] == VERSION and request[7] == b"CURVE":
        key = request[8]
        if len(key) == _KEY_BYTES:
            public = encode(key)
            status, user = (b"200", public.encode()) if admits(public, _address(request)) else (b"300", b"")
    return [request[0], b"", VERSION, request[3], status, b"", user, b""]


def _address(request: Sequence[bytes]) -> str:
    """Where the request says that the key came from, as text for people."""
    return request[5].decode("ascii", errors="replace").removeprefix("::ffff:")
