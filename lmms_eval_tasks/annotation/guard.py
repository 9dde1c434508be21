"""What a page on a local port must refuse before anything else looks at the request.

Any web site can make a browser send requests to this machine. A name that points here is refused
(DNS rebinding), a write must come from the page itself (cross-site requests), and the answer lets
no other site read, frame or extend it. Plain ASGI: it wraps whatever application there is.
"""

from __future__ import annotations

import ipaddress
import json
import socket
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_BODY = 20_000
"""Bytes of a request's body; a reason of 2,000 characters fits however it is escaped."""

CONTENT_SECURITY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    )
)
HEADERS = {
    "content-security-policy": CONTENT_SECURITY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host that is listened on.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_of(header: str) -> str:
    """The host in a Host header, without port and brackets, in lower case.

    >>> host_of("LocalHost:8000"), host_of("[::1]:8000"), host_of("127.0.0.1")
    ('localhost', '::1', '127.0.0.1')
    """
    header = header.strip().lower()
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]


class Guard:
    """Refuses requests that do not come from the page, and adds the protecting headers."""

    def __init__(self, app: App, listening: str, names: Iterable[str] = ()) -> None:
        """Wrap an application.

        Args:
            app: The application.
            listening: The host that is listened on. Where it is loopback, only names of this
                machine for itself are served; the port may be another (a tunnel's). Otherwise
                addresses too, which no rebound name can be, and this machine's own name.
            names: Further host names to serve.
        """
        self._app = app
        self._local = is_loopback(listening)
        self._names = {"localhost", listening.lower(), *(name.lower() for name in names)}
        if not self._local:
            self._names.add(socket.gethostname().lower())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            # The server's start and stop; there are no web sockets.
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in scope["headers"]
        }
        refusal = self._refusal(scope["method"], headers)
        if refusal is not None:
            await _refuse(_protected(send), *refusal)
            return
        body, too_long = await _body(receive)
        if too_long:
            await _refuse(_protected(send), 413, f"a request has at most {MAX_BODY} bytes")
            return
        await self._app(scope, _again(body, receive), _protected(send))

    def _refusal(self, method: str, headers: dict[str, str]) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if not self._served(host_of(host)):
            return 421, "open the link that the terminal shows; this host name is not served"
        if method in ("GET", "HEAD"):
            return None
        if method != "POST":
            return 405, "only GET, HEAD and POST"
        origin = headers.get("origin")
        if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
            return 403, "votes come from the page itself only"
        if headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return 403, "votes come from the page itself only"
        # A form or a script of another site cannot send this type without asking first.
        if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return 415, "the body must be application/json"
        return None

    def _served(self, host: str) -> bool:
        if host in self._names:
            return True
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        return address.is_loopback or not self._local


async def _body(receive: Receive) -> tuple[bytes, bool]:
    """The whole body, or that it is too long."""
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > MAX_BODY:
            return b"", True
        if not message.get("more_body", False):
            return body, False


def _again(body: bytes, receive: Receive) -> Receive:
    """A channel that hands the body over once more, then goes on as before."""
    first = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> MutableMapping[str, Any]:
        return first.pop() if first else await receive()

    return replay


def _protected(send: Send) -> Send:
    async def with_headers(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            own = list(message.get("headers", []))
            known = {name.lower() for name, _ in own}
            own += [(name.encode(), value.encode()) for name, value in HEADERS.items()]
            if b"cache-control" not in known:
                own.append((b"cache-control", b"no-store"))
            message = {**message, "headers": own}
        await send(message)

    return with_headers


async def _refuse(send: Send, status: int, reason: str) -> None:
    body = json.dumps({"error": reason}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
