"""The live page in chromium: its values, keyboard, screen reader, themes, hostile names, and lost connections."""

from __future__ import annotations

import json
import math
import re
import shutil
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.cli.page import watched_operator
from sash.cli.page.page_server import PageRequest
from tests.interpreted import interpret_kernels

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

try:
    from playwright.sync_api import expect, sync_playwright
except ImportError:
    sync_playwright = None

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on this machine: apt install chromium"),
    pytest.mark.skipif(sync_playwright is None, reason="playwright is not installed: pip install 'sash[dev]'"),
]

HOSTILE = "<img src=x onerror=\"document.title='taken'\">"
KEYS = ["AAPL", HOSTILE, "MSFT", "日本"]
NAME = "<b>trades</b> & more"
QUERY = sash.Query(
    {"short": sash.Time("2s"), "long": sash.Time("20s")},
    by="symbol",
    on="ts",
    lateness="1s",
    high=sash.max("price"),
    n=sash.count(),
)


def rows(start: int, count: int) -> pa.RecordBatch:
    seconds = [*range(start, start + count)]
    return pa.record_batch(
        {
            "symbol": [KEYS[i % len(KEYS)] for i in seconds],
            "ts": pa.array([1_700_000_000 + i // 4 for i in seconds], pa.timestamp("s")),
            "price": [100.0 + i % 17 for i in seconds],
        }
    )


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    expect.set_options(timeout=15_000)
    with sync_playwright() as driver:
        made = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield made
        made.close()


@pytest.fixture(scope="module")
def live() -> Iterator[Any]:
    """A page with an operator that has taken some rows, one of them late, and a second query."""
    with pytest.MonkeyPatch.context() as patch:
        interpret_kernels(patch)
        patch.setattr(watched_operator, "ALLOWANCE", math.inf)
        op, other = QUERY.operator(), sash.Query(2, n=sash.count()).operator()
        with sash.live_page() as page:
            page._server.period = 0.05
            page.watch(op, NAME)
            page.watch(other, "second")
            op.process(rows(0, 100))
            op.process(rows(0, 1))
            other.process({"x": [1, 2, 3]})
            page.operator = op
            yield page


@pytest.fixture(scope="module")
def tab(browser: Any) -> Iterator[Any]:
    with browser.new_context() as context:
        page = context.new_page()
        page.problems = []
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        page.on("console", lambda message: message.type == "error" and page.problems.append(message.text))
        yield page


@pytest.fixture
def opened(tab: Any, live: Any) -> Iterator[Any]:
    """The page, freshly loaded. It must have no error when the test ends."""
    tab.set_viewport_size({"width": 1200, "height": 900})
    tab.goto(live.url)
    expect(tab.locator("#keys option")).to_have_count(len(KEYS))
    yield tab
    assert tab.problems == []


def figure(page: Any, name: str) -> str:
    return str(page.locator(f"#figure-{name} dd").first.inner_text())


def test_the_values_are_those_of_the_operator(opened: Any, live: Any) -> None:
    for _ in range(2):
        metrics = live.operator.metrics
        expect(opened.locator("#figure-rows-in dd").first).to_have_text(f"{metrics.rows_in:,}")
        assert figure(opened, "rows-out") == f"{metrics.rows_out:,}"
        assert figure(opened, "late") == "1"
        assert figure(opened, "keys") == str(metrics.keys) == "4"
        assert "years" in figure(opened, "lag")
        assert opened.locator("#figure-lag .note").inner_text() == live.figures()[0]["watermark"]
        assert re.fullmatch(r"[\d.]+ (µs|ms|s)", opened.locator("#latency-p99 span").inner_text())
        live.operator.process(rows(int(metrics.rows_in), 1))
    assert "token" not in opened.url
    assert opened.evaluate("document.cookie") == ""
    assert opened.locator("#figure-malformed").is_hidden()


def test_results_of_a_key_are_chosen_by_keyboard(opened: Any, live: Any) -> None:
    """Tab reaches the list, arrows choose in it; chart and table have the results of that key."""
    keys = opened.get_by_role("listbox", name="Keys of the newest results")
    opened.get_by_label("Find a key").focus()
    opened.keyboard.press("Tab")
    expect(keys).to_be_focused()
    options = keys.locator("option").all_inner_texts()
    assert sorted(options) == sorted(KEYS)
    keys.press("Home")
    for name in options[1:]:
        opened.keyboard.press("ArrowDown")
        expect(opened.locator("#chart-title")).to_have_text(f"high_short of {name}")
    opened.keyboard.press("Tab")
    expect(opened.get_by_label("Column")).to_be_focused()
    opened.get_by_label("Column").select_option("n_long")
    expect(opened.locator("#chart-title")).to_have_text(f"n_long of {name}")

    found = live._board.results(NAME, json.dumps([name]))
    values = [row[found["columns"].index("n_long")] for row in found["rows"]]
    chart = opened.locator("#chart")
    chart.focus()
    opened.keyboard.press("End")
    expect(opened.locator("#point")).to_have_text(re.compile(rf"^2023-.*: n_long {values[-1]}$"))
    opened.keyboard.press("ArrowLeft")
    opened.keyboard.press("ArrowLeft")
    expect(opened.locator("#point")).to_have_text(re.compile(rf": n_long {values[-3]}$"))
    expect(opened.locator("#chart path")).to_have_count(1)
    assert opened.locator("#chart circle").count() >= len(values)

    opened.get_by_text("The same as a table").click()
    table = opened.locator("#table table")
    expect(table.locator("th")).to_have_text(found["columns"])
    expect(table.locator("tbody tr")).to_have_count(len(values))
    expect(table.locator("tbody tr").first.locator("td").last).to_have_text(str(values[-1]))


def test_a_key_is_found_by_its_letters(opened: Any) -> None:
    opened.get_by_label("Find a key").fill("msf")
    chosen = opened.locator("#keys option").all_inner_texts()
    assert "MSFT" in chosen
    assert len(chosen) <= 2  # the chosen one stays
    opened.get_by_label("Find a key").fill("")
    expect(opened.locator("#keys option")).to_have_count(len(KEYS))


def test_hostile_names_are_shown_as_text(opened: Any) -> None:
    expect(opened.locator("h1 #name")).to_have_text(NAME)
    opened.locator("#keys").select_option(label=HOSTILE)
    expect(opened.locator("#chart-title")).to_have_text(f"high_short of {HOSTILE}")
    assert opened.title().startswith(NAME)
    assert opened.locator("img[src=x], h1 b, nav b").count() == 0


def test_the_plan_is_a_picture_with_a_text(opened: Any, live: Any) -> None:
    expect(opened.locator("#picture svg:not(.narrow)")).to_be_visible()
    names = opened.locator("#picture svg:not(.narrow) .plan-name").all_text_contents()
    assert names == ["short", "long", "high", "n"]
    plan = QUERY.explain(live.operator.schema)
    expect(opened.locator("#plan-text")).to_have_text(plan, use_inner_text=False)


def test_a_narrow_screen_shows_the_whole_plan_and_keys_are_sorted(opened: Any) -> None:
    wide, narrow = opened.locator("#picture svg:not(.narrow)"), opened.locator("#picture svg.narrow")
    expect(wide).to_be_visible()
    expect(narrow).to_be_hidden()
    opened.set_viewport_size({"width": 390, "height": 900})
    expect(narrow).to_be_visible()
    expect(wide).to_be_hidden()
    for screen in (390, 800):
        opened.set_viewport_size({"width": screen, "height": 900})
        cut = "() => { const box = document.querySelector('#picture'); return box.scrollWidth - box.clientWidth; }"
        assert opened.evaluate(cut) <= 0
    assert opened.locator("#keys option").all_inner_texts() == [HOSTILE, "AAPL", "MSFT", "日本"]


def test_lines_are_steps(opened: Any) -> None:
    """A result holds until the next one: no line goes through values that were none."""
    path = opened.locator("#chart path").first.get_attribute("d")
    assert re.fullmatch(r"M[\d.]+ [\d.]+(H[\d.]+V[\d.]+)+", path)


def test_several_queries(opened: Any) -> None:
    opened.get_by_role("navigation", name="Queries").get_by_role("button", name="second").press("Enter")
    expect(opened.locator("h1 #name")).to_have_text("second")
    expect(opened.locator("#figure-rows-in dd").first).to_have_text("3")
    expect(opened.locator("#chart-title")).to_have_text("n of all rows")
    expect(opened.locator("#key-choice")).to_be_hidden()
    expect(opened.locator("nav button[aria-current=true]")).to_have_text(["second"])


def test_a_screen_reader_finds_landmarks_headings_and_labels(opened: Any) -> None:
    tree = opened.locator("body").aria_snapshot()
    for wanted in (
        "- banner:",
        '- navigation "Queries":',
        "- main:",
        "- heading ",
        '- region "Figures":',
        '- region "Newest results":',
        '- region "Plan":',
        '- searchbox "Find a key"',
        '- listbox "Keys of the newest results":',
        '- combobox "Column"',
        'img "Plan: rows go through short, long; high by TwoStacksLite; n by SubtractOnEvict"',
        "- status:",
        "- term: Rows in",
    ):
        assert wanted in tree, f"{wanted}\n{tree}"
    assert opened.locator("[aria-live]").count() >= 3
    assert opened.locator("html").get_attribute("lang") == "en"
    levels = opened.evaluate("[...document.querySelectorAll('h1, h2')].map((one) => one.tagName)")
    assert levels == ["H1", "H2", "H2", "H2"]


def test_every_control_is_reached_by_tab_and_shows_its_focus(opened: Any) -> None:
    reached = []
    opened.locator("body").press("Tab")
    for _ in range(30):
        found = opened.evaluate(
            "(() => { const one = document.activeElement, style = getComputedStyle(one);"
            " const name = one === document.body ? '' : one.id || one.className || one.textContent;"
            " return [name, style.outlineStyle, style.outlineWidth]; })()"
        )
        if not found[0]:  # behind the last one
            break
        reached.append(found)
        opened.keyboard.press("Tab")
    names = [name for name, *_ in reached]
    assert names[:3] == ["skip", NAME, "second"]
    assert {"filter", "keys", "measure", "chart", "picture"} <= {*names}
    assert all(style != "none" and width != "0px" for name, style, width in reached if name != "skip"), reached


LUMINANCE = """(selector) => {
  const parse = (text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = (rgb) => {
    const [r, g, b] = rgb.map((v) => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const one = document.querySelector(selector);
  let ground = one;
  while (/, 0\\)$|transparent/.test(getComputedStyle(ground).backgroundColor)) ground = ground.parentElement;
  const [a, b] = [parse(getComputedStyle(one).color), parse(getComputedStyle(ground).backgroundColor)].map(light);
  return { ground: b, contrast: (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) };
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_light_and_dark(opened: Any, theme: str) -> None:
    """The page follows the system, and texts have the contrast that WCAG AA asks for."""
    opened.emulate_media(color_scheme=theme)
    for selector in (
        "h1",
        "dt",
        "dd",
        "dd.note",
        "dd.warn",
        "h2",
        "summary",
        "label",
        "#connection",
        "nav button",
        "#state",
    ):
        found = opened.evaluate(LUMINANCE, selector)
        assert found["contrast"] >= 4.5, (selector, found)
        assert (found["ground"] > 0.5) == (theme == "light")


def test_a_narrow_page_does_not_scroll_sideways(opened: Any) -> None:
    opened.set_viewport_size({"width": 360, "height": 700})
    assert opened.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_page_without_the_token_is_refused(browser: Any, live: Any) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        for address in (live.url.partition("?")[0], live.url + "x"):
            assert page.goto(address).status == 403
            assert "the token is missing or wrong" in page.inner_text("body")


def test_a_lost_connection_is_shown_and_a_page_comes_back(browser: Any) -> None:
    """The figures stay, with a notice; the page that is served again on the same port has another token."""
    op = sash.Query(2, n=sash.count()).operator()
    with browser.new_context() as context:
        page = context.new_page()
        with sash.live_page(op) as served:
            served._server.period = 0.05
            page.goto(served.url)
            expect(page.locator("#connection")).to_have_text("live")
            expect(page.locator("#state")).to_have_text("running")
        expect(page.get_by_role("alert")).to_have_text("The program has ended. These are its last figures.")
        expect(page.locator("#state")).to_have_text("ended")
        expect(page.locator("#figure-rows-in dd").first).to_have_text("0")
        with sash.live_page(port=served.port) as served:
            expect(page.get_by_role("alert")).to_contain_text("The server refuses this page: the token is missing")
            page.goto(served.url)
            expect(page.locator("#empty")).to_contain_text("No query is running")


def test_a_connection_that_breaks_off_is_shown(browser: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the program is killed: there is no last event. The page continues when the server is back."""
    cut = threading.Event()

    def send_events(request: Any) -> None:
        request.wfile.write(b'retry: 100\n\nevent: queries\ndata: {"queries": []}\n\n')
        cut.wait()

    with browser.new_context() as context:
        page = context.new_page()
        served = sash.live_page()
        with monkeypatch.context() as patch:
            patch.setattr(PageRequest, "_send_events", send_events)
            page.goto(served.url)
            expect(page.locator("#connection")).to_have_text("live")
            served._server.shutdown()
            served._server.server_close()
            cut.set()
            expect(page.get_by_role("alert")).to_have_text(
                "The connection is lost. These are the last figures; reconnecting."
            )
            expect(page.locator("#connection")).to_have_text("not connected")
        with sash.live_page(port=served.port) as again:
            again._access.token = served._access.token
            expect(page.locator("#connection")).to_have_text("live")
            expect(page.get_by_role("alert")).to_have_count(0)


def test_more_pages_than_streams_are_updated_without_events(browser: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    op = sash.Query(2, n=sash.count()).operator()
    with browser.new_context() as context, sash.live_page(op) as served:
        monkeypatch.setattr(served._server, "_streams", threading.BoundedSemaphore(1))
        with served._server.stream():
            page = context.new_page()
            page.goto(served.url)
            expect(page.get_by_role("alert")).to_contain_text("Many pages are open")
            expect(page.locator("#figure-rows-in dd").first).to_have_text("0")
