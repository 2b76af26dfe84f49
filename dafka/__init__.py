"""The program `dafka`: what a person types, the processes it starts, and what operators ask of them.

Programs that publish or hear native records on the mesh use two classes of it, under trio: `dafka.Producer`
and `dafka.Consumer`. They are loaded when they are first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dafka.native import Consumer, NotAcknowledged, Producer

__all__ = ["Consumer", "NotAcknowledged", "Producer"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from dafka import native  # loads ZeroMQ, which most commands have no need of

    return getattr(native, name)
