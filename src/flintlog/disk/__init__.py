"""The only door to the file system; nothing else in the package calls the system on files."""

from flintlog.disk.disk import COPY_BYTES_MAX, Buffer, Disk, File, write_all
from flintlog.disk.failstop import FailStop
from flintlog.disk.kernel import Kernel, LocalKernel, Stat

__all__ = [
    "COPY_BYTES_MAX",
    "Buffer",
    "Disk",
    "FailStop",
    "File",
    "Kernel",
    "LocalKernel",
    "Stat",
    "write_all",
]
