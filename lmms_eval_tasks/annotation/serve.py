"""Listening on a port of this machine until somebody stops it."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable

import uvicorn

from lmms_eval_tasks.annotation.guard import App


def listen(host: str, port: int, wished: int = 0) -> socket.socket:
    """A socket that listens on a port that is free now.

    Args:
        host: Name or address.
        port: The port, or 0 for any.
        wished: With port 0, the port to take if it is free.

    Raises:
        OSError: The host is none of this machine's, or the port is taken.
    """
    family, *_, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    if not port and wished:
        try:
            return socket.create_server((address[0], wished), family=family)
        except OSError:
            pass
    try:
        return socket.create_server((address[0], port), family=family)
    except OSError as error:
        reason = f"cannot listen on {host} port {port}: {error.strerror or error}"
        raise OSError(reason) from error


def link(host: str, listening: socket.socket, key: str) -> str:
    """The page's address."""
    port = listening.getsockname()[1]
    if host in ("0.0.0.0", "::"):
        host = socket.gethostname()
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/{key}/"


def serve(app: App, listening: socket.socket, started: Callable[[], None]) -> None:
    """Serve until interrupted or terminated; `started` is called once requests are answered."""

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            started()

    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        ws="none",
        proxy_headers=False,
        timeout_graceful_shutdown=2,
    )
    # An interrupt is the usual way to stop it.
    with contextlib.suppress(KeyboardInterrupt):
        Server(config).run(sockets=[listening])
