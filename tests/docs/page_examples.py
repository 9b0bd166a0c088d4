"""What every page with Python on it is tested for. The module has its `PAGE`, and how many `EXAMPLES` are on it."""

from __future__ import annotations

from scripts.pages.page_blocks import blocks


def test_each_example_prints_what_the_page_shows(request, tmp_path, monkeypatch, capsys):
    page = request.module.PAGE
    monkeypatch.chdir(tmp_path)
    examples = [block for block in blocks(page) if block.language == "python"]
    assert len(examples) == request.module.EXAMPLES
    for block in examples:
        exec(compile(block.text, str(page), "exec"), {"__name__": "page"})
        assert capsys.readouterr().out == block.output
