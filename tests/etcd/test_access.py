"""An etcd that encrypts, asks for certificates, or knows users; and what is said where it is not open."""

from __future__ import annotations

import os
import subprocess
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio
import trustme

from dafka.cli import run
from dafka.processes.catalogs import open_etcd
from dafka.settings import InitSettings
from gateway.catalog.etcd.address import EtcdAddress
from gateway.catalog.etcd.catalog import EtcdCatalog
from gateway.catalog.etcd.client import Etcd as Members
from gateway.catalog.etcd.client import Line
from gateway.catalog.etcd.credentials import Credentials, Identity
from gateway.catalog.etcd.words import RANGE, TXN, Body, NotSent, Refused, Unknown
from gateway.catalog.interface import CatalogLost
from tests.peers.etcd import Etcd
from tests.peers.requirements import require

SECONDS = 60.0
USER, PASSWORD = "dafka", "secret"
ROOT = Path(__file__).parents[2]

Answer = Body | Refused | Unknown | NotSent


def use_around(address: str, credentials: Credentials, change: Callable[[], None]) -> bytes:
    """Change something there, have something else changed meanwhile, and change something again."""

    async def main() -> bytes:
        with trio.fail_after(SECONDS):
            catalog = await EtcdCatalog.open(EtcdAddress.parse(address), credentials)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(catalog.run)
                await catalog.transact([], {"/key": b"before"})
                await trio.to_thread.run_sync(change)
                await catalog.transact([], {"/key": b"after"})
                nursery.cancel_scope.cancel()
            entry = catalog.get("/key")
            await catalog.aclose()
            assert entry is not None
            return entry.value

    return trio.run(main)


def use(address: str, credentials: Credentials) -> bytes:
    """Change something there twice, and look at it."""
    return use_around(address, credentials, lambda: None)


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
    assert use(encrypted.address, credentials) == b"after"


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
    """A member that knows `USER`."""
    with Etcd(tmp_path_factory.mktemp("etcd")) as etcd:
        know_users(etcd)
        yield etcd


def know_users(etcd: Etcd) -> None:
    """Have it know `USER`, who may use what begins with /dafka/, and let nobody in without a password."""

    def range_of(prefix: bytes) -> dict[str, str]:
        end = prefix[:-1] + bytes([prefix[-1] + 1])
        return {"key": b64encode(prefix).decode(), "range_end": b64encode(end).decode()}

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


def file_of(folder: Path, password: str) -> Path:
    """Where a password stands."""
    path = folder / "password"
    path.write_text(f"{password}\n")
    path.chmod(0o600)
    return path


def test_a_user_and_its_password(with_users: Etcd, tmp_path: Path) -> None:
    known = Credentials(user=USER, password_file=file_of(tmp_path, PASSWORD))
    assert use(with_users.address, known) == b"after"


def test_the_documented_commands_let_one_user_in(tmp_path: Path) -> None:
    """With the right to its own prefix, and nobody else."""
    page = (ROOT / "docs" / "operations.md").read_text()
    lines = [line.strip() for line in page.splitlines() if line.startswith("      etcdctl ")]
    with Etcd(tmp_path / "etcd") as etcd:
        for command in " && ".join(lines).split(" && "):
            asks = ["--interactive=false"] if " user add " in command else []
            etcdctl(etcd, *command.split()[1:], *asks, told=PASSWORD)
        orders = Credentials(user="orders", password_file=file_of(tmp_path, PASSWORD))
        assert use(f"{etcd.address}/dafka/orders", orders) == b"after"
        with pytest.raises(CatalogLost, match="permission denied"):
            use(f"{etcd.address}/dafka/others", orders)
        with pytest.raises(CatalogLost, match="user name is empty"):
            use(f"{etcd.address}/dafka/orders", Credentials())


@pytest.mark.parametrize(
    ("prefix", "user", "password", "advice"),
    [
        ("", "", "", "--catalog-user and --catalog-password-file"),
        ("", USER, "wrong", "--catalog-user and --catalog-password-file"),
        ("", "nobody", PASSWORD, "--catalog-user and --catalog-password-file"),
        ("/other", USER, PASSWORD, "etcdctl role grant-permission"),
    ],
    ids=["nobody", "wrong password", "unknown user", "another prefix"],
)
def test_who_may_not_is_told(
    with_users: Etcd, tmp_path: Path, prefix: str, user: str, password: str, advice: str
) -> None:
    file = file_of(tmp_path, password) if user else None
    with pytest.raises(CatalogLost, match="is not open to this gateway") as told:
        use(f"{with_users.address}{prefix}", Credentials(user=user, password_file=file))
    assert advice in str(told.value)


