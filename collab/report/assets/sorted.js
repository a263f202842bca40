// A table whose columns put its rows in order: a column is { name, key, right }.

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

// How many are shown, in words.
function shownOf(shown, all, word) {
  const total = plural(all, word);
  if (shown === all) return total;
  return shown ? `${count(shown)} of ${total}` : `None of ${total} matches. Esc clears the search.`;
}
