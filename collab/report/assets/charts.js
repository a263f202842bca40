// One chart: its curves as an SVG, its values at a step by pointer or keys.

const HEIGHT = 150;
const MARGIN = { left: 40, right: 10, top: 8, bottom: 20 };
const DOTS_UP_TO = 12;

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
    this.say(null);
  }

  draw(width) {
    if (!width || width === this.width) return;
    this.width = width;
    const [low, high] = this.range();
    const ticks = niceTicks(low, high, 4);
    const [first, last] = this.domain;
    const inner = width - MARGIN.left - MARGIN.right;
    const depth = HEIGHT - MARGIN.top - MARGIN.bottom;
    const bottom = Math.min(low, ticks[0]);
    const top = Math.max(high, ticks.at(-1));
    this.x = (step) =>
      MARGIN.left + (last > first ? ((step - first) / (last - first)) * inner : inner / 2);
    this.y = (value) => MARGIN.top + depth * (1 - (value - bottom) / (top - bottom));
    const svg = s("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, "aria-hidden": "true" });
    for (const tick of ticks) {
      const y = this.y(tick);
      svg.append(
        s("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y, y2: y }),
      );
      svg.append(
        s(
          "text",
          { x: MARGIN.left - 7, y: y + 3.5, "text-anchor": "end" },
          axisLabel(tick, this.panel.unit, ticks),
        ),
      );
    }
    for (const step of stepTicks(first, last, Math.max(2, Math.floor(inner / 44)))) {
      const x = this.x(step);
      const anchor = x > width - MARGIN.right - 12 ? "end" : "middle";
      svg.append(
        s(
          "text",
          {
            x: anchor === "end" ? width - MARGIN.right + 4 : x,
            y: HEIGHT - 4,
            "text-anchor": anchor,
          },
          count(step),
        ),
      );
    }
    if (this.panel.stacked) this.drawStack(svg);
    else this.panel.series.forEach((line) => this.drawLine(svg, line));
    this.cursor = s("line", {
      class: "cursor",
      y1: MARGIN.top,
      y2: HEIGHT - MARGIN.bottom,
      visibility: "hidden",
    });
    svg.append(this.cursor);
    this.plot.replaceChildren(svg);
  }

  range() {
    if (this.panel.stacked) return [0, 1];
    const all = this.panel.series.flatMap((line) => [...line.y, ...line.low, ...line.high]);
    let [low, high] = [Math.min(...all), Math.max(...all)];
    if (this.panel.unit !== "number" || (low > 0 && low < 0.5 * high)) low = Math.min(0, low);
    if (this.panel.unit === "share") return [Math.max(0, low), Math.min(1, Math.max(high, 0.05))];
    if (low === high)
      [low, high] = [low - (Math.abs(low) || 1) / 2, high + (Math.abs(high) || 1) / 2];
    return [low, high];
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
    if (line.style === "points") {
      line.x.forEach((step, n) => {
        if (!line.low.length) return;
        const x = this.x(step);
        group.append(
          s("line", {
            class: "interval",
            x1: x,
            x2: x,
            y1: this.y(line.low[n]),
            y2: this.y(line.high[n]),
          }),
        );
      });
    } else if (line.low.length) {
      group.append(s("path", { class: "band", d: this.area(line.x, line.low, line.high) }));
    }
    const kind = line.style === "thin" ? " thin" : "";
    group.append(s("path", { class: `curve${kind}${mark}`, d: this.path(line.x, line.y) }));
    if (line.style === "points" || (line.x.length <= DOTS_UP_TO && line.style !== "thin")) {
      line.x.forEach((step, n) => {
        group.append(
          s("circle", {
            class: `point${mark}`,
            cx: this.x(step),
            cy: this.y(line.y[n]),
            r: line.style === "points" ? 3.25 : 2.25,
          }),
        );
      });
    }
    svg.append(group);
  }

  drawStack(svg) {
    let below = this.steps.map(() => 0);
    for (const line of this.panel.series) {
      const above = below.map((value, n) => value + line.y[n]);
      const [xs, lows, highs] =
        line.x.length > 1 ? [line.x, below, above] : [[line.x[0]], below, above];
      if (xs.length > 1) {
        svg.append(s("path", { class: `area c${line.color % 8}`, d: this.area(xs, lows, highs) }));
      } else {
        const y = this.y(highs[0]);
        svg.append(
          s("rect", {
            class: `area c${line.color % 8}`,
            x: this.x(xs[0]) - 12,
            width: 24,
            y,
            height: Math.max(0, this.y(lows[0]) - y),
          }),
        );
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
        h("b", amount(value, this.panel.unit)),
      ),
    );
    this.legend.replaceChildren(
      h("span", step === null ? "last" : `${this.panel.along} ${count(step)}`),
      ...names,
    );
    const text = told
      .map(([line, value]) => `${line.label} ${amount(value, this.panel.unit)}`)
      .join("; ");
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
