"""Without the extra, and with a PySpark that nothing fits."""

import subprocess
import sys
from pathlib import Path

import pytest

from dafka_pipeline.failures import UsageFailure
from dafka_pipeline.spark.installed import check_extra, installed_pyspark

HEAVY = ("confluent_kafka", "deltalake", "pandas", "py4j", "pyarrow", "pyspark")
COMMANDS = ((), ("archive",), ("audit",), ("compact",), ("replay",), ("transform",))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command) or "all")
def test_help_imports_nothing_heavy(command: tuple[str, ...]) -> None:
    program = f"""
import sys
from dafka_pipeline.cli import run
assert run([*{command!r}, "--help"]) == 0
print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"
    assert "--help" in done.stdout


def test_what_is_missing_is_named_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = {"pyspark", "pyarrow"}
    monkeypatch.setattr(
        "dafka_pipeline.spark.installed.find_spec", lambda name: None if name in missing else name
    )
    with pytest.raises(
        UsageFailure, match=r"^PySpark and PyArrow are not installed\..*dafka-gateway\[spark\]"
    ):
        check_extra()
    missing = {"confluent_kafka"}
    with pytest.raises(UsageFailure, match=r"^confluent-kafka is not installed\."):
        check_extra()


def test_the_version_that_an_import_would_find(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert installed_pyspark() == "4.0.0"
    # A cluster's own, which pip knows nothing of.
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").touch()
    (tmp_path / "pyspark" / "version.py").write_text("__version__: str = '3.5.6'\n")
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert installed_pyspark() == "3.5.6"
