"""Requests from people who mean no good: other hosts, other sites, other methods, other paths. And faults of ours."""

from __future__ import annotations

import socket
import threading
from contextlib import ExitStack, closing

import pytest
from tests.web.explorer import serving

from flintlog import QueueStore
from flintlog.core.log import open_log
from flintlog.web.connections import Bounds
from flintlog.web.server import Explorer
from flintlog.web.views import View

SCRIPT = b"<script>alert(1)</script>"


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    home = tmp_path_factory.mktemp("asked") / "log"
    with QueueStore(home) as store:
        store.queue().add(SCRIPT)
        store.create("<script>").add(b"x")
    return home


@pytest.fixture(scope="module")
def client(log):
    (log.parent / "secret").write_text("secret")
    with serving(log) as client:
        yield client


def raw(client, text):
    """The first line and the rest of the answer to bytes that no client would send."""
    with socket.create_connection(client.address, timeout=60) as connection:
        connection.sendall(text)
        answer = b""
        while part := connection.recv(65536):
            answer += part
    return answer


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:80",
        "127.0.0.1.evil.example",
        "localhost.evil",
        "",
        "10.0.0.1",
        "[::2]",
        "[::1].evil.example",
        "[::1]evil.example:80",
        "[::1]:80.evil.example",
        "[[::1]]",
        "[localhost]",
        "[127.0.0.1]",
        "::1",
        "localhost:80:evil.example",
        "localhost:evil.example",
        "localhost@evil.example",
        "evil.example@localhost",
        "localhost/evil.example",
        "localhost..",
    ],
)
def test_a_name_that_does_not_lead_here_is_refused(client, host):
    for path in ("/", "/app.js", "/api/directories", "/api/log/entries"):
        reply = client.get(path, {"Host": host})
        assert (reply.status, reply.error["code"]) == (403, "refused-request")
        assert b"script" not in reply.body


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:9", "127.0.0.1:1234", "localhost.:80", "[::1]:80", "[0::1]"]
)
def test_a_name_that_leads_here_is_served_whatever_the_port(client, host):
    assert client.get("/api/directories", {"Host": host}).status == 200


def test_no_host_and_two_hosts_are_refused(client):
    assert raw(client, b"GET / HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 403")
    empty = b"GET http://localhost/ HTTP/1.1\r\nConnection: close\r\n\r\n"
    assert raw(client, empty).startswith(b"HTTP/1.1 403")
    two = b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
    assert raw(client, two).startswith(b"HTTP/1.1 403")


@pytest.mark.parametrize(
    ("target", "status"),
    [
        (b"http://evil.example/api/directories", 403),
        (b"http://localhost@evil.example/api/directories", 403),
        (b"http://localhost:80@evil.example/api/directories", 403),
        (b"http://[::1].evil.example/api/directories", 403),
        (b"http:///api/directories", 403),
        (b"https://localhost/api/directories", 403),
        (b"ftp://localhost/api/directories", 403),
        (b"javascript:/api/directories", 403),
        (b"http://[::1/api/directories", 400),
        (b"http://localhost/api/directories", 200),
        (b"HTTP://127.0.0.1:80/api/directories", 200),
    ],
)
def test_the_absolute_form_of_an_address_must_lead_here_too(client, target, status):
    answer = raw(client, b"GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" % target)
    assert answer.startswith(b"HTTP/1.1 %d" % status)
    assert (b'"directories"' in answer) == (status == 200)


def test_the_absolute_form_hides_nothing_from_the_check_for_other_sites(client):
    head = (
        b"GET http://localhost/api/directories HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site\r\n"
    )
    assert raw(client, head + b"Connection: close\r\n\r\n").startswith(b"HTTP/1.1 403")


def test_a_server_for_everybody_takes_addresses_but_no_foreign_names(log):
    server = Explorer([open_log(log)], "0.0.0.0", 0)
    assert server.leads_here("192.168.7.7:8000") and server.leads_here(socket.gethostname())
    assert server.leads_here("[2001:db8::7]:8000")
    assert not server.leads_here("evil.example") and not server.only_here
    assert not server.leads_here("[192.168.7.7]") and not server.leads_here("192.168.7.7.evil.example")
    server.close()


