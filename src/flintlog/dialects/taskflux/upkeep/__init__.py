"""Verify, repair, snapshot, convert: each a pure plan and an apply."""
