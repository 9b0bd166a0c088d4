"""HTTP: who may ask, what is asked, how much at once. Only GET and HEAD, and no path from a request is opened.

A page of another site must not read logs through the browser of an operator. So the name in `Host` must be one that
leads here (a name that somebody points at this machine does not), and what a browser says comes from another site is
refused. The port in `Host` is not looked at: through a tunnel it is another one.
"""

from __future__ import annotations

import contextlib
import errno
import importlib.resources
import ipaddress
import json
import select
import socket
import socketserver
import threading
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

from flintlog.cli.output import plain
from flintlog.cli.tail import PAUSE_SECONDS
from flintlog.cli.verb import LogDirectory
from flintlog.errors import FlintlogError, RefusedError, UsageError
from flintlog.web.faults import BusyError, Faults, UnknownError, error_json, status_of
from flintlog.web.parameters import Parameters
from flintlog.web.verification import Verification
from flintlog.web.views import FOLLOW_PARAMETERS, Answer, Shown, Views, directories, follow

_CONNECTIONS_MAX = 64
_STREAMS_MAX = 16
_ANSWERS_MAX = 4  # at the same time; others wait for their turn
_IDLE_SECONDS = 60
_WILDCARDS = ("", "0.0.0.0", "::")

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_KINDS = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_JSON = "application/json"
_LINES = "application/x-ndjson"


class _RefusedRequestError(FlintlogError):
    """A request that is none of ours to answer."""

    code = "refused-request"


class Explorer(ThreadingHTTPServer):
    """The server of some log directories. `serve_forever` until `close`, or until it is interrupted."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 32

    def __init__(self, logs: Sequence[LogDirectory], host: str, port: int, *, debug: bool = False) -> None:
        self.faults = Faults(debug)
        self.shown = _named(logs, self.faults)
        self.views = Views()
        self.files = _static_files()
        self.stopping = threading.Event()
        self.answers = threading.BoundedSemaphore(_ANSWERS_MAX)
        self.streams = threading.BoundedSemaphore(_STREAMS_MAX)
        self._connections = threading.BoundedSemaphore(_CONNECTIONS_MAX)
        self._host = host
        self.address_family, address = _resolve(host, port)
        try:
            super().__init__(address, _Handler)
        except OSError as error:
            raise _unbound(error, host, port) from error
        self._names = _own_names(host, str(self.server_address[0]))

    @property
    def url(self) -> str:
        host, port = str(self.server_address[0]), self.server_address[1]
        if host in _WILDCARDS:
            host = socket.gethostname()
        return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"

    @property
    def only_here(self) -> bool:
        """Can only this machine ask?"""
        return ipaddress.ip_address(str(self.server_address[0])).is_loopback

    def leads_here(self, host: str) -> bool:
        """Is this the name of the server, as a browser gives it in `Host`?"""
        name = host.rpartition("]")[0].lstrip("[") if host.startswith("[") else host.partition(":")[0]
        name = name.rstrip(".").lower()
        if name in self._names:
            return True
        return self._host in _WILDCARDS and _is_address(name)  # an address cannot be pointed elsewhere

    def close(self) -> None:
        """End all streams and verifications, and give the port back."""
        self.stopping.set()
        for one in self.shown.values():
            one.verification.stop()
        self.server_close()

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)  # the one of HTTPServer asks the network for a name
        self.server_name, self.server_port = self._host, self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._connections.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._connections.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that broke; what is wrong with us was told before."""


