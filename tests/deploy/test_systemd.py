"""Systemd takes the units, they give few rights, and what they start is a mesh that survives its upgrade."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.arrangement import Arrangement
from tests.deploy.image import ROOT
from tests.deploy.load import COPIES, TOPIC, Load
from tests.deploy.parts import Part
from tests.deploy.units import PROGRAM, Unit
from tests.peers.requirements import require

FOLDER = ROOT / "deploy" / "systemd"
UNITS = sorted(path.stem for path in FOLDER.glob("*.service"))
EXPOSURE = 1.6
"""What `systemd-analyze security` may say at most, of 10."""

WITHOUT_JIT = (sys.executable, str(Path(__file__).with_name("without_jit.py")))


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
def test_one_process_is_upgraded_under_a_load(tmp_path: Path) -> None:
    """An environment file has the last word: clients come from other machines here."""
    require("ip")
    host = "kafka.example.org"
    part = Unit(FOLDER / "dafka.service").part(host, {"DAFKA_LISTEN": f"0.0.0.0:9092@{host}:9092"})
    with Arrangement([part], tmp_path, WITHOUT_JIT) as arrangement:
        bootstrap = f"{host}:9092"
        arrangement.run("topics", "create", TOPIC, "--partitions", "4", "--bootstrap", bootstrap)
        with Load(arrangement, bootstrap, tmp_path / "load") as load:
            load.go_on()
            arrangement.running[host].restart()
            load.go_on()
            load.judge()


@pytest.mark.deploy
def test_a_mesh_of_units_is_upgraded_one_by_one_under_a_load(tmp_path: Path) -> None:
    require("ip")
    with Arrangement(parts(), tmp_path, WITHOUT_JIT) as arrangement:
        bootstrap = "kafka.example.org:9092"
        arrangement.run("topics", "create", TOPIC, *COPIES, "--bootstrap", bootstrap)
        with Load(arrangement, bootstrap, tmp_path / "load") as load:
            load.go_on()
            for running in arrangement.running.values():
                running.restart()
                load.go_on()
            load.judge()
