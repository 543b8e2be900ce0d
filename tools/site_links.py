"""A hook of mkdocs: links to files outside docs become plain text, because the site contains only the pages."""

from __future__ import annotations

import re
from typing import Any


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The text of a page, before it is rendered."""
    inside = page.file.src_uri.count("/")
    found = re.compile(rf"\[([^\]]+)\]\((?:\.\./){{{inside + 1}}}[A-Za-z_/]+\.(?:md|py)\)")
    return found.sub(r"\1", markdown)
