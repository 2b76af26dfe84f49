"""What is wrong right now, and what to do about it."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from typing import Any, Final

from gateway.administration.feature_updates import prospects
from gateway.http.router import Ask, Route
from gateway.http.view import View, now_ms

CRITICAL: Final = "critical"
WARNING: Final = "warning"

LITTLE_DISK: Final = 0.15
"""Part of a store's disk; with less that is free somebody should look."""

NO_DISK: Final = 0.05
"""Part of a store's disk; with less that is free it stops soon."""

LONG_STRETCH_SECONDS: Final = 1.0
"""A stretch of the loop that clients take for a gateway that hangs."""

MAX_PROBLEMS: Final = 200
"""Problems that are listed."""


async def problems(ask: Ask) -> dict[str, Any]:
    """The route."""
    ask.target.only()
    await ask.view.sums.first()
    found = problems_of(ask.view)
    return {"as_of": now_ms(), "items": found, "next": None, "total": len(found)}


def problems_of(view: View) -> list[dict[str, Any]]:
    """All of them, the worst first."""
    found = [
        *_process(view),
        *_stores(view),
        *_towers(view),
        *_partitions(view),
        *_groups(view),
        *_work(view),
        *_features(view),
    ]
    return sorted(found, key=lambda one: (one["severity"] != CRITICAL, one["id"]))[:MAX_PROBLEMS]


def counted(found: list[dict[str, Any]]) -> dict[str, int]:
    """How many there are of each severity."""
    critical = sum(one["severity"] == CRITICAL for one in found)
    return {CRITICAL: critical, WARNING: len(found) - critical}


def _problem(
    name: str,
    severity: str,
    title: str,
    detail: str,
    next_step: str,
    *,
    command: str | None = None,
    view: str | None = None,
    key: str | None = None,
    since_ms: int | None = None,
) -> dict[str, Any]:
    return {
        "id": name,
        "severity": severity,
        "title": title,
        "detail": detail,
        "next_step": next_step,
        "command": command,
        "view": view,
        "key": key,
        "since_ms": since_ms,
    }


def _process(view: View) -> Iterator[dict[str, Any]]:
    because = view.surroundings.not_ready_because()
    if because is not None:
        yield _problem(
            "not-ready",
            WARNING,
            "The gateway is not ready",
            f"It is {because}; clients wait or are sent away.",
            "Wait; if it takes long, its log says what it waits for.",
        )


def _stores(view: View) -> Iterator[dict[str, Any]]:
    stores = view.broker.stores
    own = view.surroundings.own_store()
    for entry in stores.entries:
        if entry.state == "removed":
            continue
        name = f"Store {entry.id}" if entry.name == entry.incarnation else f"Store {entry.id} ({entry.name})"
        key = str(entry.id)
        if not stores.live(entry.incarnation):
            silent = math.inf if stores.presence is None else stores.presence.silence(entry.incarnation)
            heard = "since this gateway started" if math.isinf(silent) else "for seconds"
            yield _problem(
                f"store-away:{entry.id}",
                CRITICAL,
                f"{name} is away",
                f"Nothing was heard of it {heard}. What it keeps has fewer copies than it should.",
                "Start it again on its own directory, or have another one take its place.",
                command=f"dafka store admit NEW && dafka store replace {entry.id} NEW",
                view="mesh",
                key=key,
                since_ms=None if math.isinf(silent) else now_ms() - int(silent * 1000),
            )
        size = stores.disk_bytes(entry.incarnation)
        presence = stores.presence
        free = (own or {}).get("free_bytes") if presence is None else presence.free_bytes(entry.incarnation)
        if size and free is not None and free / size < LITTLE_DISK:
            yield _problem(
                f"store-disk:{entry.id}",
                CRITICAL if free / size < NO_DISK else WARNING,
                f"The disk of {name} is nearly full",
                f"{free / 2**30:.1f} GiB of {size / 2**30:.1f} GiB are free.",
                "Lower the retention of large topics, delete some, or give it a larger disk.",
                command="dafka topics alter TOPIC --set retention.bytes=BYTES",
                view="mesh",
                key=key,
            )
        if own is not None:
            yield from _damage(own, name, key)


def _damage(own: dict[str, Any], name: str, key: str) -> Iterator[dict[str, Any]]:
    scrub = own["scrub"]
    if scrub["damaged"] or scrub["irreparable"] or scrub["differing"]:
        yield _problem(
            f"store-damage:{key}",
            CRITICAL,
            f"{name} has damaged segments",
            f"{scrub['damaged']} damaged, {scrub['irreparable']} ranges without a good copy, "
            f"{scrub['differing']} that differ from another store's.",
            "Look at its log; replace the disk, and restore what has no good copy.",
            view="mesh",
            key=key,
        )


