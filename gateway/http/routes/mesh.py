"""The mesh as this gateway knows it: itself, stores, towers, other nodes."""

from __future__ import annotations

import math
import os
import socket
from typing import Any, Final

from gateway.cluster.stores import StoreEntry
from gateway.http.router import Ask, Route
from gateway.http.view import View, now_ms


async def mesh(ask: Ask) -> dict[str, Any]:
    """The route."""
    ask.target.only()
    return mesh_of(ask.view)


def mesh_of(view: View) -> dict[str, Any]:
    """All of it; there are few stores."""
    around = view.surroundings
    own_store = around.own_store()
    untold = view.broker.context.closer.untold()
    return {
        "as_of": now_ms(),
        "gateways": [_gateway(view)],
        "stores": [_store(view, entry, own_store, untold) for entry in view.broker.stores.entries],
        "towers": list(around.towers()),
        "peers": list(around.peers()),
    }


def _gateway(view: View) -> dict[str, Any]:
    broker, around, kafka = view.broker, view.surroundings, view.kafka()
    cache, compaction = broker.context.tail_cache, broker.compaction
    return {
        "id": broker.node_id,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "version": around.version,
        "this": True,
        "uptime_seconds": round((now_ms() - view.started_ms) / 1000, 1),
        "loop": {
            "longest_seconds": round(around.longest_stretch(), 4),
            "long_stretches": around.long_stretches(),
        },
        "memory": {
            "window_bytes": broker.context.producer.window_bytes,
            "tail_cache_bytes": cache.bytes,
            "tail_cache_limit_bytes": cache.limit_bytes,
            "client_bytes": {} if kafka is None else kafka.memory_used(),
        },
        "compaction": {
            "runs": compaction.runs,
            "failures": compaction.failures,
            "dirty_bytes": compaction.dirty_bytes,
            "last_error": compaction.last_error,
        },
        "listeners": [] if kafka is None else list(kafka.addresses),
    }


def _store(
    view: View, entry: StoreEntry, own: dict[str, Any] | None, untold: dict[str, int]
) -> dict[str, Any]:
    stores = view.broker.stores
    presence, name = stores.presence, entry.incarnation
    silent = 0.0 if presence is None else presence.silence(name)
    told = own or {}
    return {
        "id": entry.id,
        "incarnation": name,
        "name": entry.name,
        "state": entry.state,
        "live": stores.live(name),
        "silent_seconds": None if math.isinf(silent) else round(silent, 1),
        "disk_bytes": stores.disk_bytes(name),
        "free_bytes": told.get("free_bytes") if presence is None else presence.free_bytes(name),
        "segments_to_hear": untold.get(name, 0),
        "catch_up": told.get("catch_up"),
        "scrub": told.get("scrub"),
        "fsync": told.get("fsync"),
        "version": view.surroundings.version if own is not None else None,
    }


ROUTES: Final = (Route("mesh", "The gateway, stores, towers and nodes.", mesh),)
