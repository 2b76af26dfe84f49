"""What operators ask of a running gateway: a JSON object a line, through a Unix socket in its data directory.

Who may write the directory may ask; nothing listens on a network for it. A request is
`{"do": "stores.list", ...}`, the answer `{"done": ...}` or `{"refused": "why, and what to do"}`. An answer
with `"content": N` beside that is followed by N bytes that are no JSON.
"""

import errno
import json
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import trio

from gateway.common.failures import ProcessEnds
from mesh.unix_sockets import listening, short_name

SOCKET_NAME = "admin.sock"

MAX_LINE_BYTES = 64 * 1024
"""Longest request."""

MAX_CONNECTIONS = 16
"""Connections at once; operators are people. Further ones wait."""

REQUEST_SECONDS = 10.0
"""Longest time for a request to arrive, and for its answer to be read."""

PART_CHARACTERS = 256 * 1024
"""Characters of an answer that are escaped at once: some milliseconds."""

logger = logging.getLogger(__name__)

Handler = Callable[[dict[str, Any]], Awaitable[Any]]
"""The request -> what was done, as JSON has it. Raises `OperatorRefused`."""


class Content(NamedTuple):
    """What a handler gives whose answer has bytes."""

    done: Any
    pieces: Sequence[bytes]


class OperatorRefused(Exception):
    """What an operator asked for is not done; the text says why and what to do."""

    exit_code = 2


class NoGateway(Exception):
    """Nobody listens there; the text says so and what to do."""

    exit_code = 2


async def serve_admin(
    directory: Path,
    handlers: Mapping[str, Handler],
    name: str = SOCKET_NAME,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Answer until cancelled. The directory is locked by this process: a socket that lies there is stale."""
    limit = trio.CapacityLimiter(MAX_CONNECTIONS)

    async def answer(stream: trio.SocketStream) -> None:
        async with limit, stream:
            await _answer(stream, handlers)

    with listening(directory / name, MAX_CONNECTIONS) as made:
        task_status.started()
        await trio.serve_listeners(answer, [trio.SocketListener(trio.socket.from_stdlib_socket(made))])


async def _answer(stream: trio.SocketStream, handlers: Mapping[str, Handler]) -> None:
    answer: dict[str, Any]
    line = b""
    pieces: Sequence[bytes] = ()
    try:
        with trio.move_on_after(REQUEST_SECONDS):
            line = await _line(stream)
        if not line:
            return
        done = await _do(line, handlers)
        answer = {"done": done}
        if isinstance(done, Content):
            pieces = done.pieces
            answer = {"done": done.done, "content": sum(map(len, pieces))}
    except OperatorRefused as refused:
        answer = {"refused": str(refused)}
    except ProcessEnds:
        raise
    except Exception:
        logger.exception("an operator's request failed unexpectedly")
        answer = {"refused": "a bug: the gateway's log has it"}
    with trio.move_on_after(REQUEST_SECONDS):
        try:
            await stream.send_all(await trio.to_thread.run_sync(_packed, answer))
            for piece in pieces:
                await stream.send_all(piece)
            await stream.send_eof()
            async for _ in stream:
                pass  # to close with something unread would take the answer back
        except trio.BrokenResourceError:
            pass  # gone


def _packed(answer: dict[str, Any]) -> bytes:
    """The line of an answer. A long text, as a whole catalog is, is escaped in parts: in one, even a thread
    of its own would hold up all others for a third of a second.
    """
    done = answer.get("done")
    if not isinstance(done, str):
        return json.dumps(answer).encode() + b"\n"
    parts = (done[start : start + PART_CHARACTERS] for start in range(0, len(done), PART_CHARACTERS))
    escaped = "".join([json.dumps(part)[1:-1] for part in parts])
    return f'{{"done": "{escaped}"}}\n'.encode()


async def _line(stream: trio.SocketStream) -> bytes:
    data = b""
    while b"\n" not in data:
        piece = await stream.receive_some(4096)
        if not piece:
            return b""
        data += piece
        if len(data) > MAX_LINE_BYTES:
            raise OperatorRefused(f"a request has at most {MAX_LINE_BYTES} bytes")
    return data.partition(b"\n")[0]


async def _do(line: bytes, handlers: Mapping[str, Handler]) -> Any:
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        raise OperatorRefused("the request is not JSON") from None
    do = request.get("do") if isinstance(request, dict) else None
    handler = handlers.get(do) if isinstance(do, str) else None
    if handler is None:
        raise OperatorRefused("this gateway knows no such request: it is of another version than the command")
    return await handler(request)


async def refuse_mesh(_request: dict[str, Any]) -> Any:
    """What a standalone answers to requests about stores and the mesh."""
    raise OperatorRefused(
        "this is 'dafka standalone': its one store is in the same process, and there is no mesh. What it "
        "lacks is in its log, on --metrics (/health) and on --http"
    )


NO_MESH: Final[Mapping[str, Handler]] = dict.fromkeys(
    (
        "mesh.status",
        "stores.list",
        "stores.admit",
        "stores.remove",
        "stores.replace",
        "loss.plan",
        "loss.accept",
        "loss.segments",
    ),
    refuse_mesh,
)
"""The handlers of a standalone for what a gateway with a mesh does."""


def ask(directory: Path, do: str, seconds: float = 30.0, **details: Any) -> Any:
    """What the gateway that runs on this data directory, a standalone's too, did. Blocks. Raises
    OperatorRefused and NoGateway.
    """
    return ask_content(directory, do, seconds, **details)[0]


def ask_content(directory: Path, do: str, seconds: float = 30.0, **details: Any) -> tuple[Any, bytes]:
    """As `ask`, with the bytes that came besides."""
    path, inside = directory / SOCKET_NAME, directory / "gateway" / SOCKET_NAME
    try:
        return _ask(inside if inside.exists() and not path.exists() else path, do, seconds, **details)
    except NoGateway as nobody:
        raise NoGateway(f"{nobody}. Start it, or name its data directory with --data") from None


def ask_at(path: Path, do: str, seconds: float = 30.0, **details: Any) -> Any:
    """What the process that serves a socket did. Blocks. Raises OperatorRefused and NoGateway."""
    return _ask(path, do, seconds, **details)[0]


def _ask(path: Path, do: str, seconds: float, **details: Any) -> tuple[Any, bytes]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(seconds)
        try:
            with short_name(path) as name:
                connection.connect(name)
            connection.sendall(json.dumps({"do": do, **details}).encode() + b"\n")
            answer, content = _receive(connection)
        except OSError as error:
            raise NoGateway(f"no gateway answers at {path}: {error.strerror or error}") from None
    if "refused" in answer:
        raise OperatorRefused(answer["refused"])
    return answer["done"], content


def _receive(connection: socket.socket) -> tuple[dict[str, Any], bytes]:
    with connection.makefile("rb") as stream:
        line = stream.readline()
        if not line.endswith(b"\n"):
            raise ConnectionResetError(errno.ECONNRESET, "it closed the connection")
        answer: dict[str, Any] = json.loads(line)
        size = answer.get("content", 0)
        content = stream.read(size)
        if len(content) < size:
            raise ConnectionResetError(errno.ECONNRESET, "it closed the connection")
    return answer, content
