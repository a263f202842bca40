// A turn: each agent's observation, response, artefact and feedback; the joint work; its reward.

const SHORT = 600; // characters of feedback that is shown without being asked for

function textOf(data, place) {
  return place === undefined ? "" : data.texts[place];
}

// The n-th turn; with `earlier`, what changed since that turn in place of the works themselves.
function turnView(data, episode, n, earlier) {
  const turn = episode.turns[n];
  const before = n ? episode.turns[n - 1].score : null;
  const agents = [...new Set(turn.decisions.map((decision) => decision.agent))];
  return h(
    "section",
    { class: "turn", "aria-label": `Turn ${n + 1}` },
    h("h3", `Turn ${n + 1}`, turn.score && h("small", scoreLine(turn.score, before))),
    h(
      "div",
      { class: "columns" },
      agents.map((agent) => agentCard(data, episode, turn, agent, earlier)),
    ),
    jointCard(data, episode, turn, earlier),
    turn.score && scoreCard(data, turn.score),
    turn.failures.map((failure) => failureNote(data, failure, "went on without: ")),
  );
}

function agentCard(data, episode, turn, agent, earlier) {
  const decisions = turn.decisions.filter((decision) => decision.agent === agent);
  const artefact = turn.artefacts[agent];
  const made = textOf(data, artefact).trim() !== "";
  const last = decisions.at(-1);
  const card = h("article", { class: "card" }, agentHead(agent, decisions));
  for (const decision of decisions) {
    if (decisions.length > 1) card.append(h("h5", `Round ${decision.round + 1}`));
    card.append(observation(data, decision));
    if (decision.failure) card.append(failureNote(data, decision.failure));
    if (decision !== last || !made || decision.text !== artefact) {
      const open = decision === last && !made;
      card.append(h("details", { open }, h("summary", "Response"), prose(data, decision.text)));
    }
  }
  if (made) card.append(...artefactOf(data, episode, agent, artefact, last, earlier));
  card.append(
    ...(turn.feedback[agent] || []).map((item) => feedbackOf(data, item)).filter(Boolean),
  );
  return card;
}

function agentHead(agent, decisions) {
  const last = decisions.at(-1);
  const sum = (key) => decisions.reduce((total, decision) => total + decision[key], 0);
  const facts = [
    last.model,
    last.adapter && `adapter ${last.adapter}`,
    plural(sum("new_tokens"), "token"),
    `${fixed(sum("seconds"), 1)} s`,
    last.logprobs && `log-prob ${fixed(last.logprobs.mean)} a token`,
    last.logprobs && `least ${fixed(last.logprobs.least)}`,
    last.cost !== null && `$${fixed(last.cost, 4)}`,
  ];
  const cut = last.finish === "length" && h("span", { class: "chip flag" }, "cut off at its limit");
  return h("header", h("h4", agent, " ", cut), h("small", facts.filter(Boolean).join(" · ")));
}

function observation(data, decision) {
  const told = `Observes (${plural(decision.prompt_tokens, "prompt token")})`;
  const messages = decision.observation.map(([role, place]) => [h("h5", role), prose(data, place)]);
  return h("details", h("summary", told), messages);
}

function artefactOf(data, episode, agent, artefact, last, earlier) {
  const before = earlier && earlier.artefacts[agent];
  if (before !== null && before !== undefined) {
    const changes = difference(data, before, artefact, `${agent}'s artefact`);
    return [h("h5", "Artefact, against the turn before"), changes];
  }
  const title = last.text === artefact ? "Response, as a whole the artefact" : "Artefact";
  return [h("h5", title), work(data, episode, artefact)];
}

function feedbackOf(data, item) {
  const text = textOf(data, item.text);
  if (!text.trim()) return null;
  const summary = h("summary", `Is told for the next turn (${item.source})`);
  return h("details", { open: text.length < SHORT }, summary, prose(data, item.text));
}

function prose(data, place) {
  const text = textOf(data, place);
  return text.trim()
    ? h("pre", { class: "text" }, text.replace(/^\n+|\s+$/g, ""))
    : h("p", { class: "text empty" }, "empty");
}

