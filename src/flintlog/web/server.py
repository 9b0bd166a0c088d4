"""HTTP: who may ask, what is asked, how much at once. No path from a request is opened.

A page of another site must not read logs through the browser of an operator. So the name in `Host` must be one of this
server (not a name that others point at this machine), and the server refuses a request that the browser says comes from
another site. It ignores the port in `Host`, which is another one behind a tunnel.

GET and HEAD only read. To start or end work takes POST and the header `X-Flintlog`. No link and no form of another site
can send that header; a browser asks the server before it sends it for a script, and the server says no.
"""

from __future__ import annotations

import errno
import importlib.resources
import io
import ipaddress
import json
import re
import select
import socket
import socketserver
import threading
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast
from urllib.parse import SplitResult, unquote, urlsplit

from flintlog.cli.output import plain
from flintlog.cli.tail import PAUSE_SECONDS
from flintlog.core.log import Log
from flintlog.errors import FlintlogError, RefusedError, UsageError
from flintlog.web.connections import Bounds, Connections, Phase, TimedFile
from flintlog.web.faults import BusyError, Faults, UnknownError, error_json, status_of
from flintlog.web.parameters import Parameters
from flintlog.web.verification import Verification
from flintlog.web.views import FOLLOW_PARAMETERS, Answer, Shown, View, Views, directories, follow

_STREAMS_MAX = 16
_ANSWERS_MAX = 4  # at the same time; others wait for their turn
_WILDCARDS = ("", "0.0.0.0", "::")
_HOST = re.compile(r"(?:\[(?P<six>[^\[\]]+)\]|(?P<name>[^\[\]:@/\s]+))(?::[0-9]{0,5})?", re.ASCII)
_OWN_HEADER = "X-Flintlog"

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
    """This server does not answer the request."""

    code = "refused-request"


class _WrongMethodError(_RefusedRequestError):
    """The address does not have this method, but those in `allowed`."""

    def __init__(self, what: str, allowed: str) -> None:
        super().__init__(what, advice=f"Use {allowed}")
        self.allowed = allowed


class Explorer(ThreadingHTTPServer):
    """The server of some log directories. `serve_forever` until `close`, or until it is interrupted."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 32

    def __init__(
        self,
        logs: Sequence[Log],
        host: str,
        port: int,
        *,
        debug: bool = False,
        bounds: Bounds | None = None,
    ) -> None:
        self.bounds = bounds or Bounds()
        self.faults = Faults(debug)
        self.shown = _named(logs, self.faults)
        self.views = Views()
        self.files = _static_files()
        self.stopping = threading.Event()
        self.answers = threading.BoundedSemaphore(_ANSWERS_MAX)
        self.streams = threading.BoundedSemaphore(_STREAMS_MAX)
        self.connections = Connections(self.bounds.connections)
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
        """Is this `Host` of a request, a name or an address with a port, one of this server?"""
        found = _HOST.fullmatch(host)
        if found is None:
            return False
        name = found["name"].removesuffix(".").lower() if found["name"] else _address(found["six"], version=6)
        if name in self._names:
            return True
        return self._host in _WILDCARDS and _address(name) != ""  # no name service can redirect an address

    def close(self) -> None:
        """End all streams and verifications, and give the port back."""
        self.stopping.set()
        for one in self.shown.values():
            one.verification.stop()
        self.server_close()

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)  # that of HTTPServer asks the network for a name
        self.server_name, self.server_port = self._host, self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        if self.connections.enter(request):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        self.connections.leave(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a connection that broke; bugs of ours are reported elsewhere."""


