// The curves of training in sections: each a chart, a legend, and a table of the same values.

function drawCurves(root, panels, cohorts) {
  if (cohorts.length) {
    const names = cohorts.map((label, n) =>
      h("span", h("i", { class: `swatch c${n % 8}` }), label),
    );
    root.append(h("p", { class: "legend cohorts" }, names));
  }
  const narrow = matchMedia("(max-width: 720px)").matches;
  const groups = new Map();
  for (const panel of panels) {
    if (!groups.has(panel.section)) groups.set(panel.section, []);
    groups.get(panel.section).push(panel);
  }
  const domainOf = (along) => {
    const same = panels.filter((panel) => panel.along === along);
    const steps = same.flatMap((panel) => panel.series.flatMap((line) => line.x));
    return [Math.min(...steps), Math.max(...steps)];
  };
  for (const [name, members] of groups) {
    const charts = members.map((panel) => panelView(panel, domainOf(panel.along)));
    const grid = h("div", { class: `panels of${columnsFor(members.length)}` }, charts);
    const open = !narrow || !root.childElementCount; // of many charts, a phone shows the first ones
    const told = h("summary", h("h3", name), " ", h("small", plural(members.length, "chart")));
    root.append(h("details", { class: "group", open }, told, grid));
  }
}

// Columns that leave few gaps in the last row, which is stretched over its whole width.
function columnsFor(number) {
  if (number <= 4) return number;
  return number % 4 === 1 || (number % 3 === 0 && number % 4) ? 3 : 4;
}

function panelView(panel, domain) {
  const legend = h("p", { class: "legend" });
  const plot = h("div", {
    class: "plot",
    tabindex: 0,
    role: "slider",
    "aria-label": `${panel.title}, by ${panel.along}: values`,
    "aria-orientation": "horizontal",
  });
  const values = h("div", { class: "values", tabindex: 0, role: "region", hidden: true });
  values.setAttribute("aria-label", `${panel.title}, table`);
  const button = h("button", { type: "button", "aria-pressed": "false" }, "Table");
  button.addEventListener("click", () => {
    const wanted = values.hidden;
    if (wanted && !values.firstChild) values.append(valuesTable(panel));
    values.hidden = !wanted;
    plot.hidden = wanted;
    button.setAttribute("aria-pressed", String(wanted));
  });
  const head = h("header", h("h4", panel.title), button);
  const note = panel.note && h("small", panel.note);
  const view = h("figure", { class: "panel" }, head, legend, plot, values, note);
  const chart = new Chart(panel, plot, legend, domain);
  new ResizeObserver(() => chart.draw(plot.clientWidth)).observe(plot);
  return view;
}

function valuesTable(panel) {
  const steps = [...new Set(panel.series.flatMap((line) => line.x))].sort((a, b) => a - b);
  const all = panel.series.flatMap((line) => line.y);
  const digits = decimalsOf((panel.most ?? Math.max(0, ...all)) - Math.min(0, ...all));
  const rows = steps.map((step) => {
    const values = panel.series.map((line) => line.y[line.x.indexOf(step)]);
    const cells = values.map((value) => h("td", { class: "right" }, amount(value, panel.unit, digits)));
    return h("tr", h("th", { scope: "row" }, count(step)), cells);
  });
  return tableOf([panel.along === "step" ? "Step" : "Tokens", ...panel.series.map((line) => line.label)], rows);
}