@pytest.mark.parametrize("site", ["cross-site", "same-site", "anything"])
def test_a_page_of_another_site_gets_nothing(client, site):
    for method in ("GET", "HEAD", "POST"):
        reply = client.get("/api/log/verify?run=1", {"Sec-Fetch-Site": site, "X-Flintlog": "1"}, method)
        assert reply.status == 403
    assert client.ask("log", "verify").json["status"] == "idle"
    assert client.get("/", {"Sec-Fetch-Site": site}).status == 200  # a link in a message may lead here
    assert client.get("/api/log/inspect", {"Sec-Fetch-Site": "same-origin"}).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},  # a form can send this
        {"X-Flintlog": "1", "Origin": "http://evil.example"},
        {"X-Flintlog": "1", "Origin": "http://localhost:1"},
        {"X-Flintlog": "1", "Origin": "null"},
        {"X-Flintlog": "1", "Host": "evil.example"},
    ],
)
def test_work_is_not_started_for_another_site(client, headers):
    reply = client.get("/api/log/verify?run=1", headers, "POST")
    assert (reply.status, reply.error["code"]) == (403, "refused-request")
    assert client.ask("log", "verify").json["status"] == "idle"


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("deed", ["run", "stop"])
def test_get_only_reads(client, method, deed):
    reply = client.get(f"/api/log/verify?{deed}=1", {"X-Flintlog": "1"}, method)
    assert (reply.status, reply.headers["Allow"]) == (405, "POST")
    assert client.ask("log", "verify").json["status"] == "idle"


