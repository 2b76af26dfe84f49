"""Certificates for tests, made by openssl."""

import subprocess
from pathlib import Path

NAMES = "subjectAltName=DNS:localhost,IP:127.0.0.1"


def self_signed(directory: Path, name: str = "server", subject: str = "/CN=localhost") -> tuple[Path, Path]:
    """A certificate for this machine that signs itself, and its key, as PEM files."""
    certificate, key = directory / f"{name}.pem", directory / f"{name}-key.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]
    command += [
        "-subj",
        subject,
        "-addext",
        NAMES,
        "-days",
        "30",
        "-keyout",
        str(key),
        "-out",
        str(certificate),
    ]
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key
