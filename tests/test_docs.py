"""Every Python block of the documentation runs.

The blocks of a page run in order and share one namespace. A block with prompts is a doctest, any other is
executed as it stands. A block of the language `output` directly after one that is executed has what that one prints:
readers can copy the code without prompts. In tables whose last column is headed "in sash", the code of that column is
evaluated, after all blocks. Blocks of SQL and TOML in recipes give the rows of the Python block above them
(`tests/shared/recipe_blocks.py`). No Python block can be left out: a fence that is not understood, and a
doctest's `+SKIP`, fail the page.
"""

import contextlib
import doctest
import io
import re
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.interpreted import switch_off
from tests.shared.effort import THOROUGH
from tests.shared.recipe_blocks import LANGUAGES, RecipeBlocks, unsaid

ROOT = Path(__file__).resolve().parents[1]
PAGES = ["README.md", *(name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md") if (ROOT / name).exists())]
PAGES += sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("**/*.md"))

RECIPES = ROOT / "docs" / "recipes"
PYTHON = frozenset({"py", "pycon", "python", "python3"})
OUTPUT = "output"
FENCE = re.compile(r"(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})[ \t]*(?P<info>[^`]*)")
HEADING = re.compile(r"#{1,6}[ \t]+(.+)")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
ODD_FENCE = re.compile(r"(`{3,}|~{3,})[ \t]*\{?\.?(py|python)", re.IGNORECASE)
PROMPT = re.compile(r"^[ \t]*>>>", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """The text between two fences, and the number of its first line, from 1.

    `adjacent` is whether nothing but blank lines lie between it and the block before it.
    """

    language: str
    source: str
    line: int
    adjacent: bool = False


def blocks(text: str, page: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order, of all languages."""
    opening: re.Match[str] | None = None
    body: list[str] = []
    start, adjacent = 0, False
    for number, line in enumerate(text.splitlines(), 1):
        if opening is None:
            opening = FENCE.fullmatch(line)
            body, start = [], number + 1
            language = re.split(r"[\s,{]", opening["info"].strip().lower())[0] if opening else ""
            if ODD_FENCE.search(line) and language not in PYTHON:
                pytest.fail(f"{page}:{number}: a Python fence that is not understood: {line.strip()}", pytrace=False)
            adjacent = adjacent and (opening is not None or not line.strip())
        elif re.fullmatch(rf"[ \t]*{re.escape(opening['fence'])}{opening['fence'][0]}*[ \t]*", line):
            yield Block(language, "\n".join(body) + "\n", start, adjacent)
            opening, adjacent = None, True
        else:
            body.append(line.removeprefix(opening["indent"]))
    if opening is not None:
        pytest.fail(f"{page}:{start - 1}: a fence that is never closed", pytrace=False)


def run_doctest(block: Block, page: Path, module: ModuleType) -> None:
    # `DocTest` counts lines from 0, and works on a copy of the namespace.
    test = doctest.DocTestParser().get_doctest(block.source, vars(module), page.name, str(page), block.line - 1)
    for example in test.examples:
        if example.options.get(doctest.SKIP):
            pytest.fail(f"{page}:{block.line + example.lineno}: a skipped example", pytrace=False)
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(test, out=report.append, clear_globs=False)
    vars(module).update(test.globs)
    if report:
        pytest.fail("".join(report), pytrace=False)


def run_script(block: Block, page: Path, module: ModuleType) -> str:
    """Execute a block, and give what it printed."""
    # Blank lines in front make the page's line numbers those of the code, so that tracebacks quote the page.
    source = "\n" * (block.line - 1) + block.source
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(source, str(page), "exec", dont_inherit=True), vars(module))
    except KeyboardInterrupt:
        raise
    except BaseException:  # also what `pytest.skip` and `sys.exit` raise
        pytest.fail(f"{page}:{block.line}: the block that starts here raised\n{traceback.format_exc()}", pytrace=False)
    finally:
        sys.stdout.write(printed.getvalue())
    return printed.getvalue()


def check_output(block: Block, page: Path, printed: str | None) -> None:
    """Compare a block of output with what the block before it printed; trailing whitespace does not count."""
    if printed is None:
        message = "an output block must directly follow a Python block without prompts"
        pytest.fail(f"{page}:{block.line - 1}: {message}", pytrace=False)
    shown, got = ("\n".join(line.rstrip() for line in text.rstrip().splitlines()) for text in (block.source, printed))
    if shown != got:
        pytest.fail(f"{page}:{block.line}: the page shows\n{shown}\nbut the code printed\n{got}", pytrace=False)


def cells(line: str) -> list[str]:
    """The cells of a line of a table; none if it is something else."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]] if line.startswith("|") else []


def table_code(text: str) -> Iterator[str]:
    """The code in the last columns of tables that are headed "in sash"."""
    inside = False
    for line in prose(text):
        row = cells(line)
        inside = bool(row) and (inside or row[-1] == "in sash")
        if inside:
            yield from re.findall(r"`([^`]+)`", row[-1])


def evaluate(code: str, page: Path, module: ModuleType) -> None:
    try:
        eval(compile(code, str(page), "eval", dont_inherit=True), vars(module))
    except Exception:
        pytest.fail(f"{page}: `{code}` of a table raised\n{traceback.format_exc()}", pytrace=False)


def run_page(page: Path) -> int:
    """Run the Python blocks of `page`, compare their output where the page shows it, and give their number."""
    # A module that can be found by its name: classes and functions defined on a page are whole ones.
    module = ModuleType("page_" + re.sub(r"\W", "_", page.stem))
    sys.modules[module.__name__] = module
    count = 0
    printed: str | None = None  # by the last block, if it is one that was executed
    recipe = RecipeBlocks(module)
    try:
        for block in list(blocks(page.read_text("utf-8"), str(page))):
            if page.parent == RECIPES and block.language in LANGUAGES:
                check_recipe(block, page, recipe)
            if block.language == OUTPUT:
                check_output(block, page, printed if block.adjacent else None)
            printed = None
            if block.language in PYTHON:
                count += 1
                with recipe.recording() if page.parent == RECIPES else contextlib.nullcontext():
                    if PROMPT.search(block.source):
                        run_doctest(block, page, module)
                    else:
                        printed = run_script(block, page, module)
        for code in table_code(page.read_text("utf-8")):
            evaluate(code, page, module)
        return count
    finally:
        del sys.modules[module.__name__]


def check_recipe(block: Block, page: Path, recipe: RecipeBlocks) -> None:
    """Run a block of SQL or TOML beside the Python block above it."""
    try:
        recipe.check(block.language, block.source)
    except Exception:
        pytest.fail(f"{page}:{block.line}: the {block.language} block\n{traceback.format_exc()}", pytrace=False)


def prose(text: str) -> Iterator[str]:
    """The lines of a page outside its fences."""
    fence = ""
    for line in text.splitlines():
        found = re.match(r"[ \t]*(`{3,}|~{3,})", line)
        if found and not fence:
            fence = found[1]
        elif found and found[1].startswith(fence):
            fence = ""
        elif not fence:
            yield line


def anchors(text: str) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    titles = [found[1] for line in prose(text) if (found := HEADING.fullmatch(line))]
    return {re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-") for title in titles}


def broken_links(page: Path) -> list[str]:
    """The links of `page` to files that do not exist, and to headings that they do not have."""
    broken = []
    for link in LINK.findall("\n".join(prose(page.read_text("utf-8")))):
        if "://" in link or link.startswith("mailto:"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target.read_text("utf-8"))):
            broken.append(link)
    return broken


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a page writes, it writes to a directory of its own."""
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
    assert unsaid((RECIPES / page).read_text("utf-8")) == []


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
