"""The keys with which tokens are signed (JWKS): from a file or over HTTPS, read again while they are used.

Rule: what is known stays known until there is something better. Who signs tokens changes keys without a word
to anybody, so a token with an unknown key has the set read again, but not more often than each minute.
"""

from __future__ import annotations

import logging
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Final

import trio

from gateway.security.web_tokens import BadKeySet, SigningKey, read_key_set

REFRESH_SECONDS: Final = 3600.0
"""Between two looks at the set: Kafka's `sasl.oauthbearer.jwks.endpoint.refresh.ms`."""

EARLY_SECONDS: Final = 60.0
"""The same at least, when a token has an unknown key."""

FIRST_RETRY_SECONDS: Final = 0.1
MOST_RETRY_SECONDS: Final = 10.0
"""After an attempt that has failed; each doubles it (`...jwks.endpoint.retry.backoff.ms`)."""

TIMEOUT_SECONDS: Final = 10.0
"""How long the other side may be silent."""

MAX_BYTES: Final = 256 * 1024
"""Largest set that is read."""

logger = logging.getLogger(__name__)


class KeySet:
    """`load` reads the set; it is called in worker threads. `run` has to run."""

    def __init__(self, load: Callable[[], bytes], name: str) -> None:
        self._load = load
        self._name = name
        self._keys: dict[str, SigningKey] = {}
        self._is_wanted = trio.Event()
        self._wants_early = False
        self.failures = 0
        """Attempts to read it that have failed."""

    def key_of(self, key_id: str) -> SigningKey | None:
        """As `Validator` wants it. It is called in worker threads."""
        if not key_id and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        found = self._keys.get(key_id)
        if found is None:
            self._wants_early = True
        return found

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Read it, and read it again, for ever. It has started after the first attempt."""
        retry = FIRST_RETRY_SECONDS
        has_started = False
        while True:
            is_read = await self._read()
            if not has_started:
                has_started = True
                task_status.started()
            if is_read:
                retry = FIRST_RETRY_SECONDS
                await self._wait()
            else:
                await trio.sleep(retry)
                retry = min(2 * retry, MOST_RETRY_SECONDS)

    async def _wait(self) -> None:
        """Until the set is to be read again."""
        self._wants_early = False
        deadline = trio.current_time() + REFRESH_SECONDS
        while trio.current_time() < deadline:
            await trio.sleep(EARLY_SECONDS)
            if self._wants_early:
                return

    async def _read(self) -> bool:
        try:
            self._keys = read_key_set(await trio.to_thread.run_sync(self._load))
        except (OSError, ValueError) as error:
            self.failures += 1
            what = "tokens are refused" if not self._keys else "the keys from before are used"
            logger.error("no keys from %s, so %s: %s", self._name, what, error)
            return False
        return True


def load_from(address: str) -> Callable[[], bytes]:
    """What reads a file or a URL: raises OSError, or ValueError."""

    def of_file() -> bytes:
        with Path(address).open("rb") as file:
            return _bounded(file.read(MAX_BYTES + 1))

    def of_url() -> bytes:
        request = urllib.request.Request(address, headers={"Accept": "application/json"})  # noqa: S310
        with urllib.request.build_opener(_NoOtherPlace).open(request, timeout=TIMEOUT_SECONDS) as answer:
            return _bounded(answer.read(MAX_BYTES + 1))

    return of_url if "://" in address else of_file


class _NoOtherPlace(urllib.request.HTTPRedirectHandler):
    """A redirect might go to a place without TLS."""

    def redirect_request(self, *_what: object, **_more: object) -> None:
        return None


def _bounded(content: bytes) -> bytes:
    if len(content) > MAX_BYTES:
        raise BadKeySet(f"it has more than {MAX_BYTES} bytes")
    return content
