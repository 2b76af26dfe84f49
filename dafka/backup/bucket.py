"""Backups in an S3-compatible bucket: `s3://BUCKET/PATH`. Needs the extra [s3] (obstore).

Access keys, region and endpoint are those of the environment, as other tools read it: AWS_ACCESS_KEY_ID,
AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL (AWS_ALLOW_HTTP=true for one without TLS).

Rule: objects and manifests are put under the condition that there is none (`If-None-Match: *`), which takes
one request for each: objects have 32 MiB and little more. Other files may go in several parts.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from typing import Any, Final
from uuid import uuid4

from dafka.backup.target import NotThere, TargetFailed

LOCK: Final = "lock.json"

LOCK_SECONDS: Final = 15 * 60.0
"""How long the lock of a command that was killed is taken for that of one that runs."""

RENEWALS: Final = 15
"""How often in this time whoever runs says so, at the most."""

RETRY: Final[Any] = {"max_retries": 10}
"""How often a request that failed is tried again, with a pause that grows."""

NO_OBSTORE: Final = (
    "backups in a bucket need the extra [s3]: pip install '.[s3]' in a checkout, or pip install obstore"
)


class BucketTarget:
    """A folder of a bucket. `store` is an obstore store of it; the methods are those of
    `dafka.backup.target.Target`.
    """

    def __init__(self, url: str, store: Any = None) -> None:
        try:
            import obstore
            from obstore.exceptions import AlreadyExistsError, BaseError
            from obstore.store import from_url
        except ImportError:
            raise TargetFailed(NO_OBSTORE) from None
        self._url = url
        self._obstore: Any = obstore
        self._errors = (BaseError, OSError)
        self._exists = AlreadyExistsError
        self._lock: dict[str, Any] = {}
        """What is in the lock while it is held here."""
        self._locked = 0.0
        with self._explained(""):
            self._store = store if store is not None else from_url(url.rstrip("/"), retry_config=RETRY)

    def __str__(self) -> str:
        return self._url

    def put_new(self, name: str, content: bytes) -> bool:
        self._renew()
        with self._explained(name):
            try:
                self._obstore.put(self._store, name, content, mode="create", use_multipart=False)
            except self._exists:
                return False
        return True

    def put(self, name: str, content: bytes) -> None:
        with self._explained(name):
            self._obstore.put(self._store, name, content)

    def get(self, name: str) -> bytes:
        with self._explained(name):
            try:
                return bytes(self._obstore.get(self._store, name).bytes())
            except FileNotFoundError:
                raise NotThere(f"{self._url}/{name}") from None

    def sizes(self, prefix: str) -> dict[str, int]:
        with self._explained(prefix):
            return {
                str(one["path"]): int(one["size"])
                for page in self._obstore.list(self._store, prefix.rstrip("/"))
                for one in page
            }

    def delete(self, name: str) -> None:
        self._renew()
        with self._explained(name), contextlib.suppress(FileNotFoundError):
            self._obstore.delete(self._store, name)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """The lock is a file that says who has it, and when it was taken: one that is old counts no more."""
        mine = {"who": f"{socket.gethostname()} {uuid4().hex}", "taken": time.time()}
        content = json.dumps(mine).encode()
        if not self.put_new(LOCK, content):
            self._take_over()
            if not self.put_new(LOCK, content):
                raise TargetFailed(f"{self._url}: another process has just begun there")
        self._lock, self._locked = mine, time.time()
        try:
            yield
        finally:
            self._lock = {}
            if self._holder() == mine["who"]:
                self.delete(LOCK)

    def _renew(self) -> None:
        """It still runs, which is noted now and then. Raises TargetFailed: somebody took it for killed."""
        if not self._lock or time.time() - self._locked <= LOCK_SECONDS / RENEWALS:
            return
        if self._holder() != self._lock["who"]:
            raise TargetFailed(
                f"{self._url}: another process has taken over, or {LOCK} was deleted. Repeat it when no "
                "other one runs"
            )
        self._locked = time.time()
        self.put(LOCK, json.dumps(self._lock | {"taken": self._locked}).encode())

    def _holder(self) -> Any:
        """Who has the lock, None if nobody has."""
        try:
            return json.loads(self.get(LOCK)).get("who")
        except (NotThere, AttributeError, ValueError):
            return None

    def _take_over(self) -> None:
        try:
            held = json.loads(self.get(LOCK))
            who, age = str(held["who"]), time.time() - float(held["taken"])
        except NotThere:
            return
        except (KeyError, TypeError, ValueError):
            who, age = "nobody knows who", LOCK_SECONDS
        if age < LOCK_SECONDS:
            raise TargetFailed(
                f"{self._url}: another process ({who}) takes or prunes backups there, or was killed within "
                f"the last {LOCK_SECONDS / 60:g} minutes. Wait, or delete {LOCK} if none runs"
            )
        self.delete(LOCK)

    @contextlib.contextmanager
    def _explained(self, name: str) -> Iterator[None]:
        try:
            yield
        except self._errors as error:
            why = " ".join(str(error).split())[:500]
            raise TargetFailed(
                f"{self._url}/{name}: {why}. Check the bucket, AWS_ENDPOINT_URL and the access keys"
            ) from None
