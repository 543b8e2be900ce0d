"""An extension of griffe, which reads the code for the API page: docstrings as Markdown."""

from __future__ import annotations

from typing import Any

import griffe

from tools.reference import as_markdown


class DocstringPages(griffe.Extension):
    """Examples in docstrings become code, and parameters a list."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Called for each module, class, function and attribute."""
        if obj.docstring is not None and not obj.is_module:
            parameters = obj.parameters if obj.is_function or obj.is_class else ()
            names = {one.name for one in parameters}
            obj.docstring.value = "\n".join(as_markdown(obj.docstring.value, names))
