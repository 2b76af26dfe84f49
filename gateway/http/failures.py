"""What is answered where something is wrong: problem details (RFC 9457), with the cause and the next step."""

from __future__ import annotations

import json
from collections.abc import Sequence
from http import HTTPStatus
from typing import Final

PROBLEM_TYPE: Final = "application/problem+json"


class Failure(Exception):
    """An answer that is an error. `kind` is the last part of its type, `detail` the cause, `next_step` what
    to do about it. `headers` go with it.
    """

    def __init__(
        self,
        status: HTTPStatus,
        kind: str,
        detail: str,
        next_step: str,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.detail = detail
        self.next_step = next_step
        self.headers = headers

    def body(self, instance: str) -> bytes:
        """As the client gets it; `instance` is the path that it asked for."""
        problem = {
            "type": f"urn:dafka:problem:{self.kind}",
            "title": self.status.phrase,
            "status": self.status.value,
            "detail": self.detail,
            "next_step": self.next_step,
            "instance": instance,
        }
        return json.dumps(problem).encode() + b"\n"


def bad_parameter(name: str, text: str, wanted: str) -> Failure:
    """A parameter that cannot be understood."""
    shown = text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"
    return Failure(
        HTTPStatus.BAD_REQUEST, "bad-parameter", f"{name}={shown!r} is not {wanted}", f"Give {wanted}."
    )


def wrong_method(allowed: Sequence[str]) -> Failure:
    """There is something at this path, for other methods."""
    return Failure(
        HTTPStatus.METHOD_NOT_ALLOWED,
        "method",
        "this path is not for that method",
        f"Use {' or '.join(allowed)}.",
        (("Allow", ", ".join(allowed)),),
    )


def not_found(kind: str, detail: str, next_step: str) -> Failure:
    """There is no such thing."""
    return Failure(HTTPStatus.NOT_FOUND, kind, detail, next_step)


MAX_SHOWN: Final = 100
"""Characters of a client's text that an error repeats."""
