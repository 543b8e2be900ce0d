// The live page: figures from server-sent events, results and plans on demand. Values become text, never markup.
import { Chart, element, format, style } from "/chart.js";

const at = (id) => document.getElementById(id);
const chart = new Chart(at("chart"), at("point"));
const state = { queries: [], name: null, key: null, measure: null, keys: [], plan: null, results: null, ended: false };

// ---- texts ----

function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const size = Math.abs(seconds);
  if (size < 1e-3) return `${(seconds * 1e6).toFixed(0)} µs`;
  if (size < 1) return `${(seconds * 1e3).toPrecision(3)} ms`;
  if (size < 120) return `${seconds.toPrecision(3)} s`;
  if (size < 7200) return `${(seconds / 60).toFixed(1)} min`;
  if (size < 172800) return `${(seconds / 3600).toFixed(1)} h`;
  return size < 6.3e7 ? `${(seconds / 86400).toFixed(1)} days` : `${(seconds / 31557600).toFixed(1)} years`;
}

function bytes(count) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let number = 0;
  for (; count >= 1000 && number < units.length - 1; number++) count /= 1000;
  return `${number ? count.toFixed(1) : count} ${units[number]}`;
}

function keyLabel(text) {
  const values = JSON.parse(text);
  return values.length ? values.map((value) => (value === null ? "null" : format1(value))).join(", ") : "all rows";
}

const format1 = (value) => (typeof value === "object" ? JSON.stringify(value) : String(value));

// ---- figures ----

const FIGURES = [
  ["rows-per-second", "Rows per second", (q) => format(Math.round(q.rows_per_second))],
  ["rows-in", "Rows in", (q) => format(q.rows_in)],
  ["rows-out", "Rows out", (q) => format(q.rows_out)],
  ["lag", "Watermark lag", lag, (q) => q.watermark ?? (q.lag === null ? "" : `behind the ${q.lag_of}`)],
  ["late", "Late rows", (q) => format(q.late), (q) => (q.untimed ? `${format(q.untimed)} untimed` : "")],
  ["malformed", "Malformed rows", (q) => format(q.malformed)],
  ["keys", "Keys", (q) => format(q.keys)],
  ["state", "State", (q) => bytes(q.state_bytes), (q) => `${format(q.elements)} elements`],
];

function lag(query) {
  if (query.finished && query.lag === null) return "closed";
  if (query.lag !== null) return query.lag_unit === "s" ? duration(query.lag) : format(query.lag);
  return query.watermark === null ? "–" : query.watermark;
}

function card(id, label) {
  const made = document.createElement("div"), title = document.createElement("dt");
  made.id = `figure-${id}`;
  title.textContent = label;
  made.append(title);
  at("figures").append(made);
  return made;
}

function add(place, kind = "") {
  const made = document.createElement("dd");
  if (kind) made.className = kind;
  place.append(made);
  return made;
}

const shown = FIGURES.map(([id, label, value, note]) => {
  const place = card(id, label);
  return { id, value, note, place, text: add(place), more: note && add(place, "note") };
});
const first = at("figure-rows-per-second");
first.classList.add("wide");
const spark = element("svg", { class: "spark", viewBox: "0 0 240 34", preserveAspectRatio: "none", "aria-hidden": "true" });
spark.append(element("path"));
first.append(add(first, "note"));
first.lastChild.append(spark);
const calls = card("latency", "Latency");
calls.classList.add("wide");
const percentiles = add(calls, "percentiles"), counted = add(calls, "note");
for (const name of ["p50", "p90", "p99", "max"]) {
  const one = document.createElement("span"), title = document.createElement("small"), value = document.createElement("span");
  [one.id, title.textContent] = [`latency-${name}`, name];
  one.append(title, value);
  percentiles.append(one);
}

function setText(place, text) {
  if (place.textContent !== text) place.textContent = text;
}

function drawFigures(query) {
  for (const { id, value, note, place, text, more } of shown) {
    const known = query[id.replaceAll("-", "_")] !== null || id === "lag" || id === "state";
    place.hidden = !known;
    if (!known) continue;
    setText(text, value(query));
    if (more) {
      setText(more, id === "lag" && query.lag === null ? "" : note(query));
      more.hidden = !more.textContent;
    }
    if (id === "late" || id === "malformed") text.classList.toggle("warn", query[id] > 0);
  }
  at("figures").classList.toggle("six", query.malformed !== null);
  setText(at("figure-lag").firstChild, query.lag === null && query.watermark !== null ? "Watermark" : "Watermark lag");
  for (const name of ["p50", "p90", "p99", "max"]) setText(at(`latency-${name}`).lastChild, duration(query.latency[name]));
  const what = query.kind === "spark" ? "micro-batches" : "calls";
  const { compiling, compiling_seconds } = query.latency;
  const without = compiling ? `, without ${compiling === 1 ? "the first" : `${format(compiling)} that compiled`}: ${duration(compiling_seconds)}` : "";
  setText(counted, `of ${format(query.latency.count)} ${what}${without}`);
  const most = Math.max(...query.rates.map(([, rate]) => rate), 1e-9), oldest = query.rates[0]?.[0] || 1;
  const path = query.rates.map(([ago, rate], i) => `${i ? "L" : "M"}${(240 * (1 - ago / oldest)).toFixed(1)} ${(32 - 30 * (rate / most)).toFixed(1)}`);
  spark.firstChild.setAttribute("d", path.join(""));
}

