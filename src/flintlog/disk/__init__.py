"""The only door to the file system; nothing else in the package calls the system on files."""

from flintlog.disk.assembled import assembled
from flintlog.disk.disk import (
    COPY_BYTES_MAX,
    FLAGS,
    Buffer,
    Disk,
    File,
    Mode,
    Progress,
    give_back,
    no_progress,
    write_all,
)
from flintlog.disk.failstop import FailStop
from flintlog.disk.interrupts import DEFERRED, interruptible
from flintlog.disk.kernel import Access, Kernel, KernelInFront, LocalKernel, Stat
from flintlog.disk.lock import take_lock
from flintlog.disk.transaction import FINISHED, NOTHING_CHANGED, WHOLE, TransactionKernel, transaction

__all__ = [
    "COPY_BYTES_MAX",
    "DEFERRED",
    "FINISHED",
    "FLAGS",
    "NOTHING_CHANGED",
    "WHOLE",
    "Access",
    "Buffer",
    "Disk",
    "FailStop",
    "File",
    "Kernel",
    "KernelInFront",
    "LocalKernel",
    "Mode",
    "Progress",
    "Stat",
    "TransactionKernel",
    "assembled",
    "give_back",
    "interruptible",
    "no_progress",
    "take_lock",
    "transaction",
    "write_all",
]
