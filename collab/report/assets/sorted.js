// A table whose columns order its rows: a column is { name, key, right, cell }, and a row a named link.

class SortedTable {
  constructor(columns, order = { column: null, down: false }) {
    Object.assign(this, { columns, order });
    this.heads = columns.map((column) => {
      const onclick = () => this.sortBy(column);
      const button = h("button", { type: "button", onclick }, column.name);
      return h("th", { scope: "col", class: column.right && "right" }, button);
    });
    byId("list").tHead.rows[0].append(...this.heads);
  }

  get body() {
    return byId("list").tBodies[0];
  }

  // The cells of an item's row; on a phone, a number needs its column's name.
  cellsOf(item, ...context) {
    return this.columns.map(({ name, key, right, cell = key }) => {
      const attributes = { class: right && "right", "data-label": right && name.toLowerCase() };
      return h("td", attributes, cell(item, ...context));
    });
  }

  sortBy(column) {
    const down = this.order.column === column ? !this.order.down : Boolean(column.right);
    this.order = { column, down };
    this.update();
  }

  // The items in the order of the column, whose key is that of an item's row.
  sorted(items, rowOf = (item) => item) {
    const { column, down } = this.order;
    this.heads.forEach((head, n) => {
      if (this.columns[n] !== column) head.removeAttribute("aria-sort");
      else head.setAttribute("aria-sort", down ? "descending" : "ascending");
    });
    if (!column) return items;
    const keys = new Map(items.map((item) => [item, [column.key(rowOf(item))].flat()]));
    return [...items].sort((a, b) => compareKeys(keys.get(a), keys.get(b), down ? -1 : 1));
  }

  // Loads further rows, if there are any.
  more() {}

  // Focuses the row `distance` further from the one in focus, or the first one.
  step(distance) {
    const now = [...this.body.rows].indexOf(focusedRow());
    if (now + distance >= this.body.rows.length) this.more();
    const next = now < 0 ? 0 : Math.max(0, Math.min(this.body.rows.length - 1, now + distance));
    this.focus(this.body.rows[next]?.dataset.name);
  }

  focus(name, inside = "a") {
    const row = [...this.body.rows].find((one) => one.dataset.name === name);
    row?.querySelector(inside).focus({ preventScroll: true });
    row?.scrollIntoView({ block: "nearest", behavior: "instant" });
  }
}

function focusedRow() {
  return document.activeElement?.closest("#list tbody tr");
}

// What is not known comes last, in either order.
function compareKeys(a, b, sign) {
  const isKnown = (key) => key !== null && key !== undefined && key !== "";
  for (let n = 0; n < a.length; n++) {
    if (a[n] === b[n]) continue;
    if (!isKnown(a[n]) || !isKnown(b[n])) return isKnown(b[n]) - isKnown(a[n]);
    const text = typeof a[n] === "string";
    return sign * (text ? a[n].localeCompare(b[n], "en", { numeric: true }) : a[n] - b[n]);
  }
  return 0;
}

// The words of the search, in small letters.
function searchedWords() {
  return byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
}

// How many are shown, in words.
function shownOf(shown, all, word) {
  const total = plural(all, word);
  if (shown === all) return total;
  return shown ? `${count(shown)} of ${total}` : `None of ${total} matches. Esc clears the search.`;
}

// The keys of a page with a list. `keysOf` returns those of its present state, from an event and the
// list's keys.
function listenToKeys(list, keysOf) {
  const search = byId("search");
  const clear = () => {
    search.value = "";
    search.blur();
    list.update();
  };
  const toFirst = () => list.step(0);
  const inSearch = { Escape: clear, Enter: toFirst, ArrowDown: toFirst };
  const inList = { "/": () => search.focus(), j: () => list.step(1), k: () => list.step(-1) };
  const help = () => (byId("keys").open ? byId("keys").close() : byId("keys").showModal());
  byId("help").addEventListener("click", help);
  search.addEventListener("input", () => list.update());
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const isSearch = event.target === search;
    if (!isSearch && event.target.closest("input[type=search], select, textarea")) return;
    const inPage = byId("keys").open ? {} : keysOf(event, inList);
    const keys = isSearch ? inSearch : { ...inPage, "?": help };
    if (!(event.key in keys)) return;
    event.preventDefault();
    keys[event.key]();
  });
}
