"""What `make site` adds to the pages: the root's own, the files that they link to, and the API from the docstrings.

mkdocs calls the hooks. In the repository every page is plain Markdown, and links lead to files; in the site a link to
`src/`, `tests/`, `examples/` or `scripts/` leads to a copy of that file.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any

from mkdocs.structure.files import File, Files
from scripts.pages.page_blocks import ROOT
from scripts.pages.public import MODULES, home_of, names

_LINK = re.compile(r"(!?\[[^\]]*\])\(((?!https?:|#)[^)\s#]+)(#[^)\s]*)?\)")
_CODE = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
_ROOT_PAGES = {
    "README.md": "flintlog.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}


def on_files(files: Files, *, config: Any) -> Files:
    """Add the pages of the root, what any page links to outside of docs/, and the pages of the API."""
    for name, place in _ROOT_PAGES.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / name)))
    for module, (title, _) in MODULES.items():
        files.append(File.generated(config, _api_page(module), content=_api(module, title)))
    linked = {
        target
        for file in files.documentation_pages()
        for _, link, _ in _LINK.findall(file.content_string)
        if (target := _target(_in_repository(file.src_uri), link)) is not None
    }
    for target in sorted(linked):
        if not target.startswith("docs/") and target not in _ROOT_PAGES and (ROOT / target).is_file():
            files.append(File.generated(config, f"source/{target}", abs_src_path=str(ROOT / target)))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Files) -> str:
    """Let every link lead to where the site has its target."""
    here = page.file.src_uri
    parts = _CODE.split(markdown)
    parts[::2] = [_LINK.sub(lambda link: _led(here, link, files), part) for part in parts[::2]]
    text = "".join(parts)
    return text + _api_links() if here == "api.md" else text


def _led(here: str, link: re.Match[str], files: Files) -> str:
    words, path, anchor = link.groups()
    target = _target(_in_repository(here), path)
    if target is None:
        return link[0]
    place = _in_site(target)
    if files.get_file_from_path(place) is None:
        # A folder has no page in the site; of what is nowhere mkdocs warns.
        return words[1:-1] if (ROOT / target).is_dir() else link[0]
    return f"{words}({posixpath.relpath(place, posixpath.dirname(here))}{anchor or ''})"


def _in_repository(place: str) -> str:
    """The path in the repository of a page of the site."""
    return next((name for name, page in _ROOT_PAGES.items() if page == place), f"docs/{place}")


def _in_site(target: str) -> str:
    """Where the site has a file of the repository."""
    if target in _ROOT_PAGES:
        return _ROOT_PAGES[target]
    return target.removeprefix("docs/") if target.startswith("docs/") else f"source/{target}"


def _target(page: str, link: str) -> str | None:
    """The path in the repository that a link of a page leads to; None for what is elsewhere."""
    target = posixpath.normpath(posixpath.join(posixpath.dirname(page), link))
    return None if target.startswith("..") or ":" in link else target


def _api_page(module: str) -> str:
    return f"api/{module}.md"


def _api(module: str, title: str) -> str:
    return f"# {title}\n\n`{module}`\n" + "".join(
        f"\n::: {home_of(module, name)}\n" for name in names(module)
    )


def _api_links() -> str:
    rows = [f"- [{title}: `{module}`]({_api_page(module)})" for module, (title, _) in MODULES.items()]
    return "\n## In full\n\n" + "\n".join(rows) + "\n"
