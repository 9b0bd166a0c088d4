"""The on-disk languages: one folder each, with the same rooms in all of them."""
