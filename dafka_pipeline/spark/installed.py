"""Which PySpark there is, and whether the extra `spark` is there, found without importing any of it."""

import re
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from dafka_pipeline.failures import UsageFailure

MODULES: Final = {
    "pyspark": "PySpark",
    "confluent_kafka": "confluent-kafka",
    "pyarrow": "PyArrow",
    "pandas": "pandas",
}
"""What the extra `spark` brings: module -> its name for people."""
HOW: Final = "Install this package with its extra: pip install 'dafka-gateway[spark]'."


def check_extra() -> None:
    """Raises UsageFailure, naming all that is missing, where the extra `spark` is not installed."""
    missing = [name for module, name in MODULES.items() if find_spec(module) is None]
    if missing:
        names = " and ".join(filter(None, [", ".join(missing[:-1]), missing[-1]]))
        raise UsageFailure(f"{names} {'is' if len(missing) == 1 else 'are'} not installed. {HOW}")


def installed_pyspark() -> str:
    """The version of the PySpark that an import would find: pip's, or the one of a cluster's SPARK_HOME.

    Raises UsageFailure where there is none.
    """
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise UsageFailure(f"PySpark is not installed. {HOW}")
    said = Path(found.origin).with_name("version.py")
    text = said.read_text(encoding="utf-8") if said.is_file() else ""
    version = re.search(r"""__version__[^=]*=\s*["']([^"']+)""", text)
    return version[1] if version else metadata.version("pyspark")
