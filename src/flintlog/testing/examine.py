"""Tests one crash image: recover, judge, crash in recovery, recover, extend, crash.

| promise | what is asked |
|---|---|
| `recovery` | the store opens and closes without an error |
| `history` | all that was acknowledged is there, without a hole, and nothing that was not issued (the oracle's `check`)
|
| `idempotence` | a second recovery shows the same |
| `nested crash` | a crash at any call of the recovery, and recovery after it, shows the same |
| `continuation` | a change made after recovery survives a power failure, with everything before it |
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from flintlog.disk import Disk
from flintlog.testing.calls import Call, Sync, SyncDirectory
from flintlog.testing.crash import Image
from flintlog.testing.device import Device, State
from flintlog.testing.kernel import MemoryKernel
from flintlog.testing.oracle import Oracle
from flintlog.testing.sites import Sites

_RECENT_VALUES = 16
_ALIKE_MAX = 4  # so many recoveries with the same calls and the same result are crashed, not more


class BrokenPromiseError(Exception):
    """A promise that an image showed to be broken."""

    def __init__(self, promise: str, detail: str) -> None:
        super().__init__(f"{promise}: {detail}")
        self.promise = promise
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Expectation:
    """What may, and what must, be there after the crash."""

    issued: Sequence[Any]
    acknowledged: Sequence[Any]


def _silent(_line: str) -> None:
    pass


class Examiner:
    """Examines images of one scenario.

    It remembers what each state recovers to and which states it extended: many crashes lead to one state, and a store
    does the same with the same bytes.
    """

    def __init__(
        self,
        oracle: Oracle[Any, Any],
        *,
        sites: Sites | None = None,
        elide: str | None = None,
        nested: bool = True,
        tell: Callable[[str], None] = _silent,
    ) -> None:
        self._oracle = oracle
        self._sites = sites or Sites()
        self._elide = elide
        self._nested = nested
        self._tell = tell
        self._shown: dict[object, Any] = {}
        self._examined: dict[object, Any] = {}
        self._continued: set[tuple[int, int]] = set()
        self._alike: Counter[object] = Counter()
        self._recent: deque[Any] = deque(maxlen=_RECENT_VALUES)
        self.recoveries = 0
        self.nested_images = 0
        self.sync_sites: set[str] = set()

    def examine(self, image: Image, key: object, expectation: Expectation) -> None:
        """Raise `BrokenPromiseError` when this image breaks a promise. `key` is its `image_key`."""
        if key in self._examined:  # the same state, with a longer history
            self._check(self._examined[key], expectation)
            return
        kernel = self._machine(image.state, image.pending)
        began = len(kernel.log)
        observed = self._recover(kernel, "recovery")
        self._check(observed, expectation)
        made = len(kernel.log)
        settled = kernel.device()
        left = settled.visible()
        self._same(observed, self._shown_by(left, "second recovery"), "idempotence", "recovered twice")
        if not image.pending:
            self._shown[key] = observed
        if self._nested and made > began and self._is_new(image, kernel.log[began:made], observed):
            self._crash_in_recovery(image, kernel.log[:made], began, observed, expectation)
        elif image.pending:
            self._power_fails(kernel.log[:made], image.state, observed)
        rest = (settled.durable().digest(), left.digest())
        if rest not in self._continued:
            self._continue(kernel, observed)
            self._continued.add(rest)
        self._examined[key] = observed

    def _is_new(self, image: Image, made: list[Call], observed: Any) -> bool:
        """Have fewer than a few recoveries with these calls (at any offsets) and this result been crashed?

        For a write torn at each of a thousand bytes, recovery makes the same calls a thousand times.
        """
        steps = tuple((type(call), getattr(call, "path", ""), getattr(call, "site", "")) for call in made)
        alike = (bool(image.pending), steps, repr(observed))
        self._alike[alike] += 1
        return self._alike[alike] <= _ALIKE_MAX

    def _check(self, observed: Any, expectation: Expectation) -> None:
        wrong = self._oracle.check(observed, expectation.issued, expectation.acknowledged)
        if wrong is not None:
            raise BrokenPromiseError("history", wrong)

    def _continue(self, kernel: MemoryKernel, observed: Any) -> None:
        expected = self._asked(
            "extension after recovery", lambda: self._oracle.extend(Disk(kernel), observed)
        )
        kernel.kill_processes()
        self._note_sites(kernel.log)
        after = self._recover(
            self._machine(kernel.device().durable()), "recovery after extension and power failure"
        )
        self._same(expected, after, "continuation", "recovered, extended, power lost, recovered")

    def _power_fails(self, log: list[Call], base: State, observed: Any) -> None:
        device = Device(base)
        device.take_all(log)
        after = self._shown_by(device.durable())
        self._same(observed, after, "nested crash", "process died, recovered, then power failed")

    def _crash_in_recovery(
        self, image: Image, log: list[Call], began: int, observed: Any, expectation: Expectation
    ) -> None:
        device = Device(image.state)
        device.take_all(log[:began])
        for number in range(began + 1, len(log) + 1):
            before = device.pending_calls
            device.take(number, log[number - 1])
            if device.pending_calls == before and not (image.pending and number == len(log)):
                continue  # a sync with nothing to do: the crash before it was the same
            where = f"crash in recovery after its call {number - began} ({log[number - 1]})"
            # What a finished recovery shows must stay. Before it returns, a machine that lived through the first crash
            # may lose what recovery had not made durable, but nothing acknowledged.
            lenient = bool(image.pending) and number < len(log)
            for fate, state in (("lost", device.durable()), ("kept", device.visible())):
                again = self._shown_by(state)
                self._same_or_right(
                    observed, again, expectation if lenient else None, f"{where}, pending {fate}"
                )
            if pending := device.pending():
                self._die_in_recovery(
                    device.durable(), pending, observed, expectation if lenient else None, where
                )

    def _die_in_recovery(
        self,
        state: State,
        pending: tuple[Call, ...],
        observed: Any,
        expectation: Expectation | None,
        where: str,
    ) -> None:
        kernel = self._machine(state, pending)
        key = (state.digest(), kernel.visible().digest())
        if key in self._shown:
            again, after = self._shown[key]
        else:
            self.nested_images += 1
            again = self._recover(kernel, f"recovery after process {where}")
            after = self._shown_by(kernel.device().durable())
            self._shown[key] = again, after
        self._same_or_right(observed, again, expectation, f"process {where}")
        self._same(again, after, "nested crash", f"process {where}, recovered, then power failed")

    def _shown_by(self, state: State, phase: str = "recovery after a crash in recovery") -> Any:
        """What a recovery of this state shows."""
        key = state.digest()
        if key not in self._shown:
            self.nested_images += 1
            self._shown[key] = self._recover(self._machine(state), phase)
        return self._shown[key]

    def _machine(self, state: State, pending: tuple[Call, ...] = ()) -> MemoryKernel:
        return MemoryKernel(state, pending, sites=self._sites, elide=self._elide)

    def _recover(self, kernel: MemoryKernel, phase: str) -> Any:
        self.recoveries += 1
        before = len(kernel.log)
        observed = self._asked(phase, lambda: self._oracle.recover(Disk(kernel)))
        kernel.kill_processes()
        made = kernel.log[before:]
        self._note_sites(made)
        if self._tell is not _silent:
            self._tell(f"{phase}: {_short(observed)}")
            for call in made:
                self._tell(f"    {call}")
        return self._one_of_equals(observed)

    def _one_of_equals(self, observed: Any) -> Any:
        # Thousands of images recover to a few values; keeping one copy of each saves memory.
        for known in self._recent:
            if known == observed:
                return known
        self._recent.append(observed)
        return observed

    def _asked(self, phase: str, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except Exception as error:
            self._tell(f"{phase} raised {type(error).__name__}: {error}")
            raise BrokenPromiseError("recovery", f"{phase} raised {type(error).__name__}: {error}") from error

    def _note_sites(self, log: list[Call]) -> None:
        for call in log:
            if isinstance(call, Sync | SyncDirectory):
                self.sync_sites.add(call.site)

    def _same(self, expected: Any, found: Any, promise: str, when: str) -> None:
        if expected != found:
            raise BrokenPromiseError(promise, f"{when}: expected {_short(expected)}, found {_short(found)}")

    def _same_or_right(self, observed: Any, again: Any, expectation: Expectation | None, when: str) -> None:
        if again == observed:
            return
        if expectation is None:
            self._same(observed, again, "nested crash", when)
        else:
            self._check(again, expectation)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 400 else f"{text[:200]} ... {text[-190:]}"
