"""What a master asks for: addresses, sizes, and whether its workers are other machines. Pure but for
`default_master`.

::

    local[2]                 threads of this process
    local-cluster[2,1,1024]  processes of this machine: executors, cores of each, MiB of each
    spark://HOST:7077        a standalone cluster
    yarn, k8s://...          others
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

LOOPBACK: Final = "127.0.0.1"
_LOCAL: Final = re.compile(r"local(?:\[(\d+|\*)(?:,\d+)?\])?")
_LOCAL_CLUSTER: Final = re.compile(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*\]")
_STANDALONE: Final = re.compile(r"spark://(?:127\.0\.0\.1|localhost):")


def in_one_process(master: str) -> bool:
    """Whether the executors are threads of the driver's own Java process."""
    return _LOCAL.fullmatch(master) is not None


def address_settings(master: str) -> dict[str, str]:
    """Where the driver listens for its executors.

    Where all of them are on this machine: on the loopback device alone, so that a laptop's name need not
    resolve, and nobody else reaches it. Else Spark finds the address (spark.driver.host, SPARK_LOCAL_IP).
    """
    if in_one_process(master) or _LOCAL_CLUSTER.fullmatch(master) or _STANDALONE.match(master):
        return {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    return {}


def shuffle_settings(master: str) -> dict[str, str]:
    """As many parts of a shuffle as tasks can run; where nobody knows, Spark's own default (200)."""
    local, cluster = _LOCAL.fullmatch(master), _LOCAL_CLUSTER.fullmatch(master)
    if cluster:
        tasks = int(cluster[1]) * int(cluster[2])
    elif local:
        tasks = (os.cpu_count() or 2) if local[1] == "*" else int(local[1] or 1)
    else:
        return {}
    return {"spark.sql.shuffle.partitions": str(tasks)}


def by_spark_submit(environment: Mapping[str, str]) -> bool:
    """Whether spark-submit started this program: then there is a Java process with its settings already."""
    return "PYSPARK_GATEWAY_PORT" in environment


def default_master(environment: Mapping[str, str]) -> str | None:
    """The master where none is given; None where spark-submit or spark-defaults.conf name one."""
    if by_spark_submit(environment) or "MASTER" in environment:
        return None
    home = environment.get("SPARK_HOME")
    folder = environment.get("SPARK_CONF_DIR") or (f"{home}/conf" if home else None)
    defaults = Path(folder, "spark-defaults.conf") if folder else None
    if defaults is not None and defaults.is_file():
        text = defaults.read_text(encoding="utf-8", errors="replace")
        if re.search(r"^\s*spark\.master[\s=:]", text, re.MULTILINE):
            return None
    return "local[*]"
