// The list of runs: filter, order, choose and compare; asked for again and again.

const EVERY = 3000; // milliseconds between two questions

const COLUMNS = [
  { name: "Run", key: (run) => run.name, cell: (run) => runLinks(run) },
  { name: "Began", key: (run) => run.began, cell: (run) => run.began.slice(0, 16).replace("T", " ") },
  { name: "Kind", key: (run) => run.kind },
  { name: "Team", key: (run) => run.team },
  { name: "Task", key: (run) => run.task },
  { name: "Status", key: (run) => run.status, cell: (run) => statusChip(run.status) },
  {
    name: "Return",
    key: (run) => run.mean_return,
    cell: (run) => (run.mean_return === null ? "" : outOf(run.mean_return, run.largest_return)),
    right: true,
  },
  { name: "Solved", key: (run) => run.solved, cell: (run) => solvedView(run.solved), right: true },
];

class Runs extends SortedTable {
  constructor() {
    super(COLUMNS, { column: COLUMNS[1], down: true });
    this.runs = [];
    this.chosen = new Set();
    this.known = "";
    const choose = h("td", h("span", { class: "hidden" }, "Chosen"));
    byId("list").tHead.rows[0].prepend(choose);
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
    const of = (id) => !byId(id).value || run[id] === byId(id).value;
    return searchedWords().every((word) => text.includes(word)) && of("kind") && of("status");
  }

  update() {
    const focus = focusedRow()?.dataset.name;
    const inBox = document.activeElement?.matches("input[type=checkbox]");
    const shown = this.sorted(this.runs.filter((run) => this.fits(run)));
    this.body.replaceChildren(...shown.map((run) => this.row(run)));
    byId("list").hidden = !shown.length;
    byId("count").textContent = this.runs.length
      ? shownOf(shown.length, this.runs.length, "run")
      : "There are no runs yet. New runs appear here when they start.";
    this.choose();
    if (focus !== undefined) this.focus(focus, inBox ? "input" : "a");
  }

  row(run) {
    const onchange = (event) => this.toggle(run.name, event.target.checked);
    const checked = this.chosen.has(run.name);
    const box = h("input", { type: "checkbox", checked, onchange, "aria-label": `choose ${run.name}` });
    const choose = h("td", { class: "choose" }, h("label", box));
    return h("tr", { "data-name": run.name, class: checked && "chosen" }, choose, this.cellsOf(run));
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

  toggleHere() {
    const name = focusedRow()?.dataset.name;
    if (name !== undefined) this.toggle(name, !this.chosen.has(name));
  }
}

function addressOf(names) {
  return `/report?${new URLSearchParams(names.map((name) => ["run", name]))}`;
}

function runLinks(run) {
  const place = run.name.lastIndexOf("/") + 1;
  const folder = place ? h("span", { class: "part" }, run.name.slice(0, place)) : null;
  const whole = run.evaluation && h("a", { href: addressOf([run.evaluation]), class: "part" }, " all teams");
  return [h("a", { class: "open", href: addressOf([run.name]) }, folder, run.name.slice(place)), whole];
}

function statusChip(status) {
  return h("span", { class: `chip status-${status.split(" ")[0].replace(/\W/g, "")}` }, status);
}

function solvedView(solved) {
  if (solved === null) return "";
  const bar = s(
    "svg",
    { class: "meter", "aria-hidden": "true", viewBox: "0 0 100 10", preserveAspectRatio: "none" },
    s("rect", { width: 100, height: 10 }),
    s("rect", { width: 100 * solved, height: 10 }),
  );
  return [`${fixed(100 * solved, 0)} %`, bar];
}

async function main() {
  const runs = new Runs();
  const more = { x: () => runs.toggleHere(), c: () => runs.compare() };
  listenToKeys(runs, (_, inList) => ({ ...inList, ...more }));
  await runs.ask();
  setInterval(() => !document.hidden && runs.ask(), EVERY);
  document.documentElement.dataset.ready = "";
}

main();
