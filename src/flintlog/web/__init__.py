"""The explorer in a browser: the read verbs over HTTP, and the page that shows them. Nothing here writes.

`server` speaks HTTP and decides who may ask; `views` answers with the fields of `--json`; `static/` is the page.
"""
