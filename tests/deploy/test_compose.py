"""What the compose files describe is started for real, killed, and upgraded part by part under a load."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from dafka_pipeline.commands.archive import archive
from tests.deploy.arrangement import Arrangement
from tests.deploy.compose import IMAGE_ENVIRONMENT, read_compose
from tests.deploy.image import ROOT
from tests.deploy.load import COPIES, TOPIC, Load
from tests.peers.requirements import require

DEPLOY = ROOT / "deploy"
STANDALONE, MESH, CLUSTER = DEPLOY / "compose.yaml", DEPLOY / "mesh.yaml", DEPLOY / "cluster.yaml"
FILES = (STANDALONE, MESH, CLUSTER)
BOOTSTRAP = {
    STANDALONE: "dafka:9092",
    MESH: "gateway:9092",
    CLUSTER: "gateway-1:9092,gateway-2:9092,gateway-3:9092",
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_its_schema_holds(path: Path) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_it_refers_to_is_there(path: Path) -> None:
    document = yaml.safe_load(path.read_text())
    for service in document["services"].values():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            if source.startswith("."):
                assert (path.parent / source).exists(), source
            else:
                assert source in document["volumes"]
        for config in service.get("configs", ()):
            assert config["source"] in document["configs"]
        if isinstance(service.get("build"), dict):
            assert (path.parent / service["build"]["context"] / service["build"]["dockerfile"]).exists()


def test_every_service_of_ours_has_few_rights() -> None:
    for path in FILES:
        for name, service in yaml.safe_load(path.read_text())["services"].items():
            if service.get("image") == "dafka-gateway":
                assert service["read_only"] is True, name
                assert service["cap_drop"] == ["ALL"], name
                assert service["security_opt"] == ["no-new-privileges:true"], name


def test_the_image_sets_what_is_taken_for_granted() -> None:
    text = (ROOT / "Dockerfile").read_text()
    assert all(f"{name}={value}" in text for name, value in IMAGE_ENVIRONMENT.items())


@pytest.mark.parametrize("path", [MESH, CLUSTER], ids=lambda path: path.stem)
def test_everything_ours_is_scraped(path: Path) -> None:
    scraped = yaml.safe_load(yaml.safe_load(path.read_text())["configs"]["scrape"]["content"])
    (job,) = scraped["scrape_configs"]
    ours = [part.name for part in read_compose(path) if not part.program]
    assert job["static_configs"][0]["targets"] == [f"{name}:9404" for name in ours]


def test_the_archives_options_are_such() -> None:
    service = yaml.safe_load(MESH.read_text())["services"]["archive"]
    command, *options = service["command"]
    assert command == "archive"
    understood = archive.make_context("archive", options).params
    assert understood["bootstrap"] == BOOTSTRAP[MESH]
    assert understood["to"].startswith("/archive/")
    assert "archive:/archive" in service["volumes"]


@pytest.mark.deploy
def test_standalone_is_killed_and_upgraded_under_a_load(tmp_path: Path) -> None:
    require("ip")
    with Arrangement(read_compose(STANDALONE), tmp_path) as arrangement:
        bootstrap = BOOTSTRAP[STANDALONE]
        arrangement.run("topics", "create", TOPIC, "--partitions", "4", "--bootstrap", bootstrap)
        (server,) = arrangement.running.values()
        with Load(arrangement, bootstrap, tmp_path / "load") as load:
            load.go_on()
            server.kill9()
            server.launch()
            load.go_on()
            server.restart()
            load.go_on()
            load.judge()


@pytest.mark.deploy
@pytest.mark.parametrize("path", [MESH, CLUSTER], ids=lambda path: path.stem)
def test_it_is_killed_and_upgraded_one_by_one_under_a_load(path: Path, tmp_path: Path) -> None:
    require("ip")
    with Arrangement(read_compose(path), tmp_path) as arrangement:
        bootstrap = BOOTSTRAP[path]
        arrangement.run("topics", "create", TOPIC, *COPIES, "--bootstrap", bootstrap)
        with Load(arrangement, bootstrap, tmp_path / "load") as load:
            load.go_on()
            load.outlives_each_kill()
            for running in arrangement.running.values():
                running.restart()
                load.go_on()
            load.judge()
        for running in reversed(arrangement.running.values()):
            running.stop()
            assert "Traceback" not in running.log
