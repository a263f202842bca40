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
    this.names = data.episodes.map((episode) => {
      const { id, team, verdict, run } = episode;
      const words = [id, team, verdict, data.runs[run].name, phaseOf(episode), ...signsOf(episode)];
      return words.join(" ").toLowerCase();
    });
    this.filters();
    byId("more").addEventListener("click", () => this.more());
    new IntersectionObserver(
      (seen) => seen.some((entry) => entry.isIntersecting) && this.more(),
    ).observe(byId("more"));
    this.body.addEventListener("click", (event) => {
      const row = event.target.closest("tr");
      if (row && !event.target.closest("a")) row.querySelector("a").click();
    });
    this.update();
  }

  filters() {
    const { episodes, runs } = this.data;
    const form = byId("filters");
    this.selects = [];
    const add = (label, values, test, fewest = 2) => {
      if (values.length < fewest) return;
      const options = [["", label], ...values].map(([value, name]) => h("option", { value }, name));
      const select = h("select", { "aria-label": label, onchange: () => this.update() }, options);
      form.append(select);
      this.selects.push([select, test]);
    };
    const distinct = (key) => [...new Set(episodes.map(key).filter((value) => value !== null))];
    const plain = (values) => values.sort().map((value) => [value, value]);
    add("All verdicts", plain(distinct((e) => e.verdict)), (e, value) => e.verdict === value);
    const names = runs.map((run, n) => [String(n), run.name]);
    add("All runs", names, (e, value) => e.run === Number(value));
    add("All phases", plain(distinct((e) => e.phase)), (e, value) => e.phase === value);
    add("All modes", plain(distinct((e) => e.mode)), (e, value) => e.mode === value);
    const steps = distinct((e) => (e.mode ? null : e.step)).sort((a, b) => a - b);
    const named = steps.map((step) => [String(step), `step ${step}`]);
    add("All steps", named, (e, value) => !e.mode && e.step === Number(value));
    const signs = [...new Set(episodes.flatMap(signsOf))];
    add("All signs", plain(signs), (e, value) => signsOf(e).includes(value), 1);
    const orders = [h("option", { value: "" }, "Order")];
    this.columns.forEach(({ name }, n) => orders.push(h("option", { value: n }, `by ${name.toLowerCase()}`)));
    const sort = h("select", { class: "phone", "aria-label": "Order" }, orders);
    sort.addEventListener("change", () => sort.value && this.sortBy(this.columns[sort.value]));
    form.append(sort);
    form.addEventListener("submit", (event) => event.preventDefault());
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
    const words = searchedWords();
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
    this.body.replaceChildren();
    byId("list").hidden = !this.shown.length;
    byId("count").textContent = episodes.length
      ? shownOf(this.shown.length, episodes.length, "episode")
      : "There are no episodes.";
    this.more();
  }

  more() {
    const next = this.shown.slice(this.drawn, this.drawn + CHUNK);
    this.body.append(...next.map((place) => this.row(place)));
    this.drawn += next.length;
    byId("more").hidden = this.drawn >= this.shown.length;
  }

  row(place) {
    return h("tr", { "data-name": place }, this.cellsOf(this.data.episodes[place], place, this.data));
  }

  focus(place) {
    while (this.drawn < this.shown.length && this.shown.indexOf(Number(place)) >= this.drawn) this.more();
    super.focus(String(place));
  }

  // The episode before or after another one, in the list's order.
  beside(place, distance) {
    return this.shown[this.shown.indexOf(place) + distance];
  }
}
