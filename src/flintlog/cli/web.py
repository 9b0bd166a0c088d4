"""`web`: the read verbs in a browser. The server and its page are loaded when it starts, and not before."""

from __future__ import annotations

import argparse
import sys

from flintlog.cli.output import Output
from flintlog.cli.verb import Verb
from flintlog.core.log import open_log
from flintlog.disk import Disk
from flintlog.errors import EXIT_OK

_HOST = "127.0.0.1"
_PORT_MAX = 65535


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > _PORT_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: 0 to {_PORT_MAX}")
    return int(text)


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directories", metavar="DIR", nargs="+", help="the log directories to show")
    parser.add_argument(
        "--host",
        default=_HOST,
        metavar="HOST",
        help=f"the address to listen at ({_HOST}, this machine alone, if not given)",
    )
    parser.add_argument(
        "--port", type=_port, default=0, metavar="N", help="the port to listen at (any free one if not given)"
    )


def _run(arguments: argparse.Namespace, output: Output) -> int:
    disk = Disk()
    paths = [disk.resolve(directory) for directory in arguments.directories]
    logs = [open_log(path, disk=disk) for path in dict.fromkeys(paths)]

    from flintlog.web.server import Explorer

    explorer = Explorer(logs, arguments.host, arguments.port, debug=arguments.debug)
    try:
        if not explorer.only_here:
            print(
                "flintlog: everyone who reaches this address can read these logs; there is no password",
                file=sys.stderr,
            )
        output.summary({"url": explorer.url, "directories": [log.path for log in logs]}, [explorer.url])
        sys.stdout.flush()
        print("flintlog: open this address in a browser; Ctrl-C ends", file=sys.stderr)
        explorer.serve_forever()
    finally:
        explorer.close()
    return EXIT_OK


WEB = Verb(
    name="web",
    summary="the logs in a browser: look, search, follow, verify",
    description=(
        "Shows log directories in a browser: files and health, entries, annotated bytes, the state at any position, "
        "verify with the plan of a repair, and entries as they come. Prints the address and serves until it is "
        "interrupted. Changes nothing and works on live directories. Only this machine can ask unless --host says "
        "otherwise, and there is no password: from another machine, use a tunnel (ssh -L 8000:127.0.0.1:8000)."
    ),
    examples=(
        "flintlog web queues",
        "flintlog web queues accounts --port 8000",
        "flintlog web queues --json",
    ),
    add_options=_add_options,
    run=_run,
    takes_directory=False,
)