@pytest.mark.parametrize("path", [RANGE, TXN], ids=["at the start", "while it runs"])
def test_a_token_may_be_refused_twice(
    with_users: Etcd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """Whoever manages users makes all tokens old, also the one that was just given."""
    ask_once, refusals = Line.ask_once, iter([Refused(3, "etcdserver: revision of auth store is old")] * 4)

    async def refuse(line: Line, asked: str, body: Body, member: int, seconds: float) -> Answer:
        refusal = next(refusals, None) if asked == path else None
        return refusal or await ask_once(line, asked, body, member, seconds)

    monkeypatch.setattr(Line, "ask_once", refuse)
    credentials = Credentials(user=USER, password_file=file_of(tmp_path, PASSWORD))
    assert use(with_users.address, credentials) == b"after"
    assert next(refusals, None) is None


def test_all_certificates_are_replaced_while_it_runs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """By those of another authority: with what was read at the start it could never come in again."""
    files = Certificates(tmp_path)
    caplog.set_level("INFO")
    with Etcd(tmp_path / "etcd", certificates=files) as etcd:

        def replace() -> None:
            etcd.kill_all()
            Certificates(tmp_path)
            etcd.start_all()

        assert use_around(etcd.address, Credentials(files.ca, files.cert, files.key), replace) == b"after"
    assert "the certificates for etcd were read again" in caplog.text


def test_half_a_pair_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = Certificates(tmp_path)
    identity = Identity(Credentials(files.ca, files.cert, files.key))
    before = identity.context()
    files.key.write_text(files.server_key.read_text())
    assert identity.context() is before
    assert "those from before are used" in caplog.text
    Certificates(tmp_path)
    assert identity.context() is not before


def test_a_watch_without_a_token_gets_one(
    with_users: Etcd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The member is as good as it was."""
    failures: list[str] = []
    monkeypatch.setattr(Members, "failed", lambda *told: failures.append(told[-1]))
    credentials = Credentials(user=USER, password_file=file_of(tmp_path, PASSWORD))
    assert use(with_users.address, credentials) == b"after"
    assert failures == []


def test_a_member_that_forgot_its_tokens_gives_another_one(tmp_path: Path) -> None:
    """Members keep them in memory."""
    with Etcd(tmp_path / "etcd") as etcd:
        know_users(etcd)

        def restart() -> None:
            etcd.kill_all()
            for member in etcd.members:
                member.launch()

        credentials = Credentials(user=USER, password_file=file_of(tmp_path, PASSWORD))
        assert use_around(etcd.address, credentials, restart) == b"after"


@pytest.mark.parametrize("first", ["file", "etcd"])
def test_a_password_is_replaced_while_it_runs(
    with_users: Etcd, tmp_path: Path, caplog: pytest.LogCaptureFixture, first: str
) -> None:
    """In either order: with the wrong one it is tried again, and nothing ends."""
    file = file_of(tmp_path, PASSWORD)

    def replace() -> None:
        if first == "file":
            file.write_text("another")
            set_password(with_users, "another")
        else:
            set_password(with_users, "another")
            wait_for(lambda: "authentication failed" in caplog.text)
            file.write_text("another")

    credentials = Credentials(user=USER, password_file=file)
    try:
        assert use_around(with_users.address, credentials, replace) == b"after"
    finally:
        set_password(with_users, PASSWORD)


def set_password(etcd: Etcd, password: str) -> None:
    """Of `USER`, as the documentation says it."""
    etcdctl(etcd, "--user=root:root", "user", "passwd", USER, "--interactive=false", told=password)


def etcdctl(etcd: Etcd, *words: str, told: str = "") -> None:
    subprocess.run(
        [require("etcdctl"), f"--endpoints={etcd.members[0].address}", *words],
        input=f"{told}\n",
        env={**os.environ, "ETCDCTL_API": "3"},
        text=True,
        check=True,
        capture_output=True,
    )


def wait_for(is_so: Callable[[], bool]) -> None:
    """Raises AssertionError: it did not come to that."""
    deadline = time.monotonic() + SECONDS / 2
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_all_of_it_from_the_command_line(
    tmp_path: Path, certificates: Certificates, capsys: pytest.CaptureFixture[str]
) -> None:
    """TLS with certificates of both sides, a user, and a prefix of the cluster's own."""
    with Etcd(tmp_path / "etcd", certificates=certificates) as etcd:
        know_users(etcd)
        files = {"ca": certificates.ca, "cert": certificates.cert, "key": certificates.key}
        files["password-file"] = file_of(tmp_path, PASSWORD)
        options = [word for name, path in files.items() for word in (f"--catalog-{name}", str(path))]
        options += [
            "--catalog-user",
            USER,
            "--admin",
            "admin",
            "--password-file",
            str(files["password-file"]),
        ]
        assert run(["init", "--catalog", f"{etcd.address}/dafka/one", *options]) == 0
        assert run(["init", "--catalog", f"{etcd.address}/dafka/two", *options]) == 0
        where = [f"created admin in {etcd.address}/dafka/{name}\n" for name in ("one", "two")]
        assert capsys.readouterr().out == "".join(where)
        assert run(["init", "--catalog", f"{etcd.address}/other", *options]) == 2
        assert "is not open to this gateway" in capsys.readouterr().err


@pytest.mark.parametrize(("host", "said"), [("etcd.example", True), ("127.0.0.1", False)])
def test_a_password_in_the_clear_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, host: str, said: bool
) -> None:
    monkeypatch.setattr("gateway.catalog.etcd.loading.LOAD_SECONDS", 0.1)
    settings = InitSettings(
        catalog=f"etcd://{host}:1", catalog_user=USER, catalog_password_file=file_of(tmp_path, PASSWORD)
    )
    with pytest.raises(CatalogLost):
        open_etcd(settings, rebuild=False)
    assert (f"the password of etcd's user {USER} goes to {host} in the clear" in caplog.text) is said
