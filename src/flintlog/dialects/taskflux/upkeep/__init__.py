"""Verify, repair, snapshot, migrate: each a pure plan, and how to carry it out."""