def test_our_own_page_starts_work(log):
    with serving(log) as client:
        host = f"localhost:{client.address[1]}"
        ours = {"X-Flintlog": "1", "Host": host, "Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
        assert client.get("/api/log/verify?run=1", ours, "POST").status == 200
        while (job := client.ask("log", "verify").json)["status"] == "running":
            pass
        assert job["status"] == "done" and job["inventory"]["verdict"] == "clean"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW"])
def test_nothing_but_get_and_head_is_answered(client, method):
    reply = client.get("/api/log/inspect", method=method)
    assert reply.status == 405 and reply.headers["Allow"] == "GET, HEAD"
    assert reply.headers["Content-Type"] == "application/json"


def test_head_is_get_without_the_body(client):
    for path in ("/", "/api/directories", "/api/log/inspect", "/api/nothing/inspect", "/api/log/follow"):
        head, get = client.get(path, method="HEAD"), None
        assert head.body == b""
        if not path.endswith("follow"):
            get = client.get(path)
            assert (head.status, head.headers["Content-Length"]) == (get.status, str(len(get.body)))


@pytest.mark.parametrize(
    "path", ["/", "/style.css", "/api/directories", "/api/log/state", "/api/none/x", "/none"]
)
def test_every_answer_has_the_headers_that_keep_it_here(client, path):
    headers = client.get(path).headers
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self';")
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["Referrer-Policy"] == "no-referrer"


@pytest.mark.parametrize(
    "path",
    [
        "/../secret",
        "/%2e%2e/secret",
        "/..%2fsecret",
        "/static/app.js",
        "/api/..%2fsecret/inspect",
        "/api/%2e%2e/inspect",
        "/api/log/../../secret",
        "/api/log/__init__",
        "/api/%00/inspect",
        "/api/%ff/inspect",
        "//evil.example/api",
        "/server.py",
    ],
)
def test_an_address_that_leads_nowhere_is_not_found(client, path):
    reply = client.get(path)
    assert (reply.status, reply.error["code"]) == (404, "not-found")


@pytest.mark.parametrize(
    "file",
    ["../secret", "../../secret", "/etc/passwd", "log/../../../secret", "", "%00", "a\0b", "lock", "."],
)
def test_only_files_of_the_inventory_can_be_read(client, file):
    reply = client.ask("log", "bytes", file=file)
    assert reply.status in (400, 404) and b"root:" not in reply.body


@pytest.mark.parametrize(
    "words",
    [
        "entries?from=x",
        "entries?from=" + "9" * 4000,
        "entries?limit=-1",
        "entries?limit=1e9",
        "entries?limit=" + "9" * 400,
        "entries?limit=1&limit=2",
        "entries?reverse=yes",
        "entries?decode=nothing",
        "entries?decode=text&payload=0",
        "entries?after=nowhere",
        "entries?after=:5",
        "entries?path=/etc",
        "entries?key=not-a-number",
        "entries?" + "&".join(f"stream={number}" for number in range(100)),
        "state?as_of=1,2",
        "state?start=-5",
        "bytes?offset=0",
        "bytes?file=x&offset=abc",
        "inspect?x=1",
        "verify?run=2",
        "follow?lines=x",
        "follow?x=1",
    ],
)
def test_a_wrong_parameter_is_a_usage_error(client, words):
    reply = client.get(f"/api/log/{words}")
    assert (reply.status, reply.error["code"]) == (400, "usage"), reply.body
    assert len(reply.body) < 2000


def test_an_offset_behind_the_end_shows_nothing(client):
    file = client.ask("log", "inspect").json["files"][0]["name"]
    reply = client.ask("log", "bytes", file=file, offset=10**18)
    assert reply.status == 200 and reply.json["bytes"] == "" and reply.json["fields"] == []


def test_a_line_without_end_is_refused(client):
    assert raw(client, b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 414")
    many = b"".join(b"X-%d: 1\r\n" % number for number in range(200))
    assert raw(client, b"GET / HTTP/1.1\r\n" + many + b"\r\n").startswith(b"HTTP/1.1 431")
    assert b'"refused-request"' in raw(client, b"nonsense without a version at all\r\n\r\n")


def test_a_body_is_not_taken_for_the_next_request(client):
    hidden = b"GET /api/directories HTTP/1.1\r\nHost: localhost\r\n\r\n"
    head = b"GET /icon.svg HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(hidden)
    answer = raw(client, head + hidden)
    assert answer.count(b"HTTP/1.1 200") == 1 and b"directories" not in answer


def test_scripts_in_payloads_and_names_stay_data(client):
    reply = client.ask("log", "entries")
    assert reply.headers["Content-Type"] == "application/json"
    assert SCRIPT.hex() in reply.body.decode() and SCRIPT not in reply.body
    assert "<script>" in [row["stream"] for row in reply.json["rows"]]


def test_a_fault_of_ours_is_told_without_its_trace(client, capsys):
    client.server.views.all["fault"] = View(lambda what, given: {"never": 1 // 0})
    reply = client.ask("log", "fault")
    assert (reply.status, reply.error["code"]) == (500, "fault")
    assert b"Traceback" not in reply.body and b".py" not in reply.body
    assert capsys.readouterr().err == ""
    assert client.ask("log", "inspect").status == 200


def test_with_debug_a_fault_shows_its_trace_to_the_operator(log, capsys):
    with serving(log, debug=True) as client:
        client.server.views.all["fault"] = View(lambda what, given: {"never": 1 // 0})
        assert b"Traceback" not in client.ask("log", "fault").body
    assert "ZeroDivisionError" in capsys.readouterr().err


def ended(connection):
    """Wait until the server hangs up."""
    try:
        while connection.recv(65536):
            pass
    except ConnectionError:
        pass


def trickle(connection):
    """Send the head of a request byte by byte until the server hangs up; how many bytes it took."""
    sent = 0
    connection.settimeout(0.01)
    while True:
        try:
            connection.send(b"GET / HTTP/1.1\r\nX: "[sent : sent + 1] or b"x")
            sent += 1
            if connection.recv(1) == b"":
                return sent
        except TimeoutError:
            continue
        except ConnectionError:
            return sent


def test_a_head_that_comes_byte_by_byte_is_cut_off(log):
    with (
        serving(log, bounds=Bounds(request_seconds=0.2)) as client,
        socket.create_connection(client.address) as slow,
    ):
        assert trickle(slow) > 1
        assert client.get("/").status == 200


def test_the_time_for_a_request_begins_anew_behind_each_answer(log):
    with serving(log, bounds=Bounds(request_seconds=0.2)) as client, closing(client.connect()) as connection:
        for _ in range(3):
            connection.request("GET", "/icon.svg")
            assert connection.getresponse().read()
        kept = connection.sock
        kept.settimeout(60)
        assert trickle(kept) > 1


def test_an_answer_that_is_taken_byte_by_byte_is_cut_off(log):
    with serving(log, bounds=Bounds(answer_seconds=0.2)) as client:
        client.server.views.all["long"] = View(lambda what, given: {"long": "x" * (64 << 20)})
        with socket.create_connection(client.address, timeout=60) as slow:
            slow.sendall(b"GET /api/log/long HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert slow.recv(1) == b"H"
            while client.server.connections.served:
                slow.recv(1)
            assert sum(map(len, iter(lambda: slow.recv(1 << 20), b""))) < 64 << 20


def test_slow_clients_do_not_keep_others_out(log):
    bounds = Bounds(connections=8, request_seconds=600, answer_seconds=600)
    with serving(log, bounds=bounds) as client, ExitStack() as stack:
        slow = [stack.enter_context(socket.create_connection(client.address, timeout=60)) for _ in range(24)]
        for one in slow[-8:]:
            one.sendall(b"G")
        for _ in range(3):
            assert client.get("/").status == 200
        for one in slow[:16]:
            ended(one)  # the first that came are the first to go
        assert client.server.connections.served <= 8


def test_those_who_are_worked_for_keep_their_places(log):
    begun, go_on = threading.Semaphore(0), threading.Event()

    def slow_view(what, given):
        begun.release()
        assert go_on.wait(60)
        return {"done": True}

    with serving(log, bounds=Bounds(connections=2)) as client, ExitStack() as stack:
        client.server.views.all["slow"] = View(slow_view)
        both = [stack.enter_context(closing(client.connect())) for _ in range(2)]
        for one in both:
            one.request("GET", "/api/log/slow")
            assert begun.acquire(timeout=60)
        with socket.create_connection(client.address, timeout=60) as one_more:
            ended(one_more)
        go_on.set()
        assert [one.getresponse().status for one in both] == [200, 200]


def test_a_directory_that_goes_away_is_not_found(tmp_path):
    with QueueStore(tmp_path / "log") as store:
        store.queue().add(b"x")
    with serving(tmp_path / "log") as client:
        (tmp_path / "log").rename(tmp_path / "elsewhere")
        reply = client.ask("log", "inspect")
        assert (reply.status, reply.error["code"]) == (404, "not-a-log")
