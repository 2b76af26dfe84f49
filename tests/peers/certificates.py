"""Certificates for tests, made by openssl."""

import subprocess
from pathlib import Path

NAMES = "subjectAltName=DNS:localhost,IP:127.0.0.1"

NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]


def self_signed(
    directory: Path, name: str = "server", subject: str = "/CN=localhost", days: int = 30
) -> tuple[Path, Path]:
    """A certificate for this machine that signs itself, and its key, as PEM files."""
    certificate, key = _names(directory, name)
    command = ["openssl", "req", "-x509", *NEW_KEY, "-subj", subject, "-addext", NAMES, "-days", str(days)]
    _run([*command, "-keyout", str(key), "-out", str(certificate)])
    return certificate, key


def signed(
    directory: Path, by: tuple[Path, Path], name: str, subject: str, days: int = 30
) -> tuple[Path, Path]:
    """A certificate that another one signs, as a client shows it, and its key. Of days below 0: it has ended
    already.
    """
    certificate, key = _names(directory, name)
    request = directory / f"{name}.csr"
    _run(["openssl", "req", "-new", *NEW_KEY, "-subj", subject, "-keyout", str(key), "-out", str(request)])
    signer = ["-CA", str(by[0]), "-CAkey", str(by[1]), "-CAcreateserial"]
    command = ["openssl", "x509", "-req", "-in", str(request), *signer, "-days", str(days)]
    _run([*command, "-out", str(certificate)])
    return certificate, key


def _names(directory: Path, name: str) -> tuple[Path, Path]:
    return directory / f"{name}.pem", directory / f"{name}-key.pem"


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True)
