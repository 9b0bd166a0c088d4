"""Upkeep of a peer's directory: verify, repair, compact."""
