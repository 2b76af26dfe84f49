"""Systemd takes the units, they give few rights, and what they start is a mesh that survives its upgrade."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import trustme

from tests.deploy.arrangement import Arrangement
from tests.deploy.few_rights import USER
from tests.deploy.image import ROOT
from tests.deploy.load import COPIES, TOPIC, Load
from tests.deploy.parts import Part
from tests.deploy.units import PROGRAM, Unit
from tests.peers.requirements import require

FOLDER = ROOT / "deploy" / "systemd"
DROP_IN = FOLDER / "secured.conf"
UNITS = sorted(path.stem for path in FOLDER.glob("*.service"))
SECURED = {
    "DAFKA_LISTEN": "SASL_SSL://0.0.0.0:9092@kafka.example.org:9092",
    "DAFKA_AUTHORIZER": "acl",
    "DAFKA_SUPER_USER": "User:admin",
}
EXPOSURE = 1.6
"""What `systemd-analyze security` may say at most, of 10."""

TRIES = """
import ctypes, mmap, os, socket

libc = ctypes.CDLL(None, use_errno=True)
state = os.environ["STATE_DIRECTORY"]

def unshare():
    if libc.unshare(0x10000000) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

def show(name, what, *arguments, **named):
    try:
        what(*arguments, **named)
    except OSError as error:
        print(f"{name}: {os.strerror(error.errno)}")
    else:
        print(f"{name}: done")

show("write to /etc", open, "/etc/hosts", "a")
show("write to what is everybody's", open, "/var/tmp/x", "a")
show("read of a home", os.listdir, "/root/.ssh")
show("write to its own", open, state + "/own", "w")
print(f"mode of that: {os.stat(state + '/own').st_mode & 0o777:o}")
show("raw packets", socket.socket, socket.AF_PACKET, socket.SOCK_RAW)
show("another family", socket.socket, socket.AF_VSOCK)
show("TCP", socket.socket, socket.AF_INET)
show("namespaces", unshare)
show("root again", os.setuid, 0)
show("another root", os.chroot, "/")
show("code that it wrote", mmap.mmap, -1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
"""
"""What somebody tries who is in the process; it prints what comes of each."""

REFUSED = """\
write to /etc: Permission denied
write to what is everybody's: Read-only file system
read of a home: No such file or directory
write to its own: done
mode of that: 600
raw packets: Address family not supported by protocol
another family: Address family not supported by protocol
TCP: done
namespaces: Operation not permitted
root again: Operation not permitted
another root: Operation not permitted
code that it wrote: Permission denied
"""


def settings_of_the_readme() -> dict[str, dict[str, str]]:
    """The environment files that deploy/README.md shows: name -> variables."""
    text = (ROOT / "deploy" / "README.md").read_text()
    files = re.findall(r"^    # /etc/dafka/(\w+)\.env.*\n((?:    \w+=.*\n)+)", text, re.MULTILINE)
    return {name: dict(line.strip().split("=", 1) for line in lines.splitlines()) for name, lines in files}


@pytest.mark.parametrize("name", UNITS)
def test_systemd_takes_it(name: str, tmp_path: Path) -> None:
    analyze = require("systemd-analyze")
    unit = tmp_path / f"{name}.service"
    unit.write_text((FOLDER / unit.name).read_text().replace(PROGRAM, sys.executable))
    done = subprocess.run([analyze, "verify", str(unit)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    command = [analyze, "security", "--offline=true", "--no-pager", str(unit)]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found = re.search(r"exposure level for \S+: ([0-9.]+)", said)
    assert found is not None, said
    assert float(found[1]) <= EXPOSURE, said


@pytest.mark.parametrize("name", ["dafka", "dafka-gateway"])
def test_systemd_takes_it_with_security(name: str, tmp_path: Path) -> None:
    unit = tmp_path / f"{name}.service"
    unit.write_text((FOLDER / unit.name).read_text().replace(PROGRAM, sys.executable))
    (tmp_path / f"{unit.name}.d").mkdir()
    (tmp_path / f"{unit.name}.d" / DROP_IN.name).write_text(DROP_IN.read_text())
    command = [require("systemd-analyze"), "verify", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("role", ["gateway", "dafka"])
def test_nothing_in_the_readmes_files_takes_security_away(role: str) -> None:
    """A variable in a unit's EnvironmentFile= wins over one in the Environment= of a drop-in."""
    unit = Unit(FOLDER / ("dafka.service" if role == "dafka" else f"dafka-{role}.service"), DROP_IN)
    settings = settings_of_the_readme().get(role, {"DAFKA_LISTEN": "0.0.0.0:9092"})
    environment = unit.part("kafka.example.org", settings).environment
    assert "SASL_SSL" not in settings["DAFKA_LISTEN"]
    assert {name: environment[name] for name in (*SECURED, "DAFKA_TLS_CERTIFICATE")} == {
        **SECURED,
        "DAFKA_TLS_CERTIFICATE": f"/run/credentials/{unit.name}.service/server.pem",
    }


@pytest.mark.deploy
def test_a_secured_process_reads_its_secrets_from_credentials(tmp_path: Path) -> None:
    """Which are copies for its own user alone; the first user is made as root before the first start."""
    require("ip")
    host = "kafka.example.org"
    unit = Unit(FOLDER / "dafka.service", DROP_IN)
    assert unit.credentials == {
        "server.pem": "/etc/dafka/server.pem",
        "server-key.pem": "/etc/dafka/server-key.pem",
    }
    credentials = tmp_path / "volumes" / f"{host}-credentials"
    credentials.mkdir(parents=True)
    authority = trustme.CA()
    made = authority.issue_cert(host)
    made.cert_chain_pems[0].write_to_path(credentials / "server.pem")
    made.private_key_pem.write_to_path(credentials / "server-key.pem")
    for path in credentials.iterdir():
        path.chmod(0o400)
        os.chown(path, USER, USER)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    (tmp_path / "password").write_text("first-of-all")
    (tmp_path / "admin").write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\nsasl.username=admin\n"
        f"sasl.password=first-of-all\nssl.ca.location={tmp_path / 'ca.pem'}\n"
    )
    state = tmp_path / "volumes" / host
    made_user = [
        "init",
        "--data",
        str(state),
        "--admin",
        "admin",
        "--password-file",
        str(tmp_path / "password"),
    ]
    subprocess.run([sys.executable, "-m", "dafka", *made_user], cwd=ROOT, check=True)
    # As systemd does with a directory that is not its user's.
    for path in (state, *state.rglob("*")):
        os.chown(path, USER, USER)
    # What a file of the unit's own says, as the readme's for a gateway, brings no listener in the clear.
    part = unit.part(host, {"DAFKA_LISTEN": settings_of_the_readme()["gateway"]["DAFKA_LISTEN"]})
    with Arrangement([part], tmp_path, unit.few_rights()) as arrangement:
        as_admin = ("--bootstrap", f"{host}:9092", "--client-config", str(tmp_path / "admin"))
        arrangement.run("topics", "create", TOPIC, *as_admin)
        assert TOPIC in arrangement.run("topics", "list", *as_admin)
        with pytest.raises(AssertionError, match="it closed the connection"):
            arrangement.run("topics", "list", "--bootstrap", f"{host}:9092")


