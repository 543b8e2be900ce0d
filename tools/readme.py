"""Put the catalogue's table into README.md; run by `make format`, checked by tests/test_readme.py."""

from __future__ import annotations

from pathlib import Path

from sash.aggregators.catalogue import table

README = Path(__file__).parents[1] / "README.md"
BEGIN, END = "<!-- catalogue -->\n", "<!-- end of catalogue -->"


def with_catalogue(text: str) -> str:
    """The text with the catalogue as it is now between its marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{table()}\n{END}{after}"


if __name__ == "__main__":
    README.write_text(with_catalogue(README.read_text(encoding="utf-8")), encoding="utf-8")