// An artefact: a program with its lines numbered and those in `proofs` marked, or a text.
function work(data, episode, place, proofs = new Set()) {
  if (!data.runs[episode.run].language) return prose(data, place);
  const rows = highlight(textOf(data, place).replace(/\s+$/, "")).map((line, n) => {
    const content = line.length ? pieces(line) : "\u00a0";
    return h("div", { "data-n": n + 1, class: proofs.has(n + 1) && "proof" }, h("span", content));
  });
  return h("pre", { class: "code" }, rows);
}

function difference(data, before, after, label) {
  const [a, b] = [before, after].map((place) => textOf(data, place).replace(/\s+$/, ""));
  if (a !== b) return diffView(a, b, `Changes in ${label}`);
  return h("p", { class: "text empty" }, a ? "the same in both" : "empty in both");
}

function jointCard(data, episode, turn, earlier) {
  if (!textOf(data, turn.joint).trim()) return null;
  const schemes = (turn.score && turn.score.schemes) || [];
  const proofs = new Set(schemes.flatMap((scheme) => scheme.lines));
  const happened = turn.score ? turn.score.happened : "";
  const made = data.runs[episode.run].language ? "Joint program" : "Joint artefact";
  const title = happened ? "State" : made;
  return h(
    "article",
    { class: "card" },
    h(
      "header",
      h("h4", title),
      proofs.size && !earlier ? h("small", "Marked lines prove the scheme.") : null,
      happened ? h("small", happened) : null,
    ),
    schemes.length ? schemeList(data, schemes) : null,
    earlier
      ? difference(data, earlier.joint, turn.joint, title.toLowerCase())
      : work(data, episode, turn.joint, proofs),
  );
}

function schemeList(data, schemes) {
  const rows = schemes.map((scheme, n) => {
    const name = h("span", { class: n ? "chip" : "chip scheme" }, scheme.name);
    const lines = `, line${scheme.lines.length > 1 ? "s" : ""} ${scheme.lines.join(", ")}`;
    return h(
      "li",
      name,
      " ",
      textOf(data, scheme.why),
      scheme.lines.length ? h("small", lines) : null,
    );
  });
  return h("ul", { class: "schemes", "aria-label": "How the agents work together" }, rows);
}

function scoreCard(data, score) {
  const judged = [
    score.isolation && `judged in ${fixed(score.seconds)} s, isolation ${score.isolation}`,
    score.flags.length && `flags: ${score.flags.join(", ")}`,
  ];
  const head = h("header", h("h4", "Joint reward"), h("small", judged.filter(Boolean).join("; ")));
  const card = h("article", { class: "card" }, head);
  if (score.parts.length) card.append(partsTable(data, score.parts));
  if (score.failures.length) {
    const rows = score.failures.map((place) => h("li", h("code", textOf(data, place))));
    card.append(h("h5", "Tests that did not hold; agents never see these"));
    card.append(h("ul", { class: "lines" }, rows));
  }
  return card;
}

function partsTable(data, parts) {
  const rows = parts.map((part) => {
    const shown = (value) => (part.applies ? fixed(value) : "–");
    const watched = part.applies && !part.weight; // without points: its value is what it tells
    return h(
      "tr",
      h("th", { scope: "row" }, part.name),
      h(
        "td",
        { class: `right ${part.applies ? tone(part.points) : "dim"}` },
        watched ? amount(part.value, "share") : shown(part.points),
      ),
      h("td", { class: "right dim" }, watched ? "–" : shown(part.weight)),
      h("td", { class: "why" }, textOf(data, part.reason)),
    );
  });
  const table = tableOf(["Part", "Points", "Of", "Why"], rows, "plain parts reasons");
  return h(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": "Parts of the reward" },
    table,
  );
}

function failureNote(data, failure, prefix = "") {
  const kind = prefix ? "fail soft" : "fail";
  const told = ` (${failure.boundary}): ${textOf(data, failure.message)}`;
  return h("p", { class: kind }, prefix, h("b", failure.type), told);
}

function scoreLine(score, before) {
  const change = before ? ` (${signed(score.reward - before.reward)} from the turn before)` : "";
  const told = score.told.map((text) => `, ${text}`).join("");
  const largest = score.maximum ? ` of ${fixed(score.maximum)}` : "";
  return ` reward ${fixed(score.reward)}${largest}${change}${told}`;
}

function tone(points) {
  if (!points) return "";
  return points > 0 ? "good" : "bad";
}
