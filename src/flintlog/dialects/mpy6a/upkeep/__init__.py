"""Verify, repair, snapshot, compact: each a pure plan and an apply."""
