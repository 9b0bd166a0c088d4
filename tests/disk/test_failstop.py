"""After the first failure nothing more is done until the store is opened again."""

from __future__ import annotations

import errno
import os

import pytest

from flintlog.disk import Disk, FailStop
from flintlog.disk.kernel import LocalKernel
from flintlog.errors import ClosedError, DiskError, StoppedError


def test_work_goes_on_while_nothing_fails():
    stop = FailStop("queues")
    for _ in range(3):
        with stop.guard():
            pass
    stop.check()
    assert not stop.failed


@pytest.mark.parametrize("failure", [OSError("disk gone"), KeyboardInterrupt("now"), MemoryError("full")])
def test_after_any_failure_every_later_call_is_refused_and_names_the_first_cause(failure):
    stop = FailStop("queues")
    with pytest.raises(type(failure)), stop.guard():
        raise failure
    assert stop.failed
    for _ in range(2):
        with pytest.raises(StoppedError) as caught:
            stop.check()
        assert caught.value.__cause__ is failure
        assert str(failure) in str(caught.value)
        assert caught.value.file == "queues"
        assert "open the directory again" in str(caught.value)


def test_work_is_not_begun_after_a_failure():
    stop = FailStop("queues")
    with pytest.raises(OSError, match="first"), stop.guard():
        raise OSError("first")
    begun = False
    with pytest.raises(StoppedError, match="first"), stop.guard():
        begun = True
    assert not begun


def test_two_threads_that_fail_together_leave_the_first_cause():
    stop = FailStop("queues")
    with pytest.raises(OSError, match="second"), stop.guard():
        with pytest.raises(OSError, match="first"), stop.guard():
            raise OSError("first")
        raise OSError("second")
    with pytest.raises(StoppedError, match="first"):
        stop.check()


def test_a_closed_store_refuses_and_a_failed_one_says_why_even_when_closed():
    stop = FailStop("queues")
    stop.close()
    with pytest.raises(ClosedError, match="this store is closed"):
        stop.check()
    failed = FailStop("queues")
    with pytest.raises(OSError, match="disk gone"), failed.guard():
        raise OSError("disk gone")
    failed.close()
    with pytest.raises(StoppedError, match="disk gone"):
        failed.check()


class Unclosable(LocalKernel):
    """Files that the system does not know any more."""

    def close(self, handle):
        os.close(handle)
        raise OSError(errno.EBADF, "EBADF")


def test_a_child_whose_files_cannot_be_closed_is_refused_all_the_same(tmp_path):
    file = Disk(Unclosable()).open(str(tmp_path / "file"), "create")
    failstop = FailStop("/data")
    child = os.fork()
    if not child:
        os._exit(0 if failstop.forked else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with pytest.raises(DiskError):
        file.close()
