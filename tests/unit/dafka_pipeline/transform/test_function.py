"""A user's function is found, or it is said why not; its parameters are checked before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from dafka_pipeline.failures import UsageFailure
from dafka_pipeline.transform.function import load_function

JOBS = """
from beside import SECRET
LIMIT = 3
def plain(records):
    return records
def rich(records, spark, limit: int, ratio: "float" = 0.5, loud: bool = False, name=None):
    return records
def open_ended(records, **more):
    return records
def nothing():
    return None
def _hidden(records):
    return records
"""


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.chdir(tmp_path)
    name = f"jobs_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(JOBS)
    (tmp_path / "beside.py").write_text("SECRET = 1")
    return name


@pytest.mark.parametrize("ending", [":plain", ".py:plain"])
def test_by_module_and_by_file(jobs: str, ending: str) -> None:
    assert load_function(jobs + ending).name == jobs + ending


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("JOBS", "MODULE:FUNCTION"),
        (":fn", "MODULE:FUNCTION"),
        ("JOBS:", "MODULE:FUNCTION"),
        ("JOBS:missing", "its functions are nothing, open_ended, plain, rich"),
        ("JOBS:LIMIT", "int, not a function"),
        ("JOBS:nothing", "takes no argument"),
        ("not_there_at_all:fn", "no module not_there_at_all"),
        ("JOBS.deeper:fn", "no module JOBS.deeper"),
        ("not_there.py:fn", "no such file"),
        ("broken.py:fn", "ZeroDivisionError"),
        ("broken:fn", "ZeroDivisionError"),
        ("lacking.py:fn", "No module named 'never_installed'"),
        ("lacking:fn", "No module named 'never_installed'"),
    ],
)
def test_what_is_wrong_is_named(jobs: str, tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "broken.py").write_text("1 / 0")
    (tmp_path / "lacking.py").write_text("import never_installed")
    with pytest.raises(UsageFailure) as failure:
        load_function(name.replace("JOBS", jobs))
    assert said.replace("JOBS", jobs) in str(failure.value)


def test_parameters_become_what_they_are_annotated_as(jobs: str) -> None:
    given = {"limit": "3", "ratio": "2.5", "loud": "true", "name": "x"}
    assert load_function(f"{jobs}:rich").arguments(given) == {
        "limit": 3,
        "ratio": 2.5,
        "loud": True,
        "name": "x",
    }
    assert load_function(f"{jobs}:open_ended").arguments({"any": "1"}) == {"any": "1"}


@pytest.mark.parametrize(
    ("function", "given", "said"),
    [
        ("rich", {}, "--param limit=VALUE"),
        ("rich", {"limit": "x"}, "no int"),
        ("rich", {"limit": "1", "loud": "yes"}, "true or false"),
        ("rich", {"limit": "1", "spark": "x"}, "no such parameter"),
        ("plain", {"limit": "1"}, "it takes none"),
    ],
)
def test_parameters_that_do_not_fit(jobs: str, function: str, given: dict[str, str], said: str) -> None:
    with pytest.raises(UsageFailure, match=said):
        load_function(f"{jobs}:{function}").arguments(given)
