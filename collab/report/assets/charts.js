// One chart: its curves as an SVG, its values at a step by pointer or keys.

const HEIGHT = 150;
const TALL = 200; // of a chart in a wide card
const MARGIN = { left: 44, right: 10, top: 8, bottom: 20 };
const APART = 4; // pixels between points of one step
const DOTS_UP_TO = 12;

function sum(values) {
  return values.reduce((total, value) => total + value, 0);
}

class Chart {
  constructor(panel, plot, legend, domain) {
    Object.assign(this, { panel, plot, legend, domain, width: 0 });
    this.shown = panel.series.filter((line) => line.style !== "thin");
    this.steps = [...new Set(panel.series.flatMap((line) => line.x))].sort((a, b) => a - b);
    this.at = this.steps.length - 1;
    plot.setAttribute("aria-valuemin", this.steps[0]);
    plot.setAttribute("aria-valuemax", this.steps.at(-1));
    plot.addEventListener("pointermove", (event) => this.point(event));
    plot.addEventListener("pointerleave", () => this.leave());
    plot.addEventListener("blur", () => this.leave());
    plot.addEventListener("focus", () => this.move(this.at));
    plot.addEventListener("keydown", (event) => this.key(event));
    this.digits = decimalsOf(this.range()[1] - this.range()[0]);
    this.say(null);
  }

  draw(width) {
    if (!width || width === this.width) return;
    this.width = width;
    const [low, high] = this.range();
    const bounded = this.panel.most !== null || this.panel.stacked;
    const ticks = bounded ? ticksUpTo(low, high, 4) : niceTicks(low, high, 4);
    const [first, last] = this.domain;
    const height = width > 520 ? TALL : HEIGHT;
    const inner = width - MARGIN.left - MARGIN.right;
    const depth = height - MARGIN.top - MARGIN.bottom;
    const bottom = Math.min(low, ticks[0]);
    const top = bounded ? high : Math.max(high, ticks.at(-1));
    this.x = (step) =>
      MARGIN.left + (last > first ? ((step - first) / (last - first)) * inner : inner / 2);
    this.y = (value) => MARGIN.top + depth * (1 - (value - bottom) / (top - bottom));
    const svg = s("svg", {
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": `${this.panel.title}, by ${this.panel.along}: ${this.told}`,
    });
    const right = width - MARGIN.right;
    const across = (kind, y) => svg.append(s("line", { class: kind, x1: MARGIN.left, x2: right, y1: y, y2: y }));
    const write = (text, x, y, anchor) => svg.append(s("text", { x, y, "text-anchor": anchor }, text));
    for (const tick of ticks) {
      across("grid", this.y(tick));
      write(axisLabel(tick, this.panel.unit, ticks), MARGIN.left - 7, this.y(tick) + 3.5, "end");
    }
    for (const step of stepTicks(first, last, Math.max(2, Math.floor(inner / 44)))) {
      const isLast = this.x(step) > right - 12;
      write(count(step), isLast ? right + 4 : this.x(step), height - 4, isLast ? "end" : "middle");
    }
    write(this.panel.along, 0, height - 4, "start");
    if (this.panel.most !== null) across("most", this.y(this.panel.most));
    if (this.panel.stacked) this.drawStack(svg);
    else this.panel.series.forEach((line) => this.drawLine(svg, line));
    const span = { y1: MARGIN.top, y2: height - MARGIN.bottom };
    this.cursor = s("line", { class: "cursor", visibility: "hidden", ...span });
    svg.append(this.cursor);
    this.plot.replaceChildren(svg);
  }

  // From 0, or as far below as values go, to the largest that is possible, where that is known.
  range() {
    const { stacked, most, series } = this.panel;
    if (stacked) return [0, Math.max(1, ...this.steps.map((_, n) => sum(series.map((line) => line.y[n] ?? 0))))];
    const all = series.flatMap((line) => [...line.y, ...line.low, ...line.high]);
    const low = Math.min(0, ...all);
    if (most !== null) return [low, most];
    const high = Math.max(0, ...all);
    return low === high ? [0, 1] : [low, high];
  }

  path(xs, ys) {
    return xs
      .map((step, n) => `${n ? "L" : "M"}${this.x(step).toFixed(1)} ${this.y(ys[n]).toFixed(1)}`)
      .join("");
  }

  area(xs, lows, highs) {
    const back = this.path([...xs].reverse(), [...lows].reverse()).replace("M", "L");
    return `${this.path(xs, highs)}${back}Z`;
  }

