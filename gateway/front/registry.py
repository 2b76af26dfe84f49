"""All Kafka APIs there are: each module of `gateway.api` registers one."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from gateway.common.handlers import DEFAULT_REGISTRY, Registry


def load_apis() -> Registry:
    """Imports every module of `gateway.api`, so that each registers itself; the default registry."""
    package = import_module("gateway.api")
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda m: m.name):
        import_module(f"gateway.api.{module.name}")
    return DEFAULT_REGISTRY