def test_they_differ_in_what_they_start_alone() -> None:
    own = {"Environment", "EnvironmentFile", "ExecStart", "StateDirectory"}
    shared = [
        {key: text for key, text in Unit(FOLDER / f"{name}.service").service.items() if key not in own}
        for name in UNITS
    ]
    assert len(shared) == 4
    assert all(one == shared[0] for one in shared)


def parts() -> list[Part]:
    """As the readme has it: a machine for the tower and the gateway each, and three for stores."""
    files = settings_of_the_readme()
    assert files.keys() == {"tower", "store", "gateway"}
    units = {name: Unit(FOLDER / f"dafka-{name}.service") for name in files}
    hosts = {"tower-1.example.org": "tower", "kafka.example.org": "gateway"}
    hosts |= {f"store-{number}.example.org": "store" for number in (1, 2, 3)}
    own = {
        host: {name: text.replace("store-1", host.split(".")[0]) for name, text in files[role].items()}
        for host, role in hosts.items()
    }
    return [units[role].part(host, own[host]) for host, role in hosts.items()]


@pytest.mark.deploy
@pytest.mark.parametrize("name", UNITS)
def test_what_a_unit_denies_is_denied(name: str, tmp_path: Path) -> None:
    """The processes of the tests below have these rights."""
    command = [*Unit(FOLDER / f"{name}.service").few_rights(), sys.executable, "-c", TRIES]
    environment = {"PATH": os.environ["PATH"], "STATE_DIRECTORY": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (REFUSED, "")


@pytest.mark.deploy
def test_one_process_is_upgraded_under_a_load(tmp_path: Path) -> None:
    """An environment file has the last word: clients come from other machines here."""
    require("ip")
    host = "kafka.example.org"
    unit = Unit(FOLDER / "dafka.service")
    part = unit.part(host, {"DAFKA_LISTEN": f"0.0.0.0:9092@{host}:9092"})
    with Arrangement([part], tmp_path, unit.few_rights()) as arrangement:
        bootstrap = f"{host}:9092"
        arrangement.run("topics", "create", TOPIC, "--partitions", "4", "--bootstrap", bootstrap)
        with Load(arrangement, bootstrap, tmp_path / "load") as load:
            load.go_on()
            arrangement.running[host].restart()
            load.go_on()
            load.judge()
        status = Path(f"/proc/{arrangement.running[host].pid}/status").read_text()
        assert re.findall(
            r"^(?:Uid|CapEff|CapBnd|NoNewPrivs|Seccomp|Seccomp_filters):\t(\w+)", status, re.MULTILINE
        ) == [
            *(str(USER), "0" * 16, "0" * 16, "1", "2", "3"),
        ]


@pytest.mark.deploy
def test_a_mesh_of_units_is_upgraded_one_by_one_under_a_load(tmp_path: Path) -> None:
    require("ip")
    with Arrangement(parts(), tmp_path, Unit(FOLDER / "dafka-store.service").few_rights()) as arrangement:
        bootstrap = "kafka.example.org:9092"
        arrangement.run("topics", "create", TOPIC, *COPIES, "--bootstrap", bootstrap)
        with Load(arrangement, bootstrap, tmp_path / "load") as load:
            load.go_on()
            for running in arrangement.running.values():
                running.restart()
                load.go_on()
            load.judge()
