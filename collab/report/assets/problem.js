// What was asked: the problem's public fields, or, where they cannot be had, what agents were told.

const LONG = 160; // characters of a field that stands in a block of its own

function problemCard(data, episode) {
  const fields = episode.problem.filter(([, place]) => textOf(data, place).trim());
  if (fields.length) {
    const isShort = (text) => text.length < LONG && !text.trim().includes("\n");
    const order = (field) => Number(isShort(textOf(data, field[1]))); // long ones first
    const rows = [...fields].sort((a, b) => order(a) - order(b)).map(([name, place]) => {
      const text = textOf(data, place);
      const short = isShort(text);
      return h("div", { class: !short && "long" }, h("dt", name), h("dd", short ? text : asked(data, place, name)));
    });
    return h("section", { class: "card problem", "aria-label": "Problem" }, h("h3", "Problem"), h("dl", rows));
  }
  const first = episode.turns[0]?.decisions[0];
  const message = first?.observation.findLast(({ role }) => role === "user") ?? first?.observation.at(-1);
  if (!message) return null;
  const head = h("h3", "Problem ", h("small", `as ${first.agent} was asked`));
  const text = asked(data, message.content, `what ${first.agent} was asked`);
  return h("section", { class: "card problem", "aria-label": "Problem" }, head, text);
}

function asked(data, place, name) {
  const text = prose(data, place);
  for (const [key, value] of [["tabindex", 0], ["role", "region"], ["aria-label", name]])
    text.setAttribute(key, value);
  return text;
}
