"""The user's function: found by its name, called with what it asks for, its result checked."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from dafka_pipeline.failures import UsageFailure
from dafka_pipeline.transform.columns import taken_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STATE_EXTRA: Final = (
    "State in Python functions needs pandas and protobuf (>= 5.28.3, < 7): "
    "pip install 'dafka-gateway[state]'."
)


class Function:
    """A function between topics.

    name: as the user gave it, MODULE:FN or FILE.py:FN.
    """

    def __init__(self, name: str, module: ModuleType, call: Callable[..., Any]) -> None:
        self.name = name
        self._module = module
        self._call = call

    def arguments(self, parameters: Mapping[str, str]) -> dict[str, Any]:
        """`--param`s as the function's keyword arguments, turned into its annotated int, float or bool.

        Raises UsageFailure for one that it does not take, or that it needs and did not get.
        """
        taken = inspect.signature(self._call).parameters
        own = list(taken.values())[1:]
        if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in own):
            names = set(parameters)
        else:
            names = {one.name for one in own if one.name != "spark"}
        unknown = sorted(set(parameters) - names)
        if unknown:
            raise UsageFailure(
                f"--param {unknown[0]}: {self.name} takes no such parameter; it takes "
                f"{', '.join(sorted(names)) or 'none'}."
            )
        missing = [
            one.name
            for one in own
            if one.default is inspect.Parameter.empty
            and one.kind not in {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}
            and one.name != "spark"
            and one.name not in parameters
        ]
        if missing:
            raise UsageFailure(
                f"{self.name} needs the parameter {missing[0]}: give --param {missing[0]}=VALUE."
            )
        kinds = {one.name: one.annotation for one in own}
        return {name: _converted(name, value, kinds.get(name)) for name, value in parameters.items()}

    def apply(
        self,
        frame: DataFrame,
        spark: SparkSession,
        parameters: Mapping[str, str],
        *,
        several_targets: bool,
    ) -> tuple[DataFrame, dict[str, str]]:
        """Its result for a streaming frame, and the columns of it that are written, with their types.

        Raises UsageFailure when it fails, or gives back what cannot be written to Kafka.
        """
        keywords = self.arguments(parameters)
        if "spark" in list(inspect.signature(self._call).parameters)[1:]:
            keywords["spark"] = spark
        result = self._called(frame, keywords)
        from pyspark.sql import DataFrame

        if not isinstance(result, DataFrame):
            raise UsageFailure(
                f"{self.name} gives back {type(result).__name__}, and it must give back a DataFrame: "
                "'return frame...' at its end."
            )
        if not result.isStreaming:
            raise UsageFailure(
                f"{self.name} gives back a frame that is not streaming: it must be made from the frame that "
                "the "
                "function gets, not from spark.read or createDataFrame alone."
            )
        types = {field.name: field.dataType.simpleString() for field in result.schema.fields}
        _check_state(result, self.name)
        return result, taken_columns(types, self.name, several_targets=several_targets)

    def _called(self, frame: DataFrame, keywords: Mapping[str, Any]) -> Any:
        # What runs on workers goes there with its code: they need not find the user's module.
        from pyspark.cloudpickle import register_pickle_by_value
        from pyspark.errors import PySparkException

        if self._module.__name__ != "__main__":
            register_pickle_by_value(self._module)
        try:
            return self._call(frame, **keywords)
        except ImportError as error:
            hint = f" {STATE_EXTRA}" if _is_of_state(error) else ""
            raise UsageFailure(f"{self.name} could not import what it needs: {error}.{hint}") from error
        except PySparkException as error:
            hint = f" {STATE_EXTRA}" if _is_of_state(error) else ""
            raise UsageFailure(f"{self.name} failed: {_first_lines(str(error))}{hint}") from error


def load_function(name: str) -> Function:
    """The function MODULE:FN, or FILE.py:FN. Modules are found in the working directory, too.

    Raises UsageFailure when there is none; whatever the module raises while it is imported is named.
    """
    where, colon, attribute = name.rpartition(":")
    if not colon or not where or not attribute:
        raise UsageFailure(f"{name}: give the function as MODULE:FUNCTION or FILE.py:FUNCTION.")
    module = _from_file(Path(where)) if where.endswith(".py") else _from_path(where)
    found = getattr(module, attribute, None)
    if found is None:
        there = sorted(
            n for n, one in vars(module).items() if inspect.isfunction(one) and not n.startswith("_")
        )
        raise UsageFailure(
            f"{name}: {where} has no '{attribute}'; its functions are {', '.join(there) or 'none'}."
        )
    if not callable(found):
        raise UsageFailure(f"{name}: '{attribute}' is {type(found).__name__}, not a function.")
    if not list(inspect.signature(found).parameters):
        raise UsageFailure(
            f"{name} takes no argument: its first one is the streaming frame of the source's records."
        )
    return Function(name, module, found)


def _from_file(file: Path) -> ModuleType:
    if not file.is_file():
        raise UsageFailure(f"{file}: there is no such file.")
    _findable(file.resolve().parent)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # the user's module may raise anything
        del sys.modules[file.stem]
        raise UsageFailure(f"{file} could not be imported: {type(error).__name__}: {error}.") from error
    return module


def _from_path(name: str) -> ModuleType:
    _findable(Path.cwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise UsageFailure(
                f"There is no module {name} in {Path.cwd()} or on Python's path. Give a file "
                "(FILE.py:FUNCTION), or set "
                "PYTHONPATH."
            ) from error
        raise UsageFailure(f"{name} could not be imported: {error}.") from error
    except Exception as error:  # the user's module may raise anything
        raise UsageFailure(f"{name} could not be imported: {type(error).__name__}: {error}.") from error


def _findable(folder: Path) -> None:
    """What lies beside the user's module is found here, and by the workers of a local master."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    before = os.environ.get("PYTHONPATH", "")
    if str(folder) not in before.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(folder), before)))


