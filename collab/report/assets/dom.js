// Elements and words. Strings become text nodes only: nothing of a run is ever read as markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, [first, ...rest]) {
  const named = first && Object.getPrototypeOf(first) === Object.prototype;
  for (const [name, value] of Object.entries(named ? first : {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of named ? rest.flat(3) : [first, ...rest].flat(3)) {
    if (child !== null && child !== undefined && child !== false) node.append(child);
  }
  return node;
}

// An element: its tag, its attributes if it has any, and what is in it.
function h(tag, ...content) {
  return fill(document.createElement(tag), content);
}

function s(tag, ...content) {
  return fill(document.createElementNS(SVG, tag), content);
}

// A table with row titles in its first column.
function tableOf(heads, rows, kind = "plain") {
  const head = heads.map((name, n) => h("th", { scope: "col", class: n > 0 && "right" }, name));
  return h("table", { class: kind }, h("thead", h("tr", head)), h("tbody", rows));
}

function byId(id) {
  return document.getElementById(id);
}

function fixed(value, digits = 2) {
  if (value === null || value === undefined) return "–";
  const text = value.toFixed(digits);
  return Number(text) === 0 ? (0).toFixed(digits) : text.replace("-", "−");
}

// A reward or a return, of the largest that it could have been.
function outOf(value, largest) {
  const known = ![value, largest].some((one) => one === null || one === undefined);
  return known ? `${fixed(value)} of ${fixed(largest)}` : fixed(value);
}

function signed(value, digits = 2) {
  const text = fixed(value, digits);
  return value > 0 && Number(text) !== 0 ? `+${text}` : text;
}

function count(value) {
  return value === null || value === undefined ? "–" : Math.round(value).toLocaleString("en");
}

// How many decimals tell values of such a range apart: equal for all that stand together.
function decimalsOf(range) {
  const digits = 2 - Math.floor(Math.log10(range || 1));
  return range >= 1 && range < 100 ? 2 : Math.max(0, digits);
}

// A value in the unit of a panel, with the decimals of its panel.
function amount(value, unit, digits = 2) {
  if (value === null || value === undefined) return "–";
  if (unit === "share") return `${fixed(100 * value, 1)} %`;
  const text = digits > 5 ? exponent(value) : digits ? fixed(value, digits) : count(value);
  return unit === "seconds" ? `${text} s` : text;
}

function exponent(value) {
  return value ? value.toExponential(1).replace("-", "−") : "0";
}

function plural(number, word) {
  return `${count(number)} ${word}${number === 1 ? "" : "s"}`;
}
