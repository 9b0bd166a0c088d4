"""zmqraft: a Raft peer's storage, in index files, a snapshot and state files."""

from __future__ import annotations

from flintlog.core.dialect import Dialect
from flintlog.dialects.zmqraft import files
from flintlog.disk import Disk
from flintlog.errors import NotALogError


class Zmqraft(Dialect):
    """The root is the directory that holds `log` and `snap`."""

    name = "zmqraft"
    unit = "index"
    not_loaded = (
        "its entries come from the leader of a Raft group, one after the other",
        "Hand them to the leader; `RaftStore.append` stores what it decides",
    )
    takes_state = True

    def home(self, disk: Disk, path: str) -> str:
        found = files.locate(disk, path)
        if found is None:
            raise NotALogError(
                "this is not a zmqraft directory",
                file=path,
                advice="Name the directory that holds log and snap",
            )
        return found

    def recognise(self, disk: Disk, path: str) -> bool:
        return files.locate(disk, path) is not None


DIALECT = Zmqraft()
