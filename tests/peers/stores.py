"""PKCS#12 stores for tests, made by Java's keytool as it makes them by default."""

import subprocess
from pathlib import Path
from typing import Final

PASSWORD: Final = "a secret"


def key_store(path: Path, alias: str = "server", days: int = 30) -> Path:
    """A key with a certificate for this machine that signs itself, in a store that may be there already."""
    made = [
        "-alias",
        alias,
        "-keyalg",
        "EC",
        "-dname",
        "CN=localhost",
        "-ext",
        "san=dns:localhost,ip:127.0.0.1",
    ]
    _keytool("-genkeypair", *made, "-validity", str(days), "-keystore", str(path))
    return path


def trust_store(path: Path, certificate: Path) -> Path:
    """A store with a certificate to be trusted."""
    _keytool("-importcert", "-noprompt", "-alias", "ca", "-file", str(certificate), "-keystore", str(path))
    return path


def exported(store: Path, alias: str = "server") -> Path:
    """The certificate of a key in it, as PEM beside it."""
    found = store.with_suffix(f".{alias}.pem")
    _keytool("-exportcert", "-rfc", "-alias", alias, "-keystore", str(store), "-file", str(found))
    return found


def java_store(path: Path, source: Path) -> Path:
    """The same of the kind JKS."""
    _keytool(
        "-importkeystore", "-srckeystore", str(source), "-srcstorepass", PASSWORD,
        "-destkeystore", str(path), "-deststoretype", "jks",
    )  # fmt: skip
    return path


def bundled(path: Path, certificate: Path, key: Path | None, *more: str) -> Path:
    """By openssl: a key with its certificate; or that alone. `more` are arguments of `openssl pkcs12`."""
    of_key = ["-nokeys"] if key is None else ["-inkey", str(key)]
    command = ["openssl", "pkcs12", "-export", "-in", str(certificate), *of_key, "-out", str(path)]
    subprocess.run([*command, "-passout", f"pass:{PASSWORD}", *more], check=True, capture_output=True)
    return path


def password_file(directory: Path, password: str = PASSWORD) -> Path:
    """A file with it, which only its owner reads."""
    path = directory / "password"
    path.write_text(f"{password}\n")
    path.chmod(0o600)
    return path


def _keytool(*arguments: str) -> None:
    command = ["keytool", *arguments]
    if "-storepass" not in command:
        command += (
            ["-storepass", PASSWORD] if arguments[0] != "-importkeystore" else ["-deststorepass", PASSWORD]
        )
    subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL)
