// The differences between two strings: by line, and within changed lines by word.

const MOST_EDITS = 600;
const CONTEXT = 3;

// The shortest edit script (Myers 1986): [["=" | "-" | "+", item], ...].
function edits(before, after) {
  const [n, m] = [before.length, after.length];
  const reach = new Map([[1, 0]]);
  const trace = [];
  for (let depth = 0; depth <= Math.min(n + m, MOST_EDITS); depth++) {
    trace.push(new Map(reach));
    for (let k = -depth; k <= depth; k += 2) {
      const down = k === -depth || (k !== depth && reach.get(k - 1) < reach.get(k + 1));
      let x = down ? reach.get(k + 1) : reach.get(k - 1) + 1;
      while (x < n && x - k < m && before[x] === after[x - k]) x++;
      reach.set(k, x);
      if (x >= n && x - k >= m) return backtrack(before, after, trace);
    }
  }
  return [...before.map((item) => ["-", item]), ...after.map((item) => ["+", item])];
}

function backtrack(before, after, trace) {
  const script = [];
  let [x, y] = [before.length, after.length];
  for (let depth = trace.length - 1; depth >= 0; depth--) {
    const reach = trace[depth];
    const k = x - y;
    const down = k === -depth || (k !== depth && reach.get(k - 1) < reach.get(k + 1));
    const fromX = depth ? (down ? reach.get(k + 1) : reach.get(k - 1)) : 0;
    const fromY = depth ? fromX - (down ? k + 1 : k - 1) : 0;
    while (x > fromX && y > fromY && before[x - 1] === after[y - 1]) {
      script.push(["=", before[x - 1]]);
      x--;
      y--;
    }
    if (depth) script.push(down ? ["+", after[--y]] : ["-", before[--x]]);
  }
  return script.reverse();
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
    if (part.length === 1 || !part.fold) view.append(...part.map(diffRow));
    else view.append(foldButton(part));
  }
  return view;
}

function markWords(removed, added) {
  const words = (text) => text.match(/\w+|\s+|[^\w\s]/g) || [];
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

function foldButton(rows) {
  const button = h("button", { type: "button" }, `${rows.length} equal lines`);
  button.addEventListener("click", () => button.replaceWith(...rows.map(diffRow)));
  return button;
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