class _Handler(BaseHTTPRequestHandler):
    server: Explorer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are two writes
    server_version = "flintlog"
    sys_version = ""

    def setup(self) -> None:
        super().setup()
        self._file = TimedFile(self.connection)
        self.rfile = io.BufferedReader(self._file)
        self.wfile = cast(io.BufferedIOBase, self._file)  # hold nothing back in a buffer

    def handle_one_request(self) -> None:
        self._reach(Phase.REQUEST, self.server.bounds.request_seconds)
        super().handle_one_request()

    def do_GET(self) -> None:
        self._reach(Phase.NOTHING)
        try:
            self._answer()
        except (ConnectionError, TimeoutError):
            self.close_connection = True
        except FlintlogError as error:
            self._fail(_http_status(error), error_json(error), getattr(error, "allowed", None))
        except Exception as error:
            self._fail(HTTPStatus.INTERNAL_SERVER_ERROR, self.server.faults.tell(error))

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        self.do_GET()

    def _reach(self, phase: Phase, seconds: float = 0) -> None:
        self.server.connections.reached(self.connection, phase)
        self._file.allow(seconds)

    def _answer(self) -> None:
        address = self._checked_address()
        parts = [unquote(part, errors="surrogateescape") for part in address.path.split("/")[1:]]
        match parts:
            case ["api", name, word] if word in self.server.views.all:
                view = self.server.views.all[word]
                given = Parameters(address.query, view.parameters)
                self._check_deed(view, given)
                what = self._directory(name)
                with self.server.answers:
                    answer = view.answer(what, given)
                self._send_json(answer)
            case _ if self.command == "POST":
                raise _WrongMethodError("nothing is done at this address", "GET, HEAD")
            case [name] if name in self.server.files:
                self._send(HTTPStatus.OK, *self.server.files[name])
            case ["api", "directories"]:
                self._send_json(directories(self.server.shown))
            case ["api", name, "follow"]:
                self._follow(self._directory(name), Parameters(address.query, FOLLOW_PARAMETERS))
            case _:
                raise UnknownError("there is nothing at this address", advice="The page is at /")

    def _checked_address(self) -> SplitResult:
        """The address of a request; raises unless it is for this server and from a page of this server."""
        if "Content-Length" in self.headers or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # an unread body must not be taken for the next request
        try:
            address = urlsplit(self.path)
        except ValueError:
            raise UsageError("this is no address") from None
        hosts = self.headers.get_all("Host", [])
        leads_here = len(hosts) == 1 and self.server.leads_here(hosts[0])
        if address.scheme or address.netloc:  # the absolute form, as for a proxy
            leads_here &= address.scheme == "http" and self.server.leads_here(address.netloc)
        if not leads_here:
            raise _RefusedRequestError(
                "the name in Host does not lead here", advice=f"Use {self.server.url} or localhost"
            )
        if address.path.startswith("/api/") and self._comes_from_elsewhere(hosts[0]):
            raise _RefusedRequestError("a page of another site asked for this")
        return address

    def _comes_from_elsewhere(self, host: str) -> bool:
        """Does the browser say that a page of another site asks?"""
        own = (f"http://{host.lower()}", f"https://{host.lower()}")
        site = self.headers.get_all("Sec-Fetch-Site", ["none"])
        origins = [origin.lower() for origin in self.headers.get_all("Origin", [])]
        return any(word not in ("none", "same-origin") for word in site) or any(o not in own for o in origins)

    def _check_deed(self, view: View, given: Parameters) -> None:
        """Raise unless a request that starts or ends work is a POST with the header, which no foreign form can set."""
        if self.command == "POST" and not view.deeds:
            raise _WrongMethodError("nothing is done at this address", "GET, HEAD")
        if self.command == "POST" and self.headers.get(_OWN_HEADER) is None:
            raise _RefusedRequestError(
                f"the header {_OWN_HEADER} is missing", advice=f"Send it with any value: {_OWN_HEADER}: 1"
            )
        if self.command != "POST" and any(given.flag(name) for name in view.deeds):
            raise _WrongMethodError("this starts or ends work, which GET does not", "POST")

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
            steps = follow(what, given, self._another_waits)
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
        self._reach(Phase.ANSWER, self.server.bounds.answer_seconds)
        self.wfile.write(json.dumps(plain(value)).encode() + b"\n")
        self._reach(Phase.NOTHING)

    def _another_waits(self) -> bool:
        """Wait a moment for something new; False at once when the client is gone or the server ends."""
        self.close_connection = True
        watch = select.poll()
        watch.register(self.connection, select.POLLIN | select.POLLHUP | select.POLLERR)
        return not watch.poll(PAUSE_SECONDS * 1000) and not self.server.stopping.is_set()

    def _send_json(self, value: Answer) -> None:
        self._send(HTTPStatus.OK, _JSON, json.dumps(plain(value)).encode())

    def _send(self, status: int, kind: str, body: bytes, allowed: str | None = None) -> None:
        self._begin(status, kind, len(body), allowed)
        if self.command != "HEAD":
            self.wfile.write(body)

    def _begin(self, status: int, kind: str, length: int | None, allowed: str | None = None) -> None:
        self._reach(Phase.ANSWER, self.server.bounds.answer_seconds)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if length is not None:
            self.send_header("Content-Length", str(length))
        if length is None or self.close_connection:
            self.close_connection = True
            self.send_header("Connection", "close")
        if allowed is not None:
            self.send_header("Allow", allowed)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.end_headers()

    def _fail(self, status: int, told: Answer, allowed: str | None = None) -> None:
        try:
            self._send(status, _JSON, json.dumps({"error": told}).encode(), allowed)
        except (ConnectionError, TimeoutError):
            self.close_connection = True

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what the parser of requests refuses: another method, a line that is too long."""
        self.close_connection = True
        self.command = getattr(self, "command", None) or "GET"
        allowed = None
        if code == HTTPStatus.NOT_IMPLEMENTED:
            code, message, allowed = (
                HTTPStatus.METHOD_NOT_ALLOWED,
                "there is no such method here",
                "GET, HEAD",
            )
        error = _RefusedRequestError(message or HTTPStatus(code).phrase)
        self._fail(code, error_json(error), allowed)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


def _http_status(error: FlintlogError) -> int:
    match error:
        case _WrongMethodError():
            return HTTPStatus.METHOD_NOT_ALLOWED
        case _RefusedRequestError():
            return HTTPStatus.FORBIDDEN
        case _:
            return status_of(error)


def _named(logs: Sequence[Log], faults: Faults) -> dict[str, Shown]:
    """The directories by their last names; equal names get a number."""
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
    """The files of the page by their addresses: few and small, and the only ones served."""
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
            advice="Give 127.0.0.1 for this machine alone, 0.0.0.0 for every machine",
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
        return UsageError(f"this machine has no address {host}", advice="Every machine has 127.0.0.1")
    return RefusedError(
        f"port {port} of {host} cannot be opened: {error.strerror}", advice="Choose another --port"
    )


def _own_names(host: str, address: str) -> set[str]:
    names = {"localhost", host.lower(), address}
    if host in _WILDCARDS:
        names.add(socket.gethostname().lower())
    elif ipaddress.ip_address(address).is_loopback:
        names |= {"127.0.0.1", "::1"}
    return names - set(_WILDCARDS)


def _address(text: str, version: int | None = None) -> str:
    """An address in its normal form; "" if the text is no address."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return ""
    return str(found) if version in (None, found.version) else ""