// ---- queries ----

function drawQueries() {
  const list = at("queries").firstElementChild;
  const names = state.queries.map((query) => query.name);
  if (!names.includes(state.name)) choose(names[0] ?? null);
  at("queries").hidden = names.length < 2;
  if (list.dataset.names !== JSON.stringify(names)) {
    list.dataset.names = JSON.stringify(names);
    const focused = document.activeElement?.dataset?.name;
    list.replaceChildren(...names.map((name) => {
      const item = document.createElement("li"), button = document.createElement("button");
      button.type = "button";
      button.textContent = button.title = button.dataset.name = name;
      button.addEventListener("click", () => { choose(name); draw(); });
      item.append(button);
      return item;
    }));
    if (focused) [...list.querySelectorAll("button")].find((one) => one.dataset.name === focused)?.focus();
  }
  for (const button of list.querySelectorAll("button")) button.setAttribute("aria-current", String(button.dataset.name === state.name));
}

function choose(name) {
  if (state.name === name) return;
  Object.assign(state, { name, key: null, measure: null, keys: [], plan: null, results: null });
  at("filter").value = "";
  at("keys").replaceChildren();
  at("measure").replaceChildren();
  at("plan").hidden = true;
}

function draw() {
  drawQueries();
  const query = state.queries.find((one) => one.name === state.name);
  at("empty").hidden = Boolean(query);
  at("query").hidden = !query;
  if (!query) return;
  document.title = `${query.name} – sash`;
  setText(at("name"), query.name);
  setText(at("kind"), query.kind);
  setText(at("state"), query.finished ? "finished" : state.ended ? "ended" : "running");
  at("state").dataset.state = at("state").textContent;
  at("problem").hidden = !query.problem;
  setText(at("problem"), query.problem && `This page has missed results. ${query.problem}`);
  drawFigures(query);
  if (query.has_plan && state.plan !== query.name) loadPlan(query.name);
  if (!query.has_results) {
    at("no-results").hidden = false;
    setText(at("no-results"), "Spark writes the results of a stream to its sink; this page shows only the figures.");
    document.querySelector(".results").hidden = true;
  } else if (query.rows_out !== state.results || !state.keys.length) {
    loadResults(query);
  }
}

// ---- plan ----

async function get(path) {
  const response = await fetch(path, { cache: "no-store" });
  if (!response.ok) throw new Error((await response.text()).trim());
  return response.json();
}

const api = (name, what) => `/api/queries/${encodeURIComponent(name)}/${what}`;

async function loadPlan(name) {
  state.plan = name;
  try {
    const plan = await get(api(name, "plan"));
    if (state.name !== name || !plan.svg) return;
    const parsed = new DOMParser().parseFromString(plan.svg, "image/svg+xml").documentElement;
    const narrow = new DOMParser().parseFromString(plan.narrow, "image/svg+xml").documentElement;
    at("picture").replaceChildren(document.importNode(parsed, true), document.importNode(narrow, true));
    at("plan-text").textContent = plan.text;
    at("plan").hidden = false;
  } catch {
    state.plan = null; // the next event tries again
  }
}

// ---- results ----

async function loadResults(query) {
  if (state.loading || state.ended) return;
  state.loading = true;
  try {
    const { keys } = await get(api(query.name, "keys"));
    if (state.name !== query.name) return;
    state.keys = keys;
    if (state.key === null && keys.length) state.key = keys[0];
    drawKeys();
    const empty = state.key === null;
    at("no-results").hidden = !empty;
    document.querySelector(".results").hidden = empty;
    if (empty) {
      setText(at("no-results"), "No results yet: they are emitted when the watermark has passed their windows.");
      return;
    }
    await loadKey();
    state.results = query.rows_out;
  } catch {
    // the connection is lost, which the events report
  } finally {
    state.loading = false;
  }
}

async function loadKey() {
  const { name, key } = state;
  const { results } = await get(api(name, `results?key=${encodeURIComponent(key)}`));
  if (results && state.name === name && state.key === key) drawResults(results);
}

