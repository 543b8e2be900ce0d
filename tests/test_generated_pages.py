"""Generated pages and pictures are up to date with the code and the measurements."""

import re
from pathlib import Path

import pytest

from tools import catalogue_table, performance_summary, pictures, reference

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("path", catalogue_table.pages(), ids=lambda path: path.stem)
def test_the_tables_of_structures_are_the_catalogue(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == catalogue_table.pages()[path], (
        f"{path.name} is behind: run `make format`"
    )


@pytest.mark.parametrize(
    "path", [reference.FOLDER / f"{name}.md" for name in ("aggregates", "modules", "windows")], ids=lambda p: p.stem
)
def test_the_reference_is_the_code(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == reference.pages()[path], f"{path.name} is behind: run `make format`"


def test_the_bars_are_the_measurements() -> None:
    page = (pictures.DOCS / "performance.md").read_text(encoding="utf-8")
    drawn = (pictures.PICTURES / "speed.svg").read_text(encoding="utf-8")
    for one in pictures.COMPARISONS:
        assert f">{pictures.label(one.ratio(page))}</text>" in drawn, "speed.svg is behind: run `make pictures`"


def test_a_figure_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ValueError, match="has no number for"):
        pictures.Figure("Columns", "max, 3", "pandas").value(
            "# Columns\n\n| | pandas |\n|---|---|\n| max, 16 | 3.0 |\n"
        )


def test_the_links_of_the_readme_lead_somewhere() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)#]+)\)", text)
    assert len(targets) > 30
    assert [target for target in targets if not (ROOT / target).exists()] == []


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_the_files_that_pages_name_exist(page: str) -> None:
    named = set(re.findall(r"`((?:\w+/)*\w+\.py)`", (ROOT / page).read_text(encoding="utf-8")))
    there = [path.as_posix() for folder in ("src", "tests", "tools") for path in (ROOT / folder).rglob("*.py")]
    assert named
    assert [name for name in sorted(named) if not any(path.endswith(f"/{name}") for path in there)] == []


def test_the_summary_of_performance_is_its_tables() -> None:
    text = performance_summary.PAGE.read_text(encoding="utf-8")
    assert text == performance_summary.filled(text), "docs/performance.md is behind: run `make format`"


def test_the_picture_of_a_plan_is_that_of_the_plan() -> None:
    drawn = (pictures.PICTURES / "plan.svg").read_text(encoding="utf-8")
    assert drawn == pictures.plan(), "plan.svg is behind: run `make pictures`"
