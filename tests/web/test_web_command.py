"""`flintlog web` as it is typed: the address, Ctrl-C, what is refused; and the page that it brings along."""

from __future__ import annotations

import http.client
import importlib.resources
import json
import re
import signal
import socket
import subprocess
import sys
import threading
from contextlib import closing
from urllib.parse import urlsplit

import pytest
from scripts.pages.page_blocks import ROOT
from tests.web.explorer import serving

from flintlog import QueueStore
from flintlog.cli.main import main

PAGE = importlib.resources.files("flintlog.web") / "static"


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    home = tmp_path_factory.mktemp("typed") / "queues"
    with QueueStore(home) as store:
        store.queue().add(b"x")
    return home


def started(*words):
    process = subprocess.Popen(
        [sys.executable, "-m", "flintlog.cli.main", "web", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    watchdog = threading.Timer(120, process.kill)
    watchdog.daemon = True
    watchdog.start()
    return process


def test_it_prints_its_address_serves_and_ends_with_ctrl_c(log):
    with started(log, "--json") as process:
        told = json.loads(process.stdout.readline())
        assert told["directories"] == [str(log)]
        place = urlsplit(told["url"])
        assert place.hostname == "127.0.0.1"
        with closing(http.client.HTTPConnection(place.netloc, timeout=60)) as connection:
            connection.request("GET", "/api/queues/follow")  # a stream that nobody ends
            answer = connection.getresponse()
            assert b"columns" in answer.readline()
            process.send_signal(signal.SIGINT)
            out, talk = process.communicate()
            answer.close()
        assert process.returncode == 130 and out == ""
        assert talk.splitlines()[-1] == "flintlog: interrupted; nothing was changed"
        assert "Traceback" not in talk


def test_a_port_in_use_is_refused_with_one_line(log, capsys):
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        assert main(["web", str(log), "--port", str(port)]) == 3
    assert capsys.readouterr().err == (
        f"flintlog: port {port} of 127.0.0.1 is in use. Choose another --port; without it any free one is taken\n"
    )


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["--host", "192.0.2.1"], 2),
        (["--host", "no such host"], 2),
        (["nowhere"], 4),
        (["--host", "a" * 300], 2),
    ],
)
def test_what_cannot_be_served_is_refused_with_one_line(words, status, log, capsys):
    assert main(["web", str(log), *words]) == status
    out, talk = capsys.readouterr()
    assert out == "" and talk.startswith("flintlog: ") and talk.count("\n") == 1


@pytest.mark.parametrize("port", ["-1", "65536", "x", "80.5"])
def test_a_port_is_a_number(port, log, capsys):
    with pytest.raises(SystemExit) as end:
        main(["web", str(log), "--port", port])
    assert end.value.code == 2


def test_the_help_loads_no_server():
    code = (
        "import sys\nfrom flintlog.cli.main import main\n"
        "try:\n    main(['web', '--help'])\nexcept SystemExit:\n    pass\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    assert not loaded & {"http.server", "http.client", "socketserver", "flintlog.web"}
    assert "flintlog web queues" in done.stdout


def test_the_page_and_all_it_names_are_served(log):
    with serving(log) as client:
        page = client.get("/")
        assert page.status == 200 and page.headers["Content-Type"] == "text/html; charset=utf-8"
        named = set(re.findall(r'(?:href|src)="([\w.]+)"', page.body.decode()))
        named |= {
            name for file in PAGE.iterdir() for name in re.findall(r'from "\./(\w+\.js)"', file.read_text())
        }
        assert len(named) >= 9
        for name in named:
            reply = client.get(f"/{name}")
            assert reply.status == 200 and reply.body == (PAGE / name).read_bytes()
        assert {file.name for file in PAGE.iterdir()} == named | {"index.html"}


def test_the_page_fetches_nothing_from_elsewhere_and_makes_no_markup_of_data():
    for file in PAGE.iterdir():
        text = file.read_text()
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text), file.name
        for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "DOMParser"):
            assert way not in text, file.name
        assert not re.search(r"<script>|\son\w+=\"|style=\"", text), file.name
