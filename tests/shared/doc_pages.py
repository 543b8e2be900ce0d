"""Reads and runs pages of the documentation: their blocks, their output, the code of their tables, and their links."""

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

import pytest

from tests.shared.recipe_blocks import LANGUAGES, RecipeBlocks

ROOT = Path(__file__).resolve().parents[2]
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
    documented, got = (
        "\n".join(line.rstrip() for line in text.rstrip().splitlines()) for text in (block.source, printed)
    )
    if documented != got:
        pytest.fail(f"{page}:{block.line}: the page shows\n{documented}\nbut the code printed\n{got}", pytrace=False)


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
    """Run a block of SQL or TOML and compare it with the Python block above it."""
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
