// The curves of training in sections: each a chart and a legend.

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
    const steps = new Set(same.flatMap((panel) => panel.series.flatMap((line) => line.x)));
    return [Math.min(...steps), Math.max(...steps)];
  };
  for (const [name, members] of groups) {
    const charts = members.map((panel) => panelView(panel, domainOf(panel.along)));
    const grid = h("div", { class: "panels" }, charts);
    const open = !narrow || !root.childElementCount; // of many charts, a phone shows the first ones
    const told = h("summary", h("h3", name), " ", h("small", plural(members.length, "chart")));
    root.append(h("details", { class: "group", open }, told, grid));
  }
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
  const note = panel.note && h("small", panel.note);
  const view = h("figure", { class: "panel" }, h("h4", panel.title), legend, plot, note);
  const chart = new Chart(panel, plot, legend, domain);
  new ResizeObserver(() => chart.draw(plot.clientWidth)).observe(plot);
  return view;
}