  drawLine(svg, line) {
    const group = s("g", { class: `c${line.color % 8}` });
    const mark = line.dashed ? " dashed" : "";
    const isPoints = line.style === "points";
    const isThin = line.style === "thin";
    const points = this.panel.series.filter((one) => one.style === "points");
    const shift = isPoints ? APART * (points.indexOf(line) - (points.length - 1) / 2) : 0;
    if (line.low.length && isPoints) {
      line.x.forEach((step, n) => {
        const x = this.x(step) + shift;
        const ends = { y1: this.y(line.low[n]), y2: this.y(line.high[n]) };
        group.append(s("line", { class: "interval", x1: x, x2: x, ...ends }));
      });
    } else if (line.low.length) {
      group.append(s("path", { class: "band", d: this.area(line.x, line.low, line.high) }));
    }
    group.append(s("path", { class: `curve${isThin ? " thin" : ""}${mark}`, d: this.path(line.x, line.y) }));
    if (isPoints || (line.x.length <= DOTS_UP_TO && !isThin)) {
      line.x.forEach((step, n) => {
        const place = { cx: this.x(step) + shift, cy: this.y(line.y[n]), r: isPoints ? 3.25 : 2.25 };
        group.append(s("circle", { class: `point${mark}`, ...place }));
      });
    }
    svg.append(group);
  }

  drawStack(svg) {
    let below = this.steps.map(() => 0);
    for (const line of this.panel.series) {
      const above = below.map((value, n) => value + line.y[n]);
      if (line.x.length > 1) {
        svg.append(s("path", { class: `area c${line.color % 8}`, d: this.area(line.x, below, above) }));
      } else {
        const y = this.y(above[0]);
        const size = { x: this.x(line.x[0]) - 12, width: 24, y, height: Math.max(0, this.y(below[0]) - y) };
        svg.append(s("rect", { class: `area c${line.color % 8}`, ...size }));
      }
      below = above;
    }
  }

  say(step) {
    const told = this.shown.map((line) => {
      const place = step === null ? line.x.length - 1 : line.x.indexOf(step);
      return [line, place < 0 ? null : line.y[place]];
    });
    const shape = this.panel.stacked ? "swatch block" : "swatch";
    const alone = told.length === 1 && !told[0][0].short;
    const names = told.map(([line, value]) =>
      h(
        "span",
        !alone && h("i", { class: `${shape} c${line.color % 8}${line.dashed ? " dashed" : ""}` }),
        line.short,
        " ",
        h("b", amount(value, this.panel.unit, this.digits)),
      ),
    );
    this.legend.replaceChildren(
      h("span", step === null ? "last" : `${this.panel.along} ${count(step)}`),
      ...names,
      this.panel.most !== null && this.panel.unit !== "share"
        ? h("span", `of at most ${fixed(this.panel.most, this.digits)}`)
        : "",
    );
    const text = told
      .map(([line, value]) => `${line.label} ${amount(value, this.panel.unit, this.digits)}`)
      .join("; ");
    this.told = text;
    const now = step === null ? this.steps.at(-1) : step;
    this.plot.setAttribute("aria-valuenow", now);
    this.plot.setAttribute("aria-valuetext", `${this.panel.along} ${now}: ${text}`);
  }

  move(place) {
    this.at = Math.max(0, Math.min(this.steps.length - 1, place));
    const step = this.steps[this.at];
    if (this.cursor) {
      this.cursor.setAttribute("x1", this.x(step));
      this.cursor.setAttribute("x2", this.x(step));
      this.cursor.setAttribute("visibility", "visible");
    }
    this.say(step);
  }

  leave() {
    this.cursor?.setAttribute("visibility", "hidden");
    this.say(null);
  }

  point(event) {
    if (!this.x) return;
    const x = event.clientX - this.plot.getBoundingClientRect().left;
    const far = this.steps.map((step) => Math.abs(this.x(step) - x));
    this.move(far.indexOf(Math.min(...far)));
  }

  key(event) {
    const places = {
      ArrowRight: this.at + 1,
      ArrowLeft: this.at - 1,
      PageUp: this.at + 10,
      PageDown: this.at - 10,
      Home: 0,
      End: this.steps.length - 1,
    };
    if (!(event.key in places)) return;
    event.preventDefault();
    this.move(places[event.key]);
  }
}
