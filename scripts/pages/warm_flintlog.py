"""The command `flintlog` for sessions of many commands: a process that has its imports done forks for each of them.

`python warm_flintlog.py SOCKET` serves until its standard input ends. `python warm_flintlog.py SOCKET WORD...` is the
command: it hands over words, directory, environment and the three standard files, passes signals on, and ends as the
fork ends.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import socket
import sys


def ask(path: str, words: list[str]) -> int:
    """Run the command in a fork of the server; its exit status."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
        line.connect(path)
        request = json.dumps([words, os.getcwd(), dict(os.environ)]).encode()
        socket.send_fds(line, [request], [0, 1, 2])
        process = int(line.recv(16))
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, lambda number, _: os.kill(process, number))
        status = int(line.recv(16))
    if status < 0:  # killed, and so is this one
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


def serve(path: str) -> None:
    """Fork for each request. Nothing here has started a thread, so a fork is as good as a fresh process."""
    import importlib
    import pkgutil
    import select

    import pyarrow.compute  # noqa: F401

    with contextlib.suppress(ImportError):
        importlib.import_module("pandas")  # Arrow looks for it when it makes Python objects
    for room in ("columns", "core", "dialects", "cli"):
        package = importlib.import_module(f"flintlog.{room}")
        for module in pkgutil.walk_packages(package.__path__, f"flintlog.{room}."):
            importlib.import_module(module.name)

    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
        door.bind(path)
        door.listen()
        print("ready", flush=True)
        while door in select.select([door, sys.stdin], [], [])[0]:
            line, _ = door.accept()
            if os.fork() == 0:
                door.close()
                answer(line)
            line.close()


def answer(line: socket.socket) -> None:
    """In a fork: one more fork is the command; tell its number, wait for its end, tell its status."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    request, files, _, _ = socket.recv_fds(line, 1 << 18, 3)
    words, directory, environment = json.loads(request)
    command = os.fork()
    if command:
        line.send(str(command).encode())
        for file in files:
            os.close(file)
        status = os.waitstatus_to_exitcode(os.waitpid(command, 0)[1])
        line.send(str(status).encode())
        os._exit(0)
    line.close()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    from flintlog.cli.main import main

    try:
        status = main(words)
    except SystemExit as stop:  # of a wrong usage, or --help
        status = stop.code if isinstance(stop.code, int) else 0
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # a whole interpreter is not taken down for each command


if __name__ == "__main__":
    if len(sys.argv) == 2:
        serve(sys.argv[1])
    else:
        sys.exit(ask(sys.argv[1], sys.argv[2:]))
