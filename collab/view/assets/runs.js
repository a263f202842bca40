// The list of runs: filter, order, choose and compare; asked for again and again.

const EVERY = 3000; // milliseconds between two questions

const COLUMNS = [
  { name: "Run", key: (run) => run.name },
  { name: "Began", key: (run) => run.began },
  { name: "Kind", key: (run) => run.kind },
  { name: "Team", key: (run) => run.team },
  { name: "Task", key: (run) => run.task },
  { name: "Status", key: (run) => run.status },
  { name: "Return", key: (run) => run.mean_return, right: true },
  { name: "Solved", key: (run) => run.solved, right: true },
];

class Runs extends SortedTable {
  constructor() {
    super(COLUMNS, { column: COLUMNS[1], down: true });
    this.runs = [];
    this.chosen = new Set();
    this.known = "";
    const choose = h("td", h("span", { class: "hidden" }, "Chosen"));
    byId("list").tHead.rows[0].prepend(choose);
    byId("search").addEventListener("input", () => this.update());
    for (const id of ["kind", "status"]) byId(id).addEventListener("change", () => this.update());
    byId("filters").addEventListener("submit", (event) => {
      event.preventDefault();
      this.compare();
    });
  }

  async ask() {
    try {
      const answer = await fetch("/runs", { cache: "no-store" });
      const text = await answer.text();
      byId("state").textContent = "";
      if (text === this.known) return;
      this.known = text;
      this.runs = JSON.parse(text);
      for (const id of ["kind", "status"]) this.choices(byId(id), id);
      this.update();
    } catch {
      byId("state").textContent = "the server has stopped";
    }
  }

  choices(select, key) {
    const now = select.value;
    const values = [...new Set(this.runs.map((run) => run[key]))].sort();
    const options = values.map((value) => h("option", { value, selected: value === now }, value));
    select.replaceChildren(select.options[0], ...options);
  }

  fits(run) {
    const text = [run.name, run.kind, run.team, run.task, run.status].join(" ").toLowerCase();
    const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const of = (id) => !byId(id).value || run[id] === byId(id).value;
    return words.every((word) => text.includes(word)) && of("kind") && of("status");
  }

  update() {
    const focus = document.activeElement?.closest("#list tbody tr")?.dataset.name;
    const inBox = document.activeElement?.matches("input[type=checkbox]");
    const shown = this.sorted(this.runs.filter((run) => this.fits(run)));
    byId("list").tBodies[0].replaceChildren(...shown.map((run) => this.row(run)));
    byId("list").hidden = !shown.length;
    byId("count").textContent = this.runs.length
      ? shownOf(shown.length, this.runs.length, "run")
      : "There are no runs yet. New runs appear here when they start.";
    this.choose();
    if (focus !== undefined) this.focus(focus, inBox);
  }

  row(run) {
    const place = run.name.lastIndexOf("/") + 1;
    const name = [place ? h("span", { class: "part" }, run.name.slice(0, place)) : null, run.name.slice(place)];
    const onchange = (event) => this.toggle(run.name, event.target.checked);
    const box = h("input", { type: "checkbox", checked: this.chosen.has(run.name), onchange, "aria-label": `choose ${run.name}` });
    const status = run.status.split(" ")[0].replace(/\W/g, "");
    const whole = run.evaluation && h("a", { href: addressOf([run.evaluation]), class: "part" }, " all teams");
    const cells = [
      h("td", { class: "choose" }, h("label", box)),
      h("td", h("a", { class: "open", href: addressOf([run.name]) }, name), whole),
      h("td", run.began.slice(0, 16).replace("T", " ")),
      h("td", run.kind),
      h("td", run.team),
      h("td", run.task),
      h("td", h("span", { class: `chip status-${status}` }, run.status)),
      number("return", run.mean_return, outOf(run.mean_return, run.largest_return)),
      number("solved", run.solved, solvedView(run.solved)),
    ];
    return h("tr", { "data-name": run.name, class: this.chosen.has(run.name) && "chosen" }, cells);
  }

  toggle(name, wanted) {
    if (wanted) this.chosen.add(name);
    else this.chosen.delete(name);
    this.update();
  }

  choose() {
    const names = new Set(this.runs.map((run) => run.name));
    this.chosen = new Set([...this.chosen].filter((name) => names.has(name)));
    const { size } = this.chosen;
    byId("compare").disabled = size < 2;
    byId("compare").textContent = size < 2 ? "Compare" : `Compare ${plural(size, "run")}`;
  }

  compare() {
    if (this.chosen.size > 1) location.href = addressOf([...this.chosen]);
  }

  rows() {
    return [...byId("list").tBodies[0].rows];
  }

  focus(name, inBox = false) {
    const row = this.rows().find((one) => one.dataset.name === name);
    row?.querySelector(inBox ? "input" : "a.open").focus();
  }

  step(distance) {
    const rows = this.rows();
    const now = rows.indexOf(document.activeElement?.closest("#list tbody tr"));
    const next = now < 0 ? 0 : Math.max(0, Math.min(rows.length - 1, now + distance));
    if (rows[next]) this.focus(rows[next].dataset.name);
  }

  toggleHere() {
    const name = document.activeElement?.closest("#list tbody tr")?.dataset.name;
    if (name !== undefined) this.toggle(name, !this.chosen.has(name));
  }
}

function addressOf(names) {
  return `/report?${new URLSearchParams(names.map((name) => ["run", name]))}`;
}

// A phone shows the label, and leaves out what is not known: a column alone tells what a dash is of.
function number(label, value, view) {
  return h("td", { class: value === null ? "right unknown" : "right", "data-label": label }, view);
}

function solvedView(solved) {
  if (solved === null) return "–";
  const bar = s(
    "svg",
    { class: "meter", "aria-hidden": "true", viewBox: "0 0 100 10", preserveAspectRatio: "none" },
    s("rect", { width: 100, height: 10 }),
    s("rect", { width: 100 * solved, height: 10 }),
  );
  return [`${fixed(100 * solved, 0)} %`, bar];
}

function listen(runs) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const search = byId("search");
    if (event.target === search && ["Escape", "ArrowDown"].includes(event.key)) {
      event.preventDefault();
      if (event.key === "Escape") search.value = "";
      runs.update();
      runs.step(0);
      return;
    }
    if (event.target === search && event.key === "Enter") {
      event.preventDefault();
      runs.step(0);
      return;
    }
    if (event.target.closest("input[type=search], select")) return;
    const does = {
      "/": () => search.focus(),
      j: () => runs.step(1),
      k: () => runs.step(-1),
      x: () => runs.toggleHere(),
      c: () => runs.compare(),
      "?": () => (byId("keys").open ? byId("keys").close() : byId("keys").showModal()),
    };
    if (!(event.key in does)) return;
    event.preventDefault();
    does[event.key]();
  });
}

async function main() {
  byId("help").addEventListener("click", () => byId("keys").showModal());
  const runs = new Runs();
  listen(runs);
  await runs.ask();
  setInterval(() => !document.hidden && runs.ask(), EVERY);
  document.documentElement.dataset.ready = "";
}

main();