def _towers(view: View) -> Iterator[dict[str, Any]]:
    for tower in view.surroundings.towers():
        if not tower["connected"]:
            yield _problem(
                f"tower-away:{tower['address']}",
                WARNING,
                f"The tower at {tower['address']} is away",
                "Links that are up stay; nodes that start or move are not found through it.",
                "Start it again, or look at the network between.",
                command="dafka tower",
                view="mesh",
                key=tower["address"],
            )


def _partitions(view: View) -> Iterator[dict[str, Any]]:
    totals, recovery = view.sums.totals, view.broker.recovery
    if totals is None:
        return
    if totals.failed:
        first = totals.failures[0]
        yield _problem(
            "partitions-failed",
            CRITICAL,
            f"{totals.failed} partitions have failed",
            f"{first.topic.name}-{first.index}: {first.reason}",
            "What was closed before is still served. The reason says what to mend; nothing is guessed.",
            view="topic",
            key=first.topic.name,
        )
    if totals.recovering:
        away = ", ".join(view.broker.stores.name(store) for store in recovery.waiting_for)
        yield _problem(
            "partitions-recovering",
            CRITICAL if away else WARNING,
            f"{totals.recovering} partitions are being recovered",
            f"They wait for {away}." if away else "They take no records until that is done.",
            "Start the stores that are waited for." if away else "Wait: it takes seconds.",
            view="mesh" if away else None,
        )
    if totals.under_min:
        yield _problem(
            "partitions-under-min",
            CRITICAL,
            f"{totals.under_min} partitions have too few stores",
            "Producers with acks=all wait or get an error: fewer stores are there than have to keep a batch.",
            "Start the stores that are away.",
            view="mesh",
        )
    elif totals.under_replicated:
        yield _problem(
            "partitions-under-replicated",
            WARNING,
            f"{totals.under_replicated} partitions have fewer copies than they should",
            "They are served; the failure of another store may stop them.",
            "Start the stores that are away.",
            view="mesh",
        )


def _groups(view: View) -> Iterator[dict[str, Any]]:
    loading = view.broker.groups.partitions_loading
    if loading:
        yield _problem(
            "groups-loading",
            WARNING,
            "Groups are being loaded",
            f"{loading} partitions of __consumer_offsets are not read yet; their groups are not served.",
            "Wait: it takes seconds.",
            view="groups",
        )
    for group_id, partitions in view.sums.lost_offsets.partitions.items():
        yield _problem(
            f"offsets-lost:{group_id}",
            CRITICAL,
            f"Group {group_id} has lost records",
            f"Retention has taken away what it has not read yet, in {partitions} partitions.",
            "Make retention longer or the group faster; then set it to where it is to go on.",
            command=f"dafka groups reset {shlex.quote(group_id)} --to-earliest",
            view="group",
            key=group_id,
        )


def _work(view: View) -> Iterator[dict[str, Any]]:
    kafka = view.kafka()
    waiting = {} if kafka is None else kafka.memory_waited_for()
    if waiting:
        what = ", ".join(f"{count} for {name}" for name, count in waiting.items())
        yield _problem(
            "memory",
            WARNING,
            "Clients wait for memory",
            f"Connections wait: {what}.",
            "Look for clients that send much or read slowly.",
            view="clients",
        )
    longest = view.surroundings.longest_stretch()
    if longest > LONG_STRETCH_SECONDS:
        yield _problem(
            "loop",
            WARNING,
            "The gateway is held up",
            f"Its loop ran for {longest:.1f} s without a look at its sockets, within the last minutes.",
            "See its log of that time; a machine without free processors or memory does this, too.",
            view="mesh",
        )
    for store, size in view.broker.context.copies.too_large.items():
        yield _problem(
            "catalog-size",
            CRITICAL,
            "The catalog is too large for stores to keep a copy of it",
            f"{size} bytes are to be kept by {view.broker.stores.name(store)}.",
            "Delete topics, or configs that topics have of their own.",
            command="dafka topics delete NAME",
        )
        break


ROUTES: Final = (Route("problems", "What is wrong right now, worst first.", problems),)


def _features(view: View) -> Iterator[dict[str, Any]]:
    """An upgrade of several gateways whose last step is left: what it brings is not switched on."""
    if view.broker.gateway_orders is None:
        return
    features = view.broker.features
    for name, prospect in prospects(features.state(), features.supported).items():
        if prospect.possible > prospect.level:
            yield _problem(
                f"feature:{name}",
                WARNING,
                "An upgrade can be finished",
                f"All gateways can do {name} at level {prospect.possible}, and it is at {prospect.level}.",
                "Raise it, unless an older release may be wanted back: that does not start afterwards.",
                command="dafka gateways upgrade",
            )
