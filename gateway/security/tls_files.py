"""What TLS is spoken with, from files: PEM, or a PKCS#12 store where that is what a file is.

OpenSSL, as Python has it, reads keys from files alone. So what is in a store is put into one that has no
name: in memory where there is such, else a temporary one that goes at once; and the key in it is encrypted by
a password that is made for it.
"""

from __future__ import annotations

import os
import secrets
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from gateway.security.certificate import first_in_pem
from gateway.security.key_store import MAX_STORE_BYTES, BadStore, LockedStore, identity, is_store, trusted
from mesh.private_files import warn_if_readable

MAX_PASSWORD_BYTES: Final = 1024
"""Of the password of a store or a key."""

_DESCRIPTORS: Final = Path("/proc/self/fd")


def load_own(
    context: ssl.SSLContext, certificate: Path, key: Path | None, password_file: Path | None
) -> bytes:
    """Have it show this certificate, and say whose key it has. The certificate's DER. Raises OSError,
    BadStore, NotACertificate, ssl.SSLError; ValueError: the key has a password.
    """
    data = _read(certificate)
    password = _password(password_file)
    if not is_store(data):
        context.load_cert_chain(certificate, key, password=_no_password if password is None else password)
        return first_in_pem(data.decode("ascii", "replace"))
    if key is not None:
        raise BadStore(
            "it is a PKCS#12 store, and has the key in it: leave --tls-key away; or a certificate as DER: "
            "make PEM of it with openssl x509 -inform DER"
        )
    made_up = secrets.token_bytes(32).hex()
    try:
        found = identity(data, password, made_up.encode())
    except BadStore as error:
        raise _with_option(error, password_file, "--tls-certificate-password-file") from None
    with _as_file(found.pem) as path:
        context.load_cert_chain(path, password=made_up)
    return found.certificate


def authorities(path: Path, password_file: Path | None) -> dict[str, Any]:
    """Whose signatures count: what `ssl.create_default_context` and `load_verify_locations` are called with.
    Raises OSError, BadStore.
    """
    data = _read(path)
    if not is_store(data):
        return {"cafile": path}
    try:
        found = trusted(data, _password(password_file))
    except BadStore as error:
        raise _with_option(error, password_file, "--tls-ca-password-file") from None
    return {"cadata": found}


def _with_option(error: BadStore, password_file: Path | None, option: str) -> BadStore:
    """It, with the option that says where a password is, if one is missing or wrong."""
    if not isinstance(error, LockedStore):
        return error
    given = "FILE" if password_file is None else str(password_file)
    return BadStore(f"{error}; the password is given by {option} {given}")


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_STORE_BYTES + 1)


def _password(path: Path | None) -> bytes | None:
    """The only line of a file. Raises OSError, BadStore."""
    if path is None:
        return None
    warn_if_readable(path, "the password in it")
    with path.open("rb") as file:
        password = file.read(MAX_PASSWORD_BYTES + 3).rstrip(b"\r\n")
    if not 0 < len(password) <= MAX_PASSWORD_BYTES:
        raise BadStore(f"{path}: a password has 1 to {MAX_PASSWORD_BYTES} bytes, and is alone in its file")
    return password


def _no_password() -> str:
    """Else OpenSSL would ask for one on the terminal."""
    raise ValueError("the key has a password")


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """A path to a file with this content, for the length of the block, that only this process can read."""
    if hasattr(os, "memfd_create") and _DESCRIPTORS.exists():
        descriptor = os.memfd_create("certificate")
        try:
            with os.fdopen(descriptor, "wb", closefd=False) as file:
                file.write(content)
            yield str(_DESCRIPTORS / str(descriptor))
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile() as named:
            named.write(content)
            named.flush()
            yield named.name
