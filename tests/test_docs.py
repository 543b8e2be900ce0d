"""Every Python block of the documentation runs.

The blocks of a page run in order and share one namespace. A block with prompts is a doctest, any other is
executed as it stands. A block of the language `output` directly after one that is executed has what that one prints:
readers can copy the code without prompts. In tables whose last column is headed "in sash", the code of that column is
evaluated, after all blocks. Blocks of SQL and TOML in recipes give the rows of the Python block above them
(`tests/shared/recipe_blocks.py`). No Python block can be left out: a fence that is not understood, and a
doctest's `+SKIP`, fail the page.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.interpreted import switch_off
from tests.shared.doc_pages import RECIPES, ROOT, broken_links, run_page
from tests.shared.effort import THOROUGH
from tests.shared.recipe_blocks import unexplained

PAGES = ["README.md", *(name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md") if (ROOT / name).exists())]
PAGES += sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("**/*.md"))


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page writes to a directory of its own."""
    monkeypatch.chdir(tmp_path)


def needs_spark(page: str) -> bool:
    return "\nimport sash.spark\n" in (ROOT / page).read_text("utf-8")


COMPILED = ("README.md", "docs/migration.md", "docs/monoids.md")
"""Pages that compile each time; the others say the same of kernels that Python runs."""


def pages(spark: bool) -> list[Any]:
    """The pages that need Spark, or the others, as parameters."""
    chosen = (page for page in PAGES if needs_spark(page) == spark)
    return [pytest.param(page, marks=pytest.mark.compiled if page in COMPILED else ()) for page in chosen]