class _Handler(BaseHTTPRequestHandler):
    server: Explorer
    protocol_version = "HTTP/1.1"
    timeout = _IDLE_SECONDS
    disable_nagle_algorithm = True  # headers and body are two writes
    server_version = "flintlog"
    sys_version = ""

    def do_GET(self) -> None:
        try:
            with contextlib.suppress(ConnectionError, TimeoutError):
                self._answer()
        except FlintlogError as error:
            self._fail(_http_status(error), error_json(error))
        except Exception as error:
            self._fail(HTTPStatus.INTERNAL_SERVER_ERROR, self.server.faults.tell(error))

    def do_HEAD(self) -> None:
        self.do_GET()

    def _answer(self) -> None:
        self._check_sender()
        try:
            address = urlsplit(self.path)
            parts = [unquote(part, errors="surrogateescape") for part in address.path.split("/")[1:]]
        except ValueError:
            raise UsageError("this is no address") from None
        match parts:
            case [name] if name in self.server.files:
                self._send(HTTPStatus.OK, *self.server.files[name])
            case ["api", "directories"]:
                self._send_json(directories(self.server.shown))
            case ["api", name, "follow"]:
                self._follow(self._directory(name), Parameters(address.query, FOLLOW_PARAMETERS))
            case ["api", name, word] if word in self.server.views.all:
                view = self.server.views.all[word]
                what, given = self._directory(name), Parameters(address.query, view.parameters)
                with self.server.answers:
                    answer = view.answer(what, given)
                self._send_json(answer)
            case _:
                raise UnknownError("there is nothing at this address", advice="The page is at /")

    def _check_sender(self) -> None:
        if "Content-Length" in self.headers or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # nobody reads a body, so it must not be taken for the next request
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or not self.server.leads_here(hosts[0]):
            raise _RefusedRequestError(
                "the name in Host does not lead here", advice=f"Use {self.server.url} or localhost"
            )
        elsewhere = self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin")
        if elsewhere and self.path.startswith("/api/"):
            raise _RefusedRequestError("a page of another site asked for this")

    def _directory(self, name: str) -> Shown:
        found = self.server.shown.get(name)
        if found is None:
            raise UnknownError(
                "no directory of this name is shown here", advice="Those that are were named at the start"
            )
        return found

    def _follow(self, what: Shown, given: Parameters) -> None:
        if not self.server.streams.acquire(blocking=False):
            raise BusyError(
                f"{_STREAMS_MAX} pages follow logs already", advice="Close one, or use flintlog tail -f"
            )
        try:
            steps = follow(what, given, self._somebody_waits)
            first = next(steps)
            self._begin(HTTPStatus.OK, _LINES, None)
            if self.command == "HEAD":
                return
            self._line(first)
            try:
                for step in steps:
                    self._line(step)
            except FlintlogError as error:
                self._line({"error": error_json(error)})
            except (ConnectionError, TimeoutError):
                raise
            except Exception as error:
                self._line({"error": self.server.faults.tell(error)})
        finally:
            self.server.streams.release()

    def _line(self, value: Answer) -> None:
        self.wfile.write(json.dumps(plain(value)).encode() + b"\n")

    def _somebody_waits(self) -> bool:
        """Wait a moment for something new; False at once when the client has gone or the server ends."""
        self.close_connection = True
        watch = select.poll()
        watch.register(self.connection, select.POLLIN | select.POLLHUP | select.POLLERR)
        return not watch.poll(PAUSE_SECONDS * 1000) and not self.server.stopping.is_set()

    def _send_json(self, value: Answer) -> None:
        self._send(HTTPStatus.OK, _JSON, json.dumps(plain(value)).encode())

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self._begin(status, kind, len(body))
        if self.command != "HEAD":
            self.wfile.write(body)

    def _begin(self, status: int, kind: str, length: int | None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if length is not None:
            self.send_header("Content-Length", str(length))
        if length is None or self.close_connection:
            self.close_connection = True
            self.send_header("Connection", "close")
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.end_headers()

    def _fail(self, status: int, told: Answer) -> None:
        with contextlib.suppress(ConnectionError, TimeoutError):
            self._send(status, _JSON, json.dumps({"error": told}).encode())

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the parser of requests refuses: another method, a line that is too long."""
        self.close_connection = True
        self.command = getattr(self, "command", None) or "GET"
        if code == HTTPStatus.NOT_IMPLEMENTED:
            code, message = HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD: nothing is changed from here"
        error = _RefusedRequestError(message or HTTPStatus(code).phrase)
        self._fail(code, error_json(error))

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are nobody's business."""


def _http_status(error: FlintlogError) -> int:
    return HTTPStatus.FORBIDDEN if isinstance(error, _RefusedRequestError) else status_of(error)


def _named(logs: Sequence[LogDirectory], faults: Faults) -> dict[str, Shown]:
    """The directories by their last names; a number stands behind those that others have too."""
    found: dict[str, Shown] = {}
    for log in logs:
        base = log.path.rstrip("/").rpartition("/")[2] or "root"
        name, number = base, 1
        while name in found:
            number += 1
            name = f"{base}-{number}"
        found[name] = Shown(name, log, Verification(log, faults))
    return found


def _static_files() -> dict[str, tuple[str, bytes]]:
    """The files of the page by their addresses. They are few and small, and nothing else can be asked for."""
    found = {}
    for file in importlib.resources.files("flintlog.web").joinpath("static").iterdir():
        kind = _KINDS.get(file.name.rpartition(".")[2])
        if kind is not None:
            found["" if file.name == "index.html" else file.name] = (kind, file.read_bytes())
    return found


def _resolve(host: str, port: int) -> tuple[socket.AddressFamily, Any]:
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise UsageError(
            f"{host!r} is not the name of a host: {error}",
            advice="127.0.0.1 is this machine alone, 0.0.0.0 everybody",
        ) from None
    family, _, _, _, address = found[0]
    return family, address


def _unbound(error: OSError, host: str, port: int) -> FlintlogError:
    if error.errno == errno.EADDRINUSE:
        return RefusedError(
            f"port {port} of {host} is in use",
            advice="Choose another --port; without it any free one is taken",
        )
    if error.errno == errno.EADDRNOTAVAIL:
        return UsageError(f"{host} is no address of this machine", advice="127.0.0.1 always is one")
    return RefusedError(
        f"port {port} of {host} cannot be opened: {error.strerror}", advice="Choose another --port"
    )


def _own_names(host: str, address: str) -> set[str]:
    names = {"localhost", host.lower(), address}
    if host in _WILDCARDS:
        names.add(socket.gethostname().lower())
    elif _is_address(address) and ipaddress.ip_address(address).is_loopback:
        names |= {"127.0.0.1", "::1"}
    return names - set(_WILDCARDS)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
