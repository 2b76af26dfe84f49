"""`dafka tower` as a process: its ready line, its warnings, its metrics, and how it ends."""

from __future__ import annotations

import json
import re
import signal
import urllib.request
from pathlib import Path

import pytest
import zmq

from tests.peers.process import ServerEnded
from tests.peers.tower import TowerProcess
from wireproto.dafka.beacons import NodeBeacon


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it(tmp_path: Path, number: signal.Signals) -> None:
    with TowerProcess(tmp_path) as tower:
        assert tower.stdout == f"Tower is ready on 127.0.0.1:{tower.port_in}:{tower.port_out}\n"
        assert tower.port_in != tower.port_out
        tower.send_signal(number)
        assert tower.wait() == 0
        assert "WARNING" not in tower.log


def test_a_tower_for_all_says_so(tmp_path: Path) -> None:
    with TowerProcess(tmp_path, "--listen", "0.0.0.0", "--insecure-mesh", "--log-format", "json") as tower:
        assert tower.host == "0.0.0.0"
        (line,) = tower.log.splitlines()
        assert json.loads(line)["level"] == "warning"
        assert "--insecure-mesh: the mesh listens on 0.0.0.0 without keys" in json.loads(line)["message"]
        assert tower.terminate() == 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ("--port-in", "{in}"),
            "Address already in use. Stop what uses it (`ss -ltnp sport = :{in}` names it)",
        ),
        (("--port-out", "{in}"), "Address already in use"),
        (("--listen", "192.0.2.1", "--insecure-mesh"), "`ip address` lists them"),
        (("--listen", "0.0.0.0"), "Give each node keys (dafka keys init; --mesh-keys DIR), or bind it to"),
        (("--mesh-keys", "/nowhere"), "make this node's key with 'dafka keys init /nowhere"),
        (("--listen", "no-such-host.invalid"), "the host name has no address"),
        (("--metrics", "127.0.0.1:{in}"), "choose another port: --metrics 127.0.0.1:0 finds a free one"),
        (("--port-in", "65536"), "--port-in: 65536 is not between 0 and 65535"),
        (("--listen", "127.0.0.1:5556"), "--listen: "),
    ],
)
def test_what_it_refuses(tmp_path: Path, arguments: tuple[str, ...], text: str) -> None:
    """One line, and the exit code for usage and environment."""
    with TowerProcess(tmp_path / "first") as first:
        taken = str(first.port_in)
        second = TowerProcess(tmp_path / "second", *(each.replace("{in}", taken) for each in arguments))
        with pytest.raises(ServerEnded):
            second.start()
        assert second.returncode == 2
        assert second.stdout == ""
        *warnings, last = second.log.splitlines()
        assert last.startswith("dafka: ")
        assert text.replace("{in}", taken) in last
        assert len(warnings) == arguments.count("--insecure-mesh")


def test_settings_from_a_file(tmp_path: Path) -> None:
    config = tmp_path / "tower.toml"
    config.write_text('listen = "localhost"\nlog-level = "error"\n')
    with TowerProcess(tmp_path / "tower", "--config", str(config)) as tower:
        assert tower.host == "localhost"


def page(tower: TowerProcess, path: str) -> str:
    where = re.search(r"metrics and health are on (http://\S+)", tower.log)
    assert where, tower.log
    with urllib.request.urlopen(where[1] + path, timeout=10) as answer:
        return str(answer.read().decode())


def test_its_metrics(tmp_path: Path) -> None:
    with TowerProcess(tmp_path, "--metrics", "127.0.0.1:0") as tower, zmq.Context() as context:
        assert json.loads(page(tower, "/health")) == {"live": True, "ready": True}
        with context.socket(zmq.XPUB) as publisher, context.socket(zmq.SUB) as subscriber:
            publisher.rcvtimeo = subscriber.rcvtimeo = 10_000
            subscriber.subscribe(b"")
            subscriber.connect(f"tcp://127.0.0.1:{tower.port_out}")
            publisher.connect(f"tcp://127.0.0.1:{tower.port_in}")
            assert publisher.recv() == b"\x01B"
            assert subscriber.recv_multipart() == [b"W"]
            for frames in ([b"B", b"?"], *(NodeBeacon(node, "", 1).frames() for node in ("N1", "N2", "N1"))):
                publisher.send_multipart(frames)
            assert [subscriber.recv_multipart()[1] for _ in range(3)] == [b"N1", b"N2", b"N1"]
        samples = dict(
            line.split() for line in page(tower, "/metrics").splitlines() if line.startswith("dafka_tower_")
        )
        assert {name: float(value) for name, value in samples.items()} == {
            "dafka_tower_nodes": 2,
            "dafka_tower_beacons_total": 3,
            "dafka_tower_malformed_beacons_total": 1,
            "dafka_tower_refused_beacons_total": 0,
            "dafka_tower_cut_links_total": 0,
        }
