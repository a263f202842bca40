// The differences between two strings: by line, and within changed lines by word.

const MOST_CELLS = 4e6; // of the table below
const CONTEXT = 3;

// The edit script of a longest common subsequence: [["=" | "-" | "+", item], ...].
function edits(before, after) {
  const [n, m] = [before.length, after.length];
  const removed = (items) => items.map((item) => ["-", item]);
  const added = (items) => items.map((item) => ["+", item]);
  if (n * m > MOST_CELLS) return [...removed(before), ...added(after)];
  const shared = Array.from({ length: n + 1 }, () => new Uint16Array(m + 1)); // from i and j on
  for (let i = n - 1; i >= 0; i--) {
    for (let j = m - 1; j >= 0; j--) {
      const same = before[i] === after[j];
      shared[i][j] = same ? shared[i + 1][j + 1] + 1 : Math.max(shared[i + 1][j], shared[i][j + 1]);
    }
  }
  const script = [];
  let [i, j] = [0, 0];
  while (i < n && j < m) {
    if (before[i] === after[j]) {
      script.push(["=", before[i++]]);
      j++;
    } else if (shared[i + 1][j] >= shared[i][j + 1]) script.push(["-", before[i++]]);
    else script.push(["+", after[j++]]);
  }
  return [...script, ...removed(before.slice(i)), ...added(after.slice(j))];
}

// The difference as an element; equal stretches are folded.
function diffView(before, after, label) {
  const script = edits(before.split("\n"), after.split("\n"));
  const rows = script.map(([sign, text]) => ({ sign, text, marked: null }));
  for (let start = 0; start < rows.length; start++) {
    if (rows[start].sign !== "-") continue;
    let middle = start;
    while (rows[middle]?.sign === "-") middle++;
    let end = middle;
    while (rows[end]?.sign === "+") end++;
    if (end - middle === middle - start) {
      for (let n = start; n < middle; n++) markWords(rows[n], rows[n + middle - start]);
    }
    start = end - 1;
  }
  const view = h("pre", { class: "diff", tabindex: 0, role: "region", "aria-label": label });
  for (const part of folded(rows)) {
    const shown = part.map(diffRow);
    if (part.length === 1 || !part.fold) view.append(...shown);
    else view.append(h("details", h("summary", `${part.length} equal lines`), shown));
  }
  return view;
}

function markWords(removed, added) {
  const words = (text) => text.match(/\w+|\s+|[^\w\s]/gu) || [];
  const script = edits(words(removed.text), words(added.text));
  const same = script
    .filter(([sign]) => sign === "=")
    .reduce((sum, [, word]) => sum + word.length, 0);
  if (same < 0.4 * Math.max(removed.text.length, added.text.length)) return;
  removed.marked = script.filter(([sign]) => sign !== "+");
  added.marked = script.filter(([sign]) => sign !== "-");
}

function folded(rows) {
  const near = rows.map((_, n) =>
    rows.slice(Math.max(0, n - CONTEXT), n + CONTEXT + 1).some((row) => row.sign !== "="),
  );
  const parts = [];
  rows.forEach((row, n) => {
    if (!parts.length || parts.at(-1).fold === near[n]) {
      parts.push(Object.assign([], { fold: !near[n] }));
    }
    parts.at(-1).push(row);
  });
  return parts;
}

function diffRow(row) {
  const kind = { "=": null, "-": "del", "+": "add" }[row.sign];
  const name = { "-": "removed: ", "+": "added: " }[row.sign];
  const content = row.marked
    ? row.marked.map(([sign, text]) => (sign === "=" ? text : h("mark", text)))
    : row.text || "\u00a0";
  const sign = { "=": "", "-": "−", "+": "+" }[row.sign];
  return h(
    "div",
    { class: kind, "data-sign": sign },
    h("span", name && h("span", { class: "hidden" }, name), content),
  );
}
