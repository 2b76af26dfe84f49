"""The numbers of the first screen."""

from __future__ import annotations

from typing import Any, Final

from gateway.http.router import Ask, Route
from gateway.http.routes.problems import counted, problems_of
from gateway.http.sums import ApiRates
from gateway.http.view import View, now_ms


async def overview(ask: Ask) -> dict[str, Any]:
    """The route."""
    ask.target.only()
    view = ask.view
    await view.sums.first()
    return overview_of(view)


def overview_of(view: View) -> dict[str, Any]:
    """The gateway in numbers, as they are now."""
    broker, around, totals = view.broker, view.surroundings, view.sums.totals
    stores = [entry for entry in broker.stores.entries if entry.state != REMOVED]
    because = around.not_ready_because()
    now = now_ms()
    return {
        "as_of": now,
        "cluster_id": broker.cluster_id,
        "node_id": broker.node_id,
        "role": around.role,
        "version": around.version,
        "ready": because is None,
        "because": because,
        "values_hidden": view.hide_values,
        "uptime_seconds": (now - view.started_ms) / 1000,
        "topics": len(broker.topics.all()),
        "partitions": broker.topics.partition_count(),
        "partitions_by_state": None
        if totals is None
        else {"serving": totals.serving, "recovering": totals.recovering, "failed": totals.failed},
        "under_replicated": None if totals is None else totals.under_replicated,
        "offline": None if totals is None else totals.offline,
        "bytes": None if totals is None else totals.bytes,
        "groups": len(broker.groups.groups),
        "groups_loading": broker.groups.partitions_loading,
        "stores": len(stores),
        "stores_live": sum(broker.stores.live(entry.incarnation) for entry in stores),
        "connections": view.metrics.connections_open,
        "rates": _rates(view),
        "problems": None if totals is None else counted(problems_of(view)),
    }


def _rates(view: View) -> dict[str, float | None]:
    totals, apis = view.sums.totals, view.sums.apis.values()
    return {
        "records_in": None if totals is None else rounded(totals.records_in),
        "bytes_in": None if totals is None else rounded(totals.bytes_in),
        **{name: _sum(apis, name) for name in ("requests", "request_bytes", "answer_bytes")},
    }


def _sum(apis: Any, name: str) -> float | None:
    rates: list[float] = [rate for api in apis if (rate := getattr(api, name)) is not None]
    return rounded(sum(rates)) if rates else None


def rounded(rate: float | None) -> float | None:
    """A rate for people."""
    return None if rate is None else round(rate, 2)


def api_row(name: str, rates: ApiRates) -> dict[str, Any]:
    """What is known of one API."""
    mean = rates.mean_seconds
    return {
        "api": name,
        "requests": rounded(rates.requests),
        "request_bytes": rounded(rates.request_bytes),
        "answer_bytes": rounded(rates.answer_bytes),
        "mean_seconds": None if mean is None else round(mean, 6),
    }


REMOVED: Final = "removed"
"""A store of the catalog that counts no more."""

ROUTES: Final = (Route("overview", "The gateway in numbers.", overview),)
