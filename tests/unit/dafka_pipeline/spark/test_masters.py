"""What each kind of master asks for."""

import os
from pathlib import Path

import pytest

from dafka_pipeline.spark.masters import address_settings, default_master, in_one_process, shuffle_settings

LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


@pytest.mark.parametrize(
    ("master", "one_process", "address", "partitions"),
    [
        ("local", True, LOOPBACK, "1"),
        ("local[3]", True, LOOPBACK, "3"),
        ("local[3,2]", True, LOOPBACK, "3"),
        ("local[*]", True, LOOPBACK, str(os.cpu_count())),
        ("local-cluster[2,3,1024]", False, LOOPBACK, "6"),
        ("spark://127.0.0.1:7077", False, LOOPBACK, None),
        ("spark://localhost:7077", False, LOOPBACK, None),
        ("spark://node-1:7077", False, {}, None),
        ("spark://127.0.0.100:7077,node-2:7077", False, {}, None),
        ("yarn", False, {}, None),
        ("k8s://https://127.0.0.1:443", False, {}, None),
    ],
)
def test_masters(master: str, one_process: bool, address: dict[str, str], partitions: str | None) -> None:
    assert in_one_process(master) is one_process
    assert address_settings(master) == address
    assert shuffle_settings(master).get("spark.sql.shuffle.partitions") == partitions


def test_where_no_master_is_given(tmp_path: Path) -> None:
    assert default_master({}) == "local[*]"
    assert default_master({"PYSPARK_GATEWAY_PORT": "1"}) is None
    home = {"SPARK_HOME": str(tmp_path)}
    assert default_master(home) == "local[*]"
    defaults = tmp_path / "conf" / "spark-defaults.conf"
    defaults.parent.mkdir()
    defaults.write_text("# spark.master yarn\nspark.masterly yes\n")
    assert default_master(home) == "local[*]"
    defaults.write_text("spark.eventLog.enabled true\n  spark.master   yarn\n")
    assert default_master(home) is None
    # Spark looks into one folder.
    (tmp_path / "other").mkdir()
    assert default_master(home | {"SPARK_CONF_DIR": str(tmp_path / "other")}) == "local[*]"
