"""A `dafka standalone` that asks who comes, over each way in, and the files of its clients."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import ssl
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import confluent_kafka.admin
from confluent_kafka.admin import AdminClient

from tests.peers.certificates import self_signed, signed
from tests.peers.standalone import Standalone

SECONDS = 30.0
PROTOCOLS = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
ITERATIONS = 4096

# Its own hints leave out half of what it has.
library: Any = confluent_kafka.admin

Right = tuple[str, str, str, str]
"""What an ACL allows: resource type, its name, `LITERAL` or `PREFIXED`, operation."""


class Secured:
    """A context manager around a server with a listener for each protocol.

    Whoever comes in by the one without security (`open`) may do everything: tests set things up there.

    Args:
        arguments: more of `dafka standalone`.
        protocols: those that it has besides.
    """

    def __init__(self, *arguments: str, protocols: Iterable[str] = PROTOCOLS) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="secured-"))
        self._protocols = tuple(protocols)
        self._authority = self_signed(self.folder, "authority", "/CN=authority")
        self._other_authority = self_signed(self.folder, "other-authority", "/CN=other")
        self._certificate, self._key = self.folder / "server.pem", self.folder / "server-key.pem"
        self._certify()
        listeners = [word for one in self._protocols for word in ("--listen", f"{one}://127.0.0.1:0")]
        self.server = Standalone(
            None,
            *listeners,
            *("--tls-certificate", str(self._certificate), "--tls-key", str(self._key)),
            *("--super-user", "User:ANONYMOUS", *arguments),
            directory=self.folder / "server",
        )

    def __enter__(self) -> Self:
        try:
            self.server.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        self.server.__exit__()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def open(self) -> str:
        """HOST:PORT where nobody is asked."""
        return self.server.bootstrap

    def address(self, protocol: str) -> str:
        """HOST:PORT of a protocol's listener."""
        return self.server.addresses[1 + self._protocols.index(protocol)]

    @property
    def ca(self) -> Path:
        """The certificate that clients must trust."""
        return self._authority[0]

    @property
    def other_ca(self) -> Path:
        """One that has signed nothing that the server shows now."""
        return self._other_authority[0]

    def exchange_certificate(self) -> None:
        """The server's certificate is one of the other authority from now on, for who connects anew."""
        self._authority, self._other_authority = self._other_authority, self._authority
        self._certify()
        os.kill(self.server.pid, signal.SIGHUP)
        deadline = time.monotonic() + SECONDS
        while not self._is_shown():
            assert time.monotonic() < deadline, self.server.log
            time.sleep(0.02)

    def _certify(self) -> None:
        names = signed(self.folder, self._authority, "next", "/CN=localhost", is_servers=True)
        for made, name in zip(names, (self._certificate, self._key), strict=True):
            made.replace(name)

    def _is_shown(self) -> bool:
        """Whether who trusts `ca`, and nobody else, comes to speak with the server."""
        protocol = next(one for one in self._protocols if one.endswith("SSL"))
        host, port = self.address(protocol).split(":")
        context = ssl.create_default_context(cafile=self.ca)
        try:
            with socket.create_connection((host, int(port)), SECONDS) as plain:
                context.wrap_socket(plain, server_hostname=host).close()
        except ssl.SSLError:
            return False
        return True

    def set_password(self, user: str, password: str) -> None:
        """Make a user, or give him another password."""
        changes = [
            library.UserScramCredentialUpsertion(
                user, library.ScramCredentialInfo(mechanism, ITERATIONS), password.encode()
            )
            for mechanism in (library.ScramMechanism.SCRAM_SHA_256, library.ScramMechanism.SCRAM_SHA_512)
        ]
        admin = self._administrator()
        for change in changes:
            for done in admin.alter_user_scram_credentials([change]).values():
                done.result(SECONDS)

    def allow(self, principal: str, *rights: Right) -> None:
        """Add ACLs by which a principal may do so from everywhere."""
        bindings = [
            library.AclBinding(
                library.ResourceType[kind],
                name,
                library.ResourcePatternType[pattern],
                principal,
                "*",
                library.AclOperation[operation],
                library.AclPermissionType.ALLOW,
            )
            for kind, name, pattern, operation in rights
        ]
        admin = self._administrator()
        for done in admin.create_acls(bindings).values():
            done.result(SECONDS)

    def _administrator(self) -> Any:
        """An admin client that may do everything. What it began ends with the last reference to it."""
        return AdminClient({"bootstrap.servers": self.open})
