"""The rows of each view, for its live updates."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any

from gateway.http.live import Event, Rows, Source, changed, rows_changed
from gateway.http.routes.clients import clients_of
from gateway.http.routes.groups import (
    MAX_LIST_OFFSETS,
    MAX_LISTED_OFFSETS,
    find_group,
    group_partition_row,
    group_row,
    members_of,
    offsets_looked_at,
)
from gateway.http.routes.mesh import mesh_of
from gateway.http.routes.overview import overview_of
from gateway.http.routes.problems import problems_of
from gateway.http.routes.topics import find_topic, partition_row, topic_row
from gateway.http.target import whole_number
from gateway.http.view import View, now_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

RUNNING_ON = frozenset(("as_of", "uptime_seconds"))
"""Fields that are another one each second, and no news."""


class Now(Source):
    """The overview and what is wrong: on every stream."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._overview: dict[str, Any] | None = None
        self._problems: list[tuple[Any, ...]] | None = None

    async def events(self) -> list[Event]:
        """See `Source`."""
        await self._view.sums.first()
        async with self._view.turns.working():
            overview = overview_of(self._view)
            problems = problems_of(self._view)
        fields = changed(self._overview, overview)
        # What a problem says in detail goes up by the second with some; it is news when another one is there.
        known = [(one["id"], one["severity"], one["title"]) for one in problems]
        is_news = known != self._problems
        if self._overview is not None and not is_news and fields.keys() <= RUNNING_ON:
            return []
        self._overview, self._problems = overview, known
        data: dict[str, Any] = {"as_of": overview["as_of"], "overview": fields, "problems_changed": is_news}
        return [Event("now", data | {"problems": problems} if is_news else data)]


class RowsSource(Source):
    """A view that has rows."""

    name: str

    def __init__(self, view: View) -> None:
        self.view = view
        self._sent: Rows = {}
        self._first = True

    async def events(self) -> list[Event]:
        """See `Source`."""
        async with self.view.turns.working():
            rows = await self.rows()
            fields, gone = rows_changed(self._sent, rows)
        if not fields and not gone and not self._first:
            return []
        self._sent, self._first = rows, False
        return [Event("rows", {"as_of": now_ms(), "view": self.name, "rows": fields, "gone": gone})]

    @abc.abstractmethod
    async def rows(self) -> Rows:
        """The rows as they are now. The caller works. Raises Failure."""


class TopicsRows(RowsSource):
    """Some topics, by name."""

    name = "topics"

    def __init__(self, view: View, keys: Sequence[str]) -> None:
        super().__init__(view)
        self._keys = keys

    async def rows(self) -> Rows:
        """See `RowsSource`."""
        rows = {}
        for key in self._keys:
            topic = self.view.broker.topics.get(key)
            if topic is not None:
                rows[key] = topic_row(self.view, topic)
                await self.view.turns.breathe()
        return rows


class TopicRows(RowsSource):
    """One topic, and some of its partitions."""

    name = "topic"

    def __init__(self, view: View, topic: str, keys: Sequence[str]) -> None:
        super().__init__(view)
        self._topic = topic
        self._keys = [index for index in map(whole_number, keys) if index is not None]

    async def rows(self) -> Rows:
        """See `RowsSource`."""
        topic = find_topic(self.view, self._topic)
        rows = {"": topic_row(self.view, topic)}
        for index in self._keys:
            if index < len(topic.partitions):
                rows[str(index)] = partition_row(self.view, topic, topic.partitions[index])
                await self.view.turns.breathe()
        return rows


class GroupsRows(RowsSource):
    """Some groups, by id."""

    name = "groups"

    def __init__(self, view: View, keys: Sequence[str]) -> None:
        super().__init__(view)
        self._keys = keys

    async def rows(self) -> Rows:
        """See `RowsSource`."""
        rows, left = {}, MAX_LIST_OFFSETS
        for key in self._keys:
            group = self.view.broker.groups.groups.get(key)
            if group is not None:
                rows[key] = await group_row(self.view, group, most=min(left, MAX_LISTED_OFFSETS))
                left -= offsets_looked_at(rows[key])
                await self.view.turns.breathe()
        return rows


class GroupRows(RowsSource):
    """One group, and some of its partitions."""

    name = "group"

    def __init__(self, view: View, group_id: str, keys: Sequence[str]) -> None:
        super().__init__(view)
        self._group_id = group_id
        self._keys = []
        for key in keys:
            topic, _, number = key.rpartition("/")
            index = whole_number(number)
            if index is not None:
                self._keys.append((key, topic, index))
        self._generation: tuple[int, str] | None = None
        self._owners: dict[tuple[str, int], str] = {}

    async def rows(self) -> Rows:
        """See `RowsSource`."""
        view, group = self.view, find_group(self.view, self._group_id)
        machine = group.machine
        generation = machine.generation, machine.state.value
        if generation != self._generation:
            _, self._owners = await members_of(view, group)
            self._generation = generation
        points = view.trends.of(self._group_id)
        summary = await group_row(view, group)
        summary["trend_point"] = [str(points[-1][0]), str(points[-1][1])] if points else None
        rows = {"": summary}
        for key, topic, index in self._keys:
            owner = self._owners.get((topic, index))
            rows[key] = group_partition_row(view, group, topic, index, owner)
            await view.turns.breathe()
        return rows


class MeshRows(RowsSource):
    """All of the mesh."""

    name = "mesh"

    async def rows(self) -> Rows:
        """See `RowsSource`."""
        mesh = mesh_of(self.view)
        for gateway in mesh["gateways"]:
            del gateway["uptime_seconds"]
        return {
            **{f"gateway:{one['id']}": one for one in mesh["gateways"]},
            **{f"store:{one['id']}": one for one in mesh["stores"]},
            **{f"tower:{one['address']}": one for one in mesh["towers"]},
        }


class ClientsRows(RowsSource):
    """All kinds of clients."""

    name = "clients"

    async def rows(self) -> Rows:
        """See `RowsSource`."""
        clients = await clients_of(self.view)
        return {
            **{f"{one['library'] or ''}/{one['version'] or ''}": one for one in clients["items"]},
            **{f"api:{one['api']}": one for one in clients["apis"]},
        }
