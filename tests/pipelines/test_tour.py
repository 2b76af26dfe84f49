"""The notebook runs from its top to its end, and what stands in it is what comes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.differential.servers import our_server
from tests.peers.maven import pipeline_jars
from tests.peers.requirements import require

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,  # four starts of Spark
    # Jupyter's own clients.
    pytest.mark.filterwarnings("ignore::DeprecationWarning:(jupyter|nbclient|zmq|traitlets|tornado)"),
]
ROOT = Path(__file__).parents[2]
SECONDS = 600
CHANGES = (
    (r"127\.0\.0\.1:\d+", "KAFKA"),
    (r"replay-\w+", "REPLAY"),
    (r"archive@\d+", "archive@VERSION"),
)
"""What is another one in each run: an address, an id, how many commits the table has."""


def outputs(notebook: Any) -> list[str]:
    """What each cell with code has printed or is, in plain text."""
    found = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            texts = [one.get("text") or one.get("data", {}).get("text/plain", "") for one in cell.outputs]
            text = "\n".join(texts)
            for pattern, name in CHANGES:
                text = re.sub(pattern, name, text)
            found.append(text)
    return found


def test_it_runs_and_shows_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    require("java")
    notebook = nbformat.read(ROOT / "examples" / "tour.ipynb", as_version=4)
    stored = outputs(notebook)
    with our_server() as server:
        monkeypatch.setenv("DAFKA_BOOTSTRAP", server.bootstrap)
        monkeypatch.setenv("DAFKA_PIPELINE_JARS", str(pipeline_jars()))
        monkeypatch.setenv("PYTHONPATH", str(ROOT))
        NotebookClient(notebook, timeout=SECONDS, kernel_name="python3").execute()
    assert outputs(notebook) == stored
    assert any("EQUAL: 1,000 records in 3 partitions." in text for text in stored)
    assert any("Archive and targets are equal." in text for text in stored)
