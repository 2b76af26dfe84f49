"""An etcd that encrypts, asks for certificates, or knows users; and what is said where it is not open."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
import trustme

from gateway.catalog.etcd.address import EtcdAddress
from gateway.catalog.etcd.catalog import EtcdCatalog
from gateway.catalog.etcd.client import Credentials
from gateway.catalog.interface import CatalogLost
from tests.peers.etcd import Etcd

SECONDS = 60.0
USER, PASSWORD = "dafka", "secret"


def use(address: str, credentials: Credentials) -> bytes:
    """Change something there, and look at it."""

    async def main() -> bytes:
        with trio.fail_after(SECONDS):
            catalog = await EtcdCatalog.open(EtcdAddress.parse(address), credentials)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(catalog.run)
                await catalog.transact([], {"/key": b"value"})
                nursery.cancel_scope.cancel()
            entry = catalog.get("/key")
            await catalog.aclose()
            assert entry is not None
            return entry.value

    return trio.run(main)


class Certificates:
    """One authority, the server's certificate, a client's, and another authority's."""

    def __init__(self, directory: Path) -> None:
        authority, self.ca = trustme.CA(), directory / "ca.pem"
        authority.cert_pem.write_to_path(self.ca)
        server = authority.issue_cert("127.0.0.1")
        self.server_key, self.server = directory / "server.key", directory / "server.pem"
        server.private_key_pem.write_to_path(self.server_key)
        server.cert_chain_pems[0].write_to_path(self.server)
        client = authority.issue_cert("gateway.example")
        self.key, self.cert = directory / "client.key", directory / "client.pem"
        client.private_key_pem.write_to_path(self.key)
        client.cert_chain_pems[0].write_to_path(self.cert)
        self.others = directory / "others.pem"
        trustme.CA().cert_pem.write_to_path(self.others)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[Etcd]:
    """A member that encrypts and asks for certificates of its clients."""
    with Etcd(tmp_path_factory.mktemp("etcd"), 1, certificates=certificates) as etcd:
        yield etcd


def test_certificates_of_both_sides(encrypted: Etcd, certificates: Certificates) -> None:
    credentials = Credentials(certificates.ca, certificates.cert, certificates.key)
    assert use(encrypted.address, credentials) == b"value"


@pytest.mark.parametrize(
    ("ca", "cert", "why"),
    [
        ("ca", None, "closed the connection|certificate"),
        ("others", "cert", "its certificate is not accepted"),
        (None, None, "does it encrypt|no JSON"),
    ],
    ids=["no certificate", "not the authority", "in the clear"],
)
def test_who_does_not_fit_is_told(
    encrypted: Etcd,
    certificates: Certificates,
    monkeypatch: pytest.MonkeyPatch,
    ca: str | None,
    cert: str | None,
    why: str,
) -> None:
    monkeypatch.setattr("gateway.catalog.etcd.loading.LOAD_SECONDS", 1.0)
    credentials = Credentials(
        getattr(certificates, ca) if ca else None,
        getattr(certificates, cert) if cert else None,
        certificates.key if cert else None,
    )
    with pytest.raises(CatalogLost, match=f"cannot be reached: .*({why}).*--catalog-ca"):
        use(encrypted.address, credentials)


@pytest.fixture(scope="module")
def with_users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    """A member that knows `USER`, who may use what begins with /dafka/."""

    def range_of(prefix: bytes) -> dict[str, str]:
        end = prefix[:-1] + bytes([prefix[-1] + 1])
        return {"key": b64encode(prefix).decode(), "range_end": b64encode(end).decode()}

    with Etcd(tmp_path_factory.mktemp("etcd")) as etcd:
        ask = etcd.members[0].ask
        ask("/v3/auth/user/add", {"name": "root", "password": "root"})
        ask("/v3/auth/role/add", {"name": "root"})
        ask("/v3/auth/user/grant", {"user": "root", "role": "root"})
        ask("/v3/auth/user/add", {"name": USER, "password": PASSWORD})
        ask("/v3/auth/role/add", {"name": "gateways"})
        perm = {"permType": "READWRITE", **range_of(b"/dafka/")}
        ask("/v3/auth/role/grant", {"name": "gateways", "perm": perm})
        ask("/v3/auth/user/grant", {"user": USER, "role": "gateways"})
        ask("/v3/auth/enable", {})
        yield etcd


def test_a_user_and_its_password(with_users: Etcd) -> None:
    assert use(with_users.address, Credentials(user=USER, password=PASSWORD)) == b"value"


@pytest.mark.parametrize(
    ("prefix", "credentials"),
    [
        ("", Credentials()),
        ("", Credentials(user=USER, password="wrong")),
        ("", Credentials(user="nobody", password=PASSWORD)),
        ("/other", Credentials(user=USER, password=PASSWORD)),
    ],
    ids=["nobody", "wrong password", "unknown user", "another prefix"],
)
def test_who_may_not_is_told(with_users: Etcd, prefix: str, credentials: Credentials) -> None:
    with pytest.raises(CatalogLost, match=r"is not open to this gateway .*etcdctl role grant-permission"):
        use(f"{with_users.address}{prefix}", credentials)
