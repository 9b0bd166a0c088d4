"""The explorer in a browser: the read verbs over HTTP, and the page that shows them. Nothing here writes.

`server` speaks HTTP and knows who may ask; `views` answers, in the words of `--json`; `static/` is the page.
"""
