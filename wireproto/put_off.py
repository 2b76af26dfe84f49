"""Single modules of a package, without all that the package itself imports.

`import kafka.protocol` runs kafka-python's `__init__` first, which imports its clients, and aiokafka's does
likewise: a fifth of what a start imports, and nine megabytes, for nothing that is used here.
"""

import sys
from importlib.util import find_spec, module_from_spec
from typing import Any


def put_off(package: str) -> None:
    """Have a package's `__init__` run when something is asked of it that is no module of it, and not before.

    Whoever uses the whole package, in the same process, notices nothing. Without effect where it is imported
    already, or is not there.
    """
    try:
        spec = None if package in sys.modules else find_spec(package)
    except ImportError:  # what it is a part of is not there
        return
    if spec is None or spec.loader is None:
        return
    loader, module = spec.loader, module_from_spec(spec)

    def run(name: str) -> Any:
        del module.__dict__["__getattr__"]
        loader.exec_module(module)
        return getattr(module, name)

    module.__dict__["__getattr__"] = run  # asked for names that are not there (PEP 562)
    sys.modules[package] = module
