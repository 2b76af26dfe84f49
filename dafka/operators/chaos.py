"""Orders to fail, as they come through the socket of `--chaos`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from dafka.chaos.answers import FAILED, WITH_TOPICS
from dafka.chaos.faults import Fault, Faults, Kind
from dafka.operators.socket import Handler, OperatorRefused
from gateway.broker import Broker
from gateway.common.handlers import Registry
from wireproto.kafka.errors import ErrorCode

MAX_DELAY_MS: Final = 600_000
"""Milliseconds: longer than any client waits."""

Disconnect = Callable[[], int]


class ChaosRequestHandlers:
    """What `dafka chaos` asks for. `disconnect` closes the connections of all clients."""

    def __init__(self, faults: Faults, registry: Registry, broker: Broker, disconnect: Disconnect) -> None:
        self._faults = faults
        self._names = {api.name.lower(): api.name for api in registry.all()}
        self._broker = broker
        self._disconnect = disconnect
        self.handlers: Mapping[str, Handler] = {
            "chaos.add": self._add,
            "chaos.list": self._list,
            "chaos.clear": self._clear,
            "chaos.expire": self._expire,
            "chaos.disconnect": self._close_all,
        }

    async def _add(self, request: dict[str, Any]) -> dict[str, Any]:
        fault = Fault(
            self._kind(request.get("kind")),
            self._api(request.get("api")),
            left=_whole(request, "times", 1, 1, 2**31) if request.get("times") is not None else None,
            topic=_text(request, "topic"),
            client_id=_text(request, "client_id"),
            owner=_text(request, "owner"),
        )
        if fault.kind is Kind.ERROR:
            if fault.api not in FAILED:
                raise OperatorRefused(f"{fault.api} cannot be made to fail; these can: {', '.join(FAILED)}")
            fault.error = _error(request.get("error"))
        if fault.kind is Kind.DELAY:
            fault.delay_ms = _whole(request, "delay_ms", 0, 1, MAX_DELAY_MS)
        if fault.topic and fault.api not in WITH_TOPICS:
            raise OperatorRefused(
                f"{fault.api} is not narrowed to a topic; these are: {', '.join(sorted(WITH_TOPICS))}"
            )
        self._faults.add(fault)
        return fault.shown()

    async def _list(self, _: dict[str, Any]) -> list[dict[str, Any]]:
        return [fault.shown() for fault in self._faults.ordered]

    async def _clear(self, request: dict[str, Any]) -> None:
        self._faults.clear(_text(request, "owner"))

    async def _expire(self, request: dict[str, Any]) -> int:
        """As if members had not been heard of for their session timeout."""
        group = self._broker.groups.groups.get(_text(request, "group"))
        if group is None:
            raise OperatorRefused(f"there is no group {_text(request, 'group')!r}")
        wanted = request.get("member")
        members = [one for one in group.machine.roster.members() if wanted in {None, one.member_id}]
        if not members:
            raise OperatorRefused(
                "there is no such member: 'dafka groups describe' shows those that are there"
            )
        for member in members:
            member.deadline = group.machine.due(self._broker.groups.now().seconds)
        group.carry_out()
        return len(members)

    async def _close_all(self, _: dict[str, Any]) -> int:
        return self._disconnect()

    def _kind(self, given: Any) -> Kind:
        try:
            return Kind(given)
        except ValueError:
            raise OperatorRefused(f"no fault is called {given!r}") from None

    def _api(self, given: Any) -> str:
        name = self._names.get(str(given).lower())
        if name is None:
            raise OperatorRefused(
                f"no API is called {given!r}: it is one of Kafka's, as Produce or Heartbeat"
            )
        return name


def _error(given: Any) -> ErrorCode:
    try:
        code = ErrorCode[str(given).upper()]
    except KeyError:
        raise OperatorRefused(f"Kafka has no error {given!r}; one is NOT_LEADER_OR_FOLLOWER") from None
    if code is ErrorCode.NONE:
        raise OperatorRefused("NONE is no error")
    return code


def _whole(request: dict[str, Any], name: str, default: int, least: int, most: int) -> int:
    number = request.get(name, default)
    if not isinstance(number, int) or not least <= number <= most:
        raise OperatorRefused(f"{name} is a number from {least} to {most}")
    return number


def _text(request: dict[str, Any], name: str) -> str:
    text = request.get(name) or ""
    if not isinstance(text, str):
        raise OperatorRefused(f"{name} is a text")
    return text
