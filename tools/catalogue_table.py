"""Put the catalogue's table into docs/structures.md; run by `make format`, checked by tests/test_readme.py."""

from __future__ import annotations

from pathlib import Path

from sash.aggregators.catalogue import table

PAGE = Path(__file__).parents[1] / "docs" / "structures.md"
BEGIN, END = "<!-- catalogue -->\n", "<!-- end of catalogue -->"


def with_catalogue(text: str) -> str:
    """The text with the catalogue as it is now between its marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{table()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(with_catalogue(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