def _converted(name: str, value: str, annotation: Any) -> Any:
    kind = getattr(annotation, "__name__", annotation)
    try:
        if kind == "int":
            return int(value)
        if kind == "float":
            return float(value)
    except ValueError:
        raise UsageFailure(f"--param {name}={value}: it is no {kind}.") from None
    if kind == "bool":
        if value.lower() not in {"true", "false"}:
            raise UsageFailure(f"--param {name}={value}: give true or false.")
        return value.lower() == "true"
    return value


STATE: Final = "TransformWithState"
OLDER_STATE: Final = "FlatMapGroupsInPandasWithState"


def _check_state(result: DataFrame, name: str) -> None:
    """Without protobuf Spark says only that a worker 'exited unexpectedly (crashed)': look before."""
    plan = result._jdf.queryExecution().logical().toString()
    if STATE not in plan and OLDER_STATE not in plan:
        return
    pandas, protobuf = (_version(module, name) for module in ("pandas", "google.protobuf"))
    if not (5, 28, 3) <= protobuf < (7,):
        raise UsageFailure(f"{name} keeps state, and this version of protobuf does not fit. {STATE_EXTRA}")
    if OLDER_STATE in plan and pandas >= (3,):
        raise UsageFailure(
            f"{name} uses applyInPandasWithState, which does not work in Spark 4.0 with pandas 3 (a "
            "TypeError in "
            "the worker): use transformWithStateInPandas, or pip install 'pandas<3'."
        )


def _version(module: str, name: str) -> tuple[int, ...]:
    try:
        text = importlib.import_module(module).__version__
    except ImportError:
        raise UsageFailure(f"{name} keeps state, and {module} is not installed. {STATE_EXTRA}") from None
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def _is_of_state(error: BaseException) -> bool:
    text = str(error).lower()
    return "pandas" in text or "protobuf" in text


def _first_lines(text: str) -> str:
    return " ".join(text.split("\n\nJVM stacktrace", maxsplit=1)[0].split("\n")[:4])
