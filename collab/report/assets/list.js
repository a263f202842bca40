// The list of episodes: search, filters, order; a screenful at a time.

const CHUNK = matchMedia("(max-width: 720px)").matches ? 40 : 200;

class List extends SortedTable {
  constructor(data) {
    super(columnsOf(data));
    this.data = data;
    this.shown = [];
    this.drawn = 0;
    this.lowered = data.texts.map(() => null);
    this.refs = data.episodes.map((episode) => [...new Set(textsOf(episode))]);
    this.names = data.episodes.map((episode) =>
      [
        episode.id,
        episode.task,
        episode.team,
        data.runs[episode.run].name,
        phaseOf(episode),
        episode.verdict,
        ...signsOf(episode),
      ]
        .join(" ")
        .toLowerCase(),
    );
    this.filters();
    byId("more").addEventListener("click", () => this.more());
    new IntersectionObserver(
      (seen) => seen.some((entry) => entry.isIntersecting) && this.more(),
    ).observe(byId("more"));
    byId("list").tBodies[0].addEventListener("click", (event) => {
      const row = event.target.closest("tr");
      if (row && !event.target.closest("a")) row.querySelector("a").click();
    });
    this.update();
  }

  filters() {
    const { episodes, runs } = this.data;
    const form = byId("filters");
    this.selects = [];
    const add = (label, values, test) => {
      if (values.length < 2) return;
      const options = values.map(([value, name]) => h("option", { value }, name));
      const select = h(
        "select",
        { "aria-label": label, onchange: () => this.update() },
        h("option", { value: "" }, label),
        options,
      );
      form.append(select);
      this.selects.push([select, test]);
    };
    const distinct = (key) => [...new Set(episodes.map(key).filter((value) => value !== null))];
    const plain = (values) => values.sort().map((value) => [value, value]);
    add("All verdicts", plain(distinct((e) => e.verdict)), (e, value) => e.verdict === value);
    add(
      "All runs",
      runs.map((run, n) => [String(n), run.name]),
      (e, value) => e.run === Number(value),
    );
    add(
      "All phases",
      distinct((e) => e.phase).map((phase) => [phase, phase]),
      (e, value) => e.phase === value,
    );
    add("All modes", plain(distinct((e) => e.mode)), (e, value) => e.mode === value);
    const steps = distinct((e) => (e.mode ? null : e.step)).sort((a, b) => a - b);
    const named = steps.map((step) => [String(step), `step ${step}`]);
    if (steps.length > 1) named.push(["ends", `first and last step`]);
    add(
      "All steps",
      named,
      (e, value) =>
        !e.mode &&
        (value === "ends" ? [steps[0], steps.at(-1)].includes(e.step) : e.step === Number(value)),
    );
    const signs = [...new Set(episodes.flatMap(signsOf))];
    if (signs.length) {
      add("All signs", [["any", "any sign"], ...plain(signs)], (e, value) =>
        value === "any" ? signsOf(e).length > 0 : signsOf(e).includes(value),
      );
    }
    const orders = this.columns.map((column, n) =>
      h("option", { value: n }, `by ${column.name.toLowerCase()}`),
    );
    const sort = h(
      "select",
      { class: "phone", "aria-label": "Order" },
      h("option", { value: "" }, "Order"),
      orders,
    );
    sort.addEventListener("change", () => sort.value && this.sortBy(this.columns[sort.value]));
    form.append(sort);
    form.addEventListener("submit", (event) => event.preventDefault());
    byId("search").addEventListener("input", () => this.update());
  }

  matches(words) {
    const sets = words.map((word) => this.textsWith(word));
    return (_, place) =>
      words.every(
        (word, n) =>
          this.names[place].includes(word) || this.refs[place].some((ref) => sets[n].has(ref)),
      );
  }

  textsWith(word) {
    const found = new Set();
    this.data.texts.forEach((text, place) => {
      this.lowered[place] ??= text.toLowerCase();
      if (this.lowered[place].includes(word)) found.add(place);
    });
    return found;
  }

  update() {
    const { episodes } = this.data;
    const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = this.selects.filter(([select]) => select.value);
    const places = episodes.map((_, place) => place);
    const fits = words.length ? this.matches(words) : () => true;
    const fitting = places.filter(
      (place) =>
        fits(episodes[place], place) &&
        wanted.every(([select, test]) => test(episodes[place], select.value)),
    );
    this.shown = this.sorted(fitting, (place) => episodes[place]);
    this.drawn = 0;
    byId("list").tBodies[0].replaceChildren();
    byId("list").hidden = !this.shown.length;
    byId("count").textContent = episodes.length
      ? shownOf(this.shown.length, episodes.length, "episode")
      : "There are no episodes.";
    this.more();
  }

  more() {
    const next = this.shown.slice(this.drawn, this.drawn + CHUNK);
    byId("list").tBodies[0].append(...next.map((place) => this.row(place)));
    this.drawn += next.length;
    byId("more").hidden = this.drawn >= this.shown.length;
  }

  row(place) {
    const episode = this.data.episodes[place];
    const values = {
      Episode: () => h("a", { href: `#episode/${place}` }, episode.id),
      Run: () => this.data.runs[episode.run].name,
      Step: () => (episode.step === null ? "" : count(episode.step)),
      Phase: () => phaseOf(episode),
      Verdict: () => verdictChip(episode.verdict),
      Return: () => [outOf(episode.return, episode.largest_return)],
      Signs: () => signsOf(episode).map((sign) => h("span", { class: "chip flag" }, sign)),
      Turns: () => turnsOf(episode),
      Tokens: () => count(episode.tokens),
    };
    const told = ["Step", "Return", "Turns", "Tokens"];
    const cells = this.columns.map(({ name, right, cell }) =>
      h(
        "td",
        {
          class: right && "right",
          "data-label": cell || told.includes(name) ? name.toLowerCase() : null,
        },
        cell ? cell(episode) : values[name](),
      ),
    );
    return h("tr", { "data-place": place }, cells);
  }

  // The row `distance` further from the one in focus, or the first one.
  step(distance) {
    const rows = byId("list").tBodies[0].rows;
    const now = document.activeElement.closest?.("#list tbody tr");
    let next = now ? [...rows].indexOf(now) + distance : 0;
    if (next >= rows.length) this.more();
    next = Math.max(0, Math.min(rows.length - 1, next));
    this.focus(rows[next]?.dataset.place);
  }

  focus(place) {
    while (this.drawn < this.shown.length && this.shown.indexOf(Number(place)) >= this.drawn)
      this.more();
    const row = byId("list").tBodies[0].querySelector(`tr[data-place="${Number(place)}"]`);
    row?.querySelector("a").focus({ preventScroll: true });
    row?.scrollIntoView({ block: "nearest", behavior: "instant" });
  }

  // The episode before or after another one, in the list's order.
  beside(place, distance) {
    return this.shown[this.shown.indexOf(place) + distance];
  }
}

function verdictChip(verdict) {
  return h("span", { class: `chip ${verdict.split(" ")[0]}` }, verdict);
}
