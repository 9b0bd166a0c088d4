"""A real explorer on a port of its own, and a client that asks it over HTTP."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from flintlog.core.log import open_log
from flintlog.web.connections import Bounds
from flintlog.web.server import Explorer

TIMEOUT = 60


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> Any:
        return self.json["error"]


class Client:
    """Asks one server; every request has a connection of its own."""

    def __init__(self, server: Explorer) -> None:
        self.server = server
        self.address = ("127.0.0.1", server.server_address[1])

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(*self.address, timeout=TIMEOUT)

    def get(self, path: str, headers: dict[str, str] | None = None, method: str = "GET") -> Reply:
        with closing(self.connect()) as connection:
            connection.request(method, path, headers=headers or {})
            answer = connection.getresponse()
            return Reply(answer.status, dict(answer.getheaders()), answer.read())

    def ask(self, name: str, view: str, **given: Any) -> Reply:
        words = urlencode({word.rstrip("_"): value for word, value in given.items()}, doseq=True)
        return self.get(f"/api/{quote(name, safe='')}/{view}?{words}")

    def act(self, name: str, view: str, deed: str) -> Reply:
        """Start or end work, as the page does it."""
        return self.get(f"/api/{quote(name, safe='')}/{view}?{deed}=1", {"X-Flintlog": "1"}, "POST")

    def pages(self, name: str, view: str, cursor: str, **given: Any) -> Iterator[Any]:
        """All pages of a view, each from the end of the one before."""
        at = None
        while True:
            reply = self.ask(name, view, **given, **({} if at is None else {cursor: at}))
            assert reply.status == 200, reply.body
            yield reply.json
            at = reply.json["next"]
            if at is None:
                return

    def rows(self, name: str, view: str, cursor: str, **given: Any) -> list[Any]:
        return [row for page in self.pages(name, view, cursor, **given) for row in page["rows"]]


@contextmanager
def serving(*paths: Any, debug: bool = False, bounds: Bounds | None = None) -> Iterator[Client]:
    logs = [open_log(path) for path in paths]
    server = Explorer(logs, "127.0.0.1", 0, debug=debug, bounds=bounds)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield Client(server)
    finally:
        server.shutdown()
        server.close()
        thread.join()
