"""This package as a file for a cluster's workers: their Python need not have it, and must not have another
version.

What it needs besides (confluent-kafka, PyArrow) is not pure Python and comes with the workers' environment.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).parent.parent


def zipped(folder: Path) -> Path:
    """The package as a zip in `folder`, as Spark's `addPyFile` takes it."""
    target = folder / f"{PACKAGE.name}.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(PACKAGE.rglob("*.py")):
            archive.write(path, path.relative_to(PACKAGE.parent))
    return target