function drawKeys() {
  const select = at("keys"), wanted = at("filter").value.toLowerCase();
  const order = [...select.options].map((option) => option.value);
  const known = state.key === null ? state.keys : [...new Set([...state.keys, state.key])];
  const all = known.filter((key) => key === state.key || keyLabel(key).toLowerCase().includes(wanted));
  all.sort((a, b) => COLLATOR.compare(keyLabel(a), keyLabel(b)));
  if (JSON.stringify(order) !== JSON.stringify(all)) {
    select.replaceChildren(...all.map((key) => {
      const option = document.createElement("option");
      option.value = key;
      option.textContent = keyLabel(key);
      return option;
    }));
  }
  select.value = state.key ?? "";
  at("key-choice").hidden = all.length === 1 && all[0] === "[]";
}

function drawResults(results) {
  const select = at("measure");
  if (JSON.stringify([...select.options].map((option) => option.value)) !== JSON.stringify(results.measures)) {
    select.replaceChildren(...results.measures.map((name) => new Option(name, name)));
  }
  if (!results.measures.includes(state.measure)) state.measure = results.measures[0] ?? null;
  select.value = state.measure ?? "";
  state.drawn = results;
  drawChart(results);
  drawTable(results);
}

function drawChart(results) {
  const column = results.columns.indexOf(state.measure), series = results.columns.indexOf(results.series);
  const points = results.rows.map((row, i) => ({ x: results.positions[i], y: row[column] === null ? NaN : Number(row[column]), series: series < 0 ? "" : String(row[series]) }));
  if (results.axis_kind !== "order") points.sort((a, b) => a.x - b.x);
  const names = [...new Set(points.map((point) => point.series))].sort();
  setText(at("chart-title"), `${state.measure ?? "results"} of ${keyLabel(state.key)}`);
  at("sample").hidden = !results.skipped;
  setText(at("sample"), `A sample: ${format(results.skipped)} results, of all keys, arrived too fast for this page.`);
  chart.show({ points, names, kind: results.axis_kind, measure: state.measure ?? "" });
  at("legend").hidden = names.length < 2;
  at("legend").replaceChildren(...names.map((name, number) => {
    const item = document.createElement("li"), line = element("svg", { viewBox: "0 0 24 8", "aria-hidden": "true" });
    line.append(element("path", { d: "M0 4H24", class: style(number) }));
    item.append(line, name);
    return item;
  }));
}

const COLLATOR = new Intl.Collator("en", { numeric: true });
const ROWS = 50;

function drawTable(results) {
  if (!at("table").open) return;
  const cell = (kind, value, isNumber) => {
    const made = document.createElement(kind);
    made.textContent = value;
    if (isNumber) made.className = "number";
    if (kind === "th") made.scope = "col";
    return made;
  };
  const isNumber = results.columns.map((name) => results.measures.includes(name));
  at("table").querySelector("thead tr").replaceChildren(...results.columns.map((name, i) => cell("th", name, isNumber[i])));
  at("table").querySelector("tbody").replaceChildren(...results.rows.slice(-ROWS).reverse().map((row) => {
    const made = document.createElement("tr");
    made.append(...row.map((value, i) => cell("td", typeof value === "number" && !isNumber[i] ? String(value) : format(value), isNumber[i])));
    return made;
  }));
}

at("keys").addEventListener("change", () => {
  state.key = at("keys").value;
  chart.read(-1);
  loadKey().catch(() => {});
});
at("filter").addEventListener("input", drawKeys);
at("measure").addEventListener("change", () => {
  state.measure = at("measure").value;
  if (state.drawn) drawChart(state.drawn);
});
at("table").addEventListener("toggle", () => state.drawn && drawTable(state.drawn));

// ---- events ----

function connected(kind, text, notice = "") {
  at("connection").dataset.state = kind;
  setText(at("connection"), text);
  at("notice").hidden = !notice;
  setText(at("notice"), notice);
}

const AGAIN = 2000;

// The server has refused events: show why, or the figures without events.
async function refused() {
  try {
    state.queries = (await get("/api/queries")).queries;
    draw();
    connected("live", "every 2 s", "Many pages are open: this one is updated every 2 seconds.");
  } catch (error) {
    if (!(error instanceof TypeError)) connected("lost", "refused", `The server refuses this page: ${error.message}`);
  }
}

function listen() {
  const events = new EventSource("/events");
  events.addEventListener("open", () => connected("live", "live"));
  events.addEventListener("queries", (event) => {
    state.queries = JSON.parse(event.data).queries;
    state.ended = false;
    draw();
  });
  events.addEventListener("end", (event) => {
    events.close();
    state.queries = JSON.parse(event.data).queries;
    state.ended = true;
    draw();
    connected("lost", "ended", "The program has ended. These are its last figures.");
    setTimeout(listen, AGAIN);
  });
  events.addEventListener("error", () => {
    if (!state.ended) connected("lost", "not connected", "The connection is lost. These are the last figures; reconnecting.");
    if (events.readyState !== EventSource.CLOSED) return;
    setTimeout(listen, AGAIN);
    refused();
  });
}

listen();
