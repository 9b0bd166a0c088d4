"""docs/formats/limestone.md says of every record its size."""

from __future__ import annotations

import re

from scripts.pages.page_blocks import ROOT

from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.layout import Catalog

PAGE = ROOT / "docs" / "formats" / "limestone.md"


def test_sizes_and_the_catalog_are_those_of_the_code():
    page = PAGE.read_text()
    sizes = {
        int(number): text for number, text in re.findall(r"^\| (\d+) \| .* \| ([\d +knv]+) \|$", page, re.M)
    }
    records = {
        lay.PUT: lay.put(1, b"kk", b"vvv", (1, 2)).encode(),
        lay.BEGIN: lay.encode_begin(1),
        lay.END: lay.encode_end(1),
        lay.DURABLE: lay.encode_durable(1),
        lay.REMOVE: lay.remove(1, b"kk", (1, 2)).encode(),
        lay.INVALIDATED: lay.encode_begin(1),
        lay.CLEAR_STORAGE: lay.Entry(lay.CLEAR_STORAGE, 1).encode(),
        lay.ADD_STORAGE: lay.Entry(lay.ADD_STORAGE, 1).encode(),
        lay.REMOVE_STORAGE: lay.Entry(lay.REMOVE_STORAGE, 1).encode(),
        lay.PUT_BLOBS: lay.put(1, b"kk", b"vvv", (1, 2), (5, 6, 7, 8)).encode(),
    }
    assert set(sizes) == set(records)
    for number, text in sizes.items():
        formula = text.replace("8n", "8 * n")
        assert eval(formula, {"k": 2, "v": 3, "n": 4}) == len(records[number]), number
    example = Catalog({"cmpct_0001": 1}, frozenset({"pwal_0000.01794726954958.0"}), 6, 0)
    assert f"```\n{example.encode().decode()}```" in page
