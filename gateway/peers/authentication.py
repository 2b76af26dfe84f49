"""Says to another gateway who this one is, on a connection that was just opened (SASL, KIP-152).

Both sides prove that they know the cluster's secret (`gateway.security.gateways`).
"""

from __future__ import annotations

import secrets
from typing import Any, Final

import trio

from gateway.peers.failures import PeerFailed
from gateway.security.gateways import name_of, salted_password
from gateway.security.scram import NONCE_BYTES, Hash
from gateway.security.scram_client import NotTheServer, ScramClient
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.asking import correlation_id_of, decode_answer, frame_request
from wireproto.kafka.errors import ErrorCode, MalformedAnswer
from wireproto.kafka.schemas import REQUEST_CLASSES

MECHANISM: Final = Hash.SHA_256

MAX_ANSWER_BYTES: Final = 64 * 1024
"""Bytes of one answer, checked before memory is taken for it. Tokens have a few hundred."""

_HANDSHAKE_VERSION: Final = 1
_AUTHENTICATE_VERSION: Final = 2

_Handshake: Any = REQUEST_CLASSES[ApiKey.SASL_HANDSHAKE]
_Authenticate: Any = REQUEST_CLASSES[ApiKey.SASL_AUTHENTICATE]


async def authenticate(stream: trio.abc.Stream, who: str, gateway: int, secret: bytes) -> None:
    """`who` is asked, for messages; `gateway` is this one's id. Raises PeerFailed."""
    asking = _Asking(stream, who, f"gateway-{gateway}")
    salted = salted_password(MECHANISM, gateway, secret)
    client = ScramClient(MECHANISM, name_of(gateway), salted, secrets.token_bytes(NONCE_BYTES))
    shaken = await asking.ask(_Handshake(mechanism=MECHANISM.value), _HANDSHAKE_VERSION)
    if shaken.error_code != ErrorCode.NONE:
        raise PeerFailed(f"{who} does not take {MECHANISM.value}: it offers {', '.join(shaken.mechanisms)}")
    try:
        challenge = await asking.token(client.first())
        client.check(await asking.token(client.final(challenge)))
    except NotTheServer as error:
        raise PeerFailed(f"what answers for {who} is no gateway of this cluster: {error}") from None


class _Asking:
    """One request after the other."""

    def __init__(self, stream: trio.abc.Stream, who: str, client_id: str) -> None:
        self._stream = stream
        self._who = who
        self._client_id = client_id
        self._correlation_id = 0
        self._received = bytearray()

    async def token(self, token: bytes) -> bytes:
        """What is answered to it. Raises PeerFailed."""
        answer = await self.ask(_Authenticate(auth_bytes=token), _AUTHENTICATE_VERSION)
        if answer.error_code != ErrorCode.NONE:
            raise PeerFailed(f"{self._who} does not believe that this is a gateway: {answer.error_message}")
        return bytes(answer.auth_bytes)

    async def ask(self, request: Any, version: int) -> Any:
        """Raises PeerFailed."""
        self._correlation_id += 1
        body = bytes(request.encode(version=version))
        await self._stream.send_all(
            frame_request(request.API_KEY, version, self._correlation_id, self._client_id, body)
        )
        size = int.from_bytes(await self._take(4), "big")
        if size > MAX_ANSWER_BYTES:
            raise PeerFailed(f"{self._who} answers with {size} bytes")
        frame = memoryview(await self._take(size))
        try:
            if correlation_id_of(frame) != self._correlation_id:
                raise PeerFailed(f"{self._who} answers what it was not asked")
            return decode_answer(request.API_KEY, version, frame)
        except MalformedAnswer as error:
            raise PeerFailed(f"{self._who} answers with what is no answer: {error}") from None

    async def _take(self, size: int) -> bytes:
        while len(self._received) < size:
            more = await self._stream.receive_some(MAX_ANSWER_BYTES)
            if not more:
                raise PeerFailed(f"{self._who} has closed the connection before it knew who this is")
            self._received += more
        taken = bytes(self._received[:size])
        del self._received[:size]
        return taken
