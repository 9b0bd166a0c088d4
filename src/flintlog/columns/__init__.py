"""Bytes to columns and back: compiled scanning, gathering without Python per record, checksums in bulk."""
