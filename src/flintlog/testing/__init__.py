"""The fault kit: crash images at every call, failing calls, killed processes, and oracles that judge.

It is public because whoever embeds a store wants to know the same about the code around it.
See `docs/testing.md`.
"""

from flintlog.testing.crash import Image, Pick, image, images
from flintlog.testing.device import Device, State
from flintlog.testing.explore import (
    Proof,
    Report,
    Violation,
    explore,
    explore_suite,
    merged,
    prove_sync,
    prove_syncs,
    sync_sites,
)
from flintlog.testing.kernel import MemoryKernel
from flintlog.testing.oracle import History, Oracle, Recording, Scenario, Suite, record

__all__ = [
    "Device",
    "History",
    "Image",
    "MemoryKernel",
    "Oracle",
    "Pick",
    "Proof",
    "Recording",
    "Report",
    "Scenario",
    "State",
    "Suite",
    "Violation",
    "explore",
    "explore_suite",
    "image",
    "images",
    "merged",
    "prove_sync",
    "prove_syncs",
    "record",
    "sync_sites",
]
