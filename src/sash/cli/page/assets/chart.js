// A line chart as SVG: values over time or order, one line for each window; read by pointer or arrow keys.
const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 250, TOP = 10, BOTTOM = 26, RIGHT = 12, SERIES = 6;

export function element(name, attributes = {}, text = "") {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  return made;
}

export function format(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return typeof value === "object" ? JSON.stringify(value) : String(value);
  if (Number.isInteger(value)) return value.toLocaleString("en");
  const size = Math.abs(value);
  if (size >= 1e12 || size < 1e-4) return value.toExponential(3);
  return value.toLocaleString("en", { maximumFractionDigits: size >= 1000 ? 1 : size >= 1 ? 3 : 6 });
}

export function formatPosition(value, kind, wide = 0) {
  if (kind !== "time") return format(value);
  const text = new Date(value).toISOString();
  if (!wide) return text.replace("T", " ").replace(".000Z", "").replace("Z", "");
  if (wide > 3 * 864e5) return text.slice(0, 10);
  return wide > 6e5 ? text.slice(5, 16).replace("T", " ") : wide > 3e3 ? text.slice(11, 19) : text.slice(14, 23);
}

// Round numbers that divide a range into some steps.
function ticks(low, high, steps) {
  if (!(high > low)) return [low];
  const rough = (high - low) / steps, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5].find((factor) => factor * power >= rough) ?? 10);
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) found.push(Math.abs(at) < step * 1e-9 ? 0 : at);
  return found;
}

function timeTicks(low, high, count) {
  const units = [1, 10, 100, 1e3, 5e3, 15e3, 6e4, 3e5, 9e5, 36e5, 216e5, 864e5, 7 * 864e5, 30 * 864e5, 365 * 864e5];
  const step = units.find((unit) => (high - low) / unit <= count) ?? (high - low) / count;
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high; at += step) found.push(at);
  return found;
}

export class Chart {
  constructor(place, output) {
    this.place = place;
    this.output = output;
    this.points = [];
    this.at = -1;
    place.addEventListener("keydown", (event) => this.press(event));
    place.addEventListener("pointermove", (event) => this.hover(event));
    place.addEventListener("pointerleave", () => this.read(-1));
    place.addEventListener("blur", () => this.read(-1));
    new ResizeObserver(() => this.draw()).observe(place);
  }

  // data: { points: [{x, y, series}], names: [series], kind, measure }
  show(data) {
    const before = this.points[this.at];
    this.data = data;
    this.points = data.points.filter((point) => Number.isFinite(point.x) && Number.isFinite(point.y));
    this.at = before ? this.points.findIndex((point) => point.x === before.x && point.series === before.series) : -1;
    this.draw();
  }

  draw() {
    const width = Math.max(this.place.clientWidth, 200);
    if (!this.data || this.place.clientWidth === 0) return;
    const svg = element("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, "aria-hidden": "true" });
    if (!this.points.length) {
      svg.append(element("text", { x: width / 2, y: HEIGHT / 2, "text-anchor": "middle" }, "no values yet"));
      this.place.replaceChildren(svg);
      return;
    }
    const xs = this.points.map((point) => point.x), ys = this.points.map((point) => point.y);
    let [low, high] = [Math.min(...ys), Math.max(...ys)];
    const slack = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
    [low, high] = [low - slack, high + slack];
    const [first, last] = [Math.min(...xs), Math.max(...xs)];
    const marks = ticks(low, high, 5), left = 14 + 7 * Math.max(...marks.map((mark) => format(mark).length));
    const inner = width - left - RIGHT;
    this.x = (x) => left + (last > first ? ((x - first) / (last - first)) * inner : inner / 2);
    this.y = (y) => TOP + (1 - (y - low) / (high - low)) * (HEIGHT - TOP - BOTTOM);
    for (const mark of marks) {
      const y = this.y(mark);
      svg.append(element("line", { x1: left, x2: width - RIGHT, y1: y, y2: y, class: "grid" }));
      svg.append(element("text", { x: left - 8, y: y + 4, "text-anchor": "end" }, format(mark)));
    }
    const count = Math.max(Math.floor(inner / 120), 1);
    for (const mark of this.data.kind === "time" ? timeTicks(first, last, count) : ticks(first, last, count)) {
      const label = formatPosition(mark, this.data.kind, last - first);
      const x = Math.min(Math.max(this.x(mark), left + 20), width - RIGHT - 4 * label.length + 8);
      svg.append(element("text", { x, y: HEIGHT - 6, "text-anchor": "middle" }, label));
    }
    this.data.names.forEach((name, number) => {
      const line = this.points.filter((point) => point.series === name);
      // steps: between two results the older one holds, and there are no values between them
      const path = line.map((point, i) => (i ? `H${this.x(point.x).toFixed(1)}V` : `M${this.x(point.x).toFixed(1)} `) + this.y(point.y).toFixed(1)).join("");
      svg.append(element("path", { d: path, class: style(number) }));
      if (line.length && line.length <= 60) {
        for (const point of line) svg.append(element("circle", { cx: this.x(point.x), cy: this.y(point.y), r: 2.5, class: style(number) }));
      }
    });
    this.cursor = element("g");
    svg.append(this.cursor);
    this.place.replaceChildren(svg);
    this.width = width;
    this.mark();
  }

  mark() {
    const point = this.points[this.at];
    if (!this.cursor) return;
    this.cursor.replaceChildren();
    if (!point) return;
    const x = this.x(point.x), number = this.data.names.indexOf(point.series);
    this.cursor.append(element("line", { x1: x, x2: x, y1: TOP, y2: HEIGHT - BOTTOM, class: "cursor" }));
    this.cursor.append(element("circle", { cx: x, cy: this.y(point.y), r: 5, class: style(number) }));
  }

  read(at) {
    this.at = at;
    const point = this.points[at];
    const place = point && (this.data.kind === "order" ? `result ${point.x + 1}` : formatPosition(point.x, this.data.kind));
    this.output.textContent = point
      ? `${place}: ${this.data.measure} ${format(point.y)}${point.series ? ` (${point.series})` : ""}`
      : "";
    this.mark();
  }

  press(event) {
    const end = this.points.length - 1;
    const to = { ArrowLeft: Math.max((this.at < 0 ? end + 1 : this.at) - 1, 0), ArrowRight: Math.min(this.at + 1, end), Home: 0, End: end }[event.key];
    if (to === undefined || end < 0) return;
    event.preventDefault();
    this.read(to);
  }

  hover(event) {
    if (!this.points.length || !this.x) return;
    const box = this.place.getBoundingClientRect(), scale = this.width / box.width;
    const x = (event.clientX - box.left) * scale, y = (event.clientY - box.top) * scale;
    let best = -1, least = Infinity;
    this.points.forEach((point, i) => {
      const away = Math.abs(this.x(point.x) - x) + Math.abs(this.y(point.y) - y) / 50;
      if (away < least) [best, least] = [i, away];
    });
    this.read(best);
  }
}

export function style(number) {
  return `s${(number % SERIES) + 1}${number >= SERIES ? " dash" : ""}`;
}
