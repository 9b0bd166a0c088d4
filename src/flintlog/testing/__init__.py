"""The fault kit: crash images at every call, failing calls, killed processes, and oracles that judge what is left.

It is public: an application that embeds a store can test its own code in the same way. See `docs/testing.md`.
"""

from flintlog.testing.crash import Image, Pick, image, images
from flintlog.testing.damage import DamageReport, explore_damage, spoil_again
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
from flintlog.testing.faults import Fault, FaultReport, FaultyKernel, inject_everywhere
from flintlog.testing.kernel import MemoryKernel
from flintlog.testing.kill import KillReport, Reporter, kill_rounds, nothing_lost_nothing_invented
from flintlog.testing.life import LifeReport, live
from flintlog.testing.notes import Notes
from flintlog.testing.oracle import History, Oracle, Recording, Scenario, Suite, record
from flintlog.testing.races import RaceReport, Subject, explore_races, race, race_again
from flintlog.testing.reproduce import reproduce, write_to
from flintlog.testing.schedule import HangError, Scheduler
from flintlog.testing.sites import sync_lines

__all__ = [
    "DamageReport",
    "Device",
    "Fault",
    "FaultReport",
    "FaultyKernel",
    "HangError",
    "History",
    "Image",
    "KillReport",
    "LifeReport",
    "MemoryKernel",
    "Notes",
    "Oracle",
    "Pick",
    "Proof",
    "RaceReport",
    "Recording",
    "Report",
    "Reporter",
    "Scenario",
    "Scheduler",
    "State",
    "Subject",
    "Suite",
    "Violation",
    "explore",
    "explore_damage",
    "explore_races",
    "explore_suite",
    "image",
    "images",
    "inject_everywhere",
    "kill_rounds",
    "live",
    "merged",
    "nothing_lost_nothing_invented",
    "prove_sync",
    "prove_syncs",
    "race",
    "race_again",
    "record",
    "reproduce",
    "spoil_again",
    "sync_lines",
    "sync_sites",
    "write_to",
]
