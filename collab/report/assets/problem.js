// The problem: what the first agent was asked.

function problemCard(data, episode) {
  const first = episode.turns[0]?.decisions[0];
  const message = first?.observation.findLast(({ role }) => role === "user") ?? first?.observation.at(-1);
  if (!message) return null;
  const text = prose(data, message.content);
  for (const [key, value] of [["tabindex", 0], ["role", "region"], ["aria-label", `what ${first.agent} was asked`]])
    text.setAttribute(key, value);
  const head = h("h3", "Problem ", h("small", `as ${first.agent} was asked`));
  return h("section", { class: "card problem", "aria-label": "Problem" }, head, text);
}
