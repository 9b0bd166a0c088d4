"""Flintlog measured against other libraries, in one run, on one disk, with the same durability."""
