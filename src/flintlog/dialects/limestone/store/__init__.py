"""The pieces of the store: sorted files made from the state."""
