// Python in color, one array of [class, text] for each line.

const TOKENS = new RegExp(
  [
    /(?<s>[rbfuRBFU]{0,2}(?:"""[\s\S]*?(?:"""|$(?![\s\S]))|'''[\s\S]*?(?:'''|$(?![\s\S]))|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?))/,
    /(?<m>#[^\n]*)/,
    /(?<n>\b\d[\d_.a-fA-FxXobjeE]*)/,
    /(?<f>@[\w.]+|(?<=\b(?:def|class)[ \t]{1,9})\w+)/,
    /(?<k>\b(?:False|None|True|and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally|for|from|global|if|import|in|is|lambda|nonlocal|not|or|pass|raise|return|try|while|with|yield)\b)/,
    /[A-Za-z_]\w*/,
  ]
    .map((part) => part.source)
    .join("|"),
  "g",
);

function highlight(text) {
  const lines = [[]];
  const add = (kind, part) => {
    part.split("\n").forEach((piece, number) => {
      if (number) lines.push([]);
      if (piece) lines.at(-1).push([kind, piece]);
    });
  };
  let end = 0;
  for (const found of text.matchAll(TOKENS)) {
    const kind = Object.keys(found.groups).find((name) => found.groups[name] !== undefined);
    if (!kind) continue;
    add("", text.slice(end, found.index));
    add(kind, found[0]);
    end = found.index + found[0].length;
  }
  add("", text.slice(end));
  return lines;
}

function pieces(line) {
  return line.map(([kind, text]) => (kind ? h("span", { class: kind }, text) : text));
}