@pytest.mark.parametrize("page", pages(spark=False))
def test_page(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if page not in COMPILED and not THOROUGH:
        switch_off(monkeypatch)
    run_page(ROOT / page)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("page", pages(spark=True))
def test_page_with_spark(page: str, request: pytest.FixtureRequest) -> None:
    if page in COMPILED:
        request.getfixturevalue("compiled_workers")
    test_page(page, request.getfixturevalue("monkeypatch"))


@pytest.mark.parametrize("page", sorted(path.name for path in RECIPES.glob("*.md") if path.name != "README.md"))
def test_recipes_are_in_python_sql_and_as_jobs(page: str) -> None:
    assert unexplained((RECIPES / page).read_text("utf-8")) == []


@pytest.mark.parametrize("page", PAGES)
def test_links(page: str) -> None:
    assert broken_links(ROOT / page) == []


# What follows tests the test.


def write(tmp_path: Path, *lines: str) -> Path:
    page = tmp_path / "page.md"
    page.write_text("\n".join(lines) + "\n", "utf-8")
    return page


def test_blocks_share_a_namespace_in_order(tmp_path: Path) -> None:
    page = write(
        tmp_path,
        "```python",
        "x = [1]",
        "```",
        "~~~~ py",
        ">>> x.append(2); y = 3",
        ">>> x",
        "[1, 2]",
        "~~~~",
        "- in a list",
        '  ```python title="three"',
        "  if x == [1, 2]:",
        "      z = y",
        "  assert z == 3",
        "  ```",
    )
    assert run_page(page) == 3


def test_other_languages_do_not_run(tmp_path: Path) -> None:
    page = write(tmp_path, "```sh", "false", "```", "```", ">>> 1 / 0", "```", "````text", "```python", "1 / 0", "````")
    assert run_page(page) == 0


def test_output_is_compared(tmp_path: Path) -> None:
    page = write(
        tmp_path,
        "```python",
        "print('a  ')",
        "print()",
        "print('  b')",
        "print()",
        "```",
        "",
        "```output",
        "a",
        "",
        "  b",
        "```",
        "```python",
        "print('not shown')",
        "```",
        "```python",
        "```",
        "~~~ output",
        "~~~",
    )
    assert run_page(page) == 3


TABLE = ["```python", "x, done = 3, []", "```", "", "| elsewhere | in sash |", "|---|---|", "| `1 / 0` | `x + 1` |"]


def test_code_of_tables_runs(tmp_path: Path) -> None:
    assert run_page(write(tmp_path, *TABLE, "| a | text, `done.append(x)`, `1 in done or x` |")) == 1
    other = ["", "| in sash | elsewhere |", "|---|---|", "| `1 / 0` | `1 / 0` |"]
    assert run_page(write(tmp_path, *TABLE, *other)) == 1
    for code in ("1 / 0", "x = 4", "unknown"):
        with pytest.raises(pytest.fail.Exception, match=f"`{code}` of a table raised"):
            run_page(write(tmp_path, *TABLE, f"| b | `x`, `{code}` |"))


def test_a_class_of_a_page_knows_its_module(tmp_path: Path) -> None:
    page = write(
        tmp_path,
        "```python",
        "import dataclasses, sys",
        "@dataclasses.dataclass",
        "class A:",
        "    x: 'int'",
        "assert sys.modules[A.__module__].A is A",
        "```",
    )
    assert run_page(page) == 1


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["text", "```python", "x = 1", "assert x == 2", "```"], r'page\.md", line 4.*\n.*assert x == 2'),
        (["```python", "import pytest", "pytest.skip('no')", "```"], r'page\.md", line 3(.*\n)*.*Skipped: no'),
        (["```python", "x = (", "```"], r"page\.md:2: .*\n(.*\n)*SyntaxError"),
        (["", "```python", ">>> 1 + 1", "2", ">>> 1 + 1", "3", "```"], r'page\.md", line 5(.*\n)+Got:\n    2'),
        (["```python", ">>> 1 / 0", "```"], r'page\.md", line 2(.*\n)+.*ZeroDivisionError'),
        (["```python", ">>> 1 / 0  # doctest: +SKIP", "```"], r"page\.md:2: a skipped example"),
        (["```python", "x = 1"], r"page\.md:1: a fence that is never closed"),
        (["> ```python", "> 1 / 0", "> ```"], r"page\.md:1: a Python fence that is not understood"),
        (["```{.python}", "1 / 0", "```"], r"page\.md:1: a Python fence that is not understood"),
        (
            ["```python", "print(1)", "```", "```output", "2", "```"],
            r"page\.md:5: the page shows\n2\nbut the code printed\n1$",
        ),
        (["```python", "print(' 1')", "```", "```output", "1", "```"], r"shows\n1\nbut the code printed\n 1$"),
        (["```python", "print(1)", "```", "```output", "```"], r"shows\n\nbut the code printed\n1$"),
        (
            ["```python", "print(1)", "```", "text", "```output", "1", "```"],
            r"page\.md:5: an output block must directly",
        ),
        (
            ["```python", "print(1)", "```", "```sh", "```", "```output", "1", "```"],
            r"page\.md:6: an output block must",
        ),
        (
            ["```python", "print(1)", "```", *["```output", "1", "```"] * 2],
            r"page\.md:7: an output block must directly",
        ),
        (
            ["```python", ">>> print(1)", "1", "```", "```output", "1", "```"],
            r"page\.md:5: an output block must directly",
        ),
        (["```output", "```"], r"page\.md:1: an output block must directly"),
    ],
)
def test_a_failing_block_fails(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(pytest.fail.Exception, match=message):
        run_page(write(tmp_path, *lines))


def test_doc_code_warnings_are_errors(tmp_path: Path) -> None:
    page = write(tmp_path, "```python", "import warnings", "warnings.warn('old')", "```")
    with pytest.raises(pytest.fail.Exception, match="UserWarning: old"):
        run_page(page)


def test_broken_links_are_found(tmp_path: Path) -> None:
    page = write(
        tmp_path,
        "# A `page`: its links, and more_of_it",
        "```text",
        "# not a heading",
        "[not a link](nowhere.md)",
        "```",
        "[itself](#a-page-its-links-and-more_of_it) [itself](page.md) [elsewhere](https://example.org/no)",
        "[no](#not-a-heading) [file](nowhere.md) [directory](.)",
        "[heading](page.md#nothing)",
    )
    assert broken_links(page) == ["#not-a-heading", "nowhere.md", "page.md#nothing"]
