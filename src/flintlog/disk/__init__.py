"""The only door to the file system; nothing else in the package calls the system on files."""

from flintlog.disk.assembled import assembled
from flintlog.disk.disk import COPY_BYTES_MAX, Buffer, Disk, File, Mode, write_all
from flintlog.disk.failstop import FailStop
from flintlog.disk.kernel import Kernel, LocalKernel, Stat
from flintlog.disk.lock import take_lock

__all__ = [
    "COPY_BYTES_MAX",
    "Buffer",
    "Disk",
    "FailStop",
    "File",
    "Kernel",
    "LocalKernel",
    "Mode",
    "Stat",
    "assembled",
    "take_lock",
    "write_all",
]
