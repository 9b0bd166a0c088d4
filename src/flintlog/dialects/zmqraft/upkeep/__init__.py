"""Upkeep of a peer's directory: verify, repair, snapshot, compact."""
