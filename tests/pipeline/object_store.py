"""An object store on this machine: SeaweedFS, whose S3 server keeps what it is given on disk."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pyarrow import fs

_PORTS = (
    "s3.port.grpc",
    "master.port",
    "master.port.grpc",
    "volume.port",
    "volume.port.grpc",
    "filer.port",
    "filer.port.grpc",
)
_SECONDS = 120  # that a busy machine may need until the server answers


@contextmanager
def object_store(home: Path) -> Iterator[dict[str, str]]:
    """A running server; gives the options that reach it."""
    ports = iter(_free_ports(1 + len(_PORTS)))
    key, secret = "key", "secret"
    identity = {
        "name": "tests",
        "credentials": [{"accessKey": key, "secretKey": secret}],
        "actions": ["Admin", "Read", "Write", "List"],
    }
    home.mkdir()
    (home / "s3.json").write_text(json.dumps({"identities": [identity]}))
    port = next(ports)
    command = [
        str(Path(sys.executable).with_name("weed")), "server", f"-dir={home}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
        "-master.volumeSizeLimitMB=64", "-volume.max=20", "-filer", "-s3", "-s3.port.iceberg=0", "-s3.port.lance=0",
        "-master.telemetry=false", f"-s3.port={port}", f"-s3.config={home / 's3.json'}",
        *(f"-{part}={next(ports)}" for part in _PORTS),
    ]  # fmt: skip
    options = {
        "endpoint_override": f"127.0.0.1:{port}",
        "scheme": "http",
        "access_key": key,
        "secret_key": secret,
        "region": "us-east-1",
    }
    with open(home / "log", "wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, cwd=home)
    try:
        _wait(server, options, home / "log")
        yield options
    finally:
        server.kill()  # it would wait for connections that Spark's workers keep
        server.wait()


def _wait(server: subprocess.Popen[bytes], options: dict[str, str], log: Path) -> None:
    """Wait until the server keeps a file."""
    files = fs.S3FileSystem(**options, allow_bucket_creation=True)
    end = time.monotonic() + _SECONDS
    while True:
        try:
            files.create_dir("ready")
            with files.open_output_stream("ready/file") as file:
                file.write(b"ready")
            return
        except OSError:
            if server.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the server did not start: {log.read_text()[-2000:]}") from None
            time.sleep(0.2)


def _free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
