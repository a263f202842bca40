// A turn: each agent's observation, response, artifact and feedback; the joint work; its reward.

const SHORT = 600; // characters of feedback that is shown without being asked for

function textOf(data, place) {
  return place === undefined ? "" : data.texts[place];
}

// The n-th turn: its reward next to what the agents did, in the order in which they did it. With
// `earlier`, what changed since that turn in place of the works themselves.
function turnView(data, episode, n, earlier) {
  const turn = episode.turns[n];
  const before = n ? episode.turns[n - 1].score : null;
  const stages = stagesOf(turn);
  const drawn = stages.map((stage, place) =>
    stageView(data, episode, turn, stage, { number: stages.length > 1 && place + 1, earlier }),
  );
  return h(
    "section",
    { class: "turn", "aria-label": `Turn ${n + 1}` },
    h("h3", `Turn ${n + 1}`, turn.score && h("small", scoreLine(turn.score, before))),
    h(
      "div",
      { class: turn.score && "judged" },
      turn.score && h("aside", { "aria-label": `Joint reward of turn ${n + 1}` }, scoreCard(data, turn.score, n)),
      h("div", { class: "works" }, h("ol", { class: "stages" }, drawn), jointCard(data, episode, turn, earlier)),
    ),
    turn.failures.map((failure) => failureNote(data, failure, "continued without: ")),
  );
}

// Who acted when: agents of one round acted at the same time.
function stagesOf(turn) {
  const rounds = [...new Set(turn.decisions.map((decision) => decision.round))].sort((a, b) => a - b);
  return rounds.map((round) => {
    const decisions = turn.decisions.filter((decision) => decision.round === round);
    const agents = [...new Set(decisions.map((decision) => decision.agent))];
    return agents.map((agent) => decisions.filter((decision) => decision.agent === agent));
  });
}

function stageView(data, episode, turn, stage, { number, earlier }) {
  const card = (decisions) => agentCard(data, episode, turn, decisions, { number, earlier });
  return h("li", { class: "columns" }, stage.map(card));
}

// What an agent did in one round; its artifact is shown where it made it, in its last one.
function agentCard(data, episode, turn, decisions, { number, earlier }) {
  const last = decisions.at(-1);
  const { agent } = last;
  const ends = turn.decisions.findLast((decision) => decision.agent === agent) === last;
  const artifact = turn.artifacts[agent];
  const made = ends && textOf(data, artifact).trim() !== "";
  const card = h("article", { class: "card" }, agentHead(agent, decisions, number));
  decisions.forEach((decision, step) => {
    if (decisions.length > 1) card.append(h("h5", `Step ${step + 1}`));
    card.append(observation(data, decision));
    const { failure, text } = decision.action;
    if (failure) card.append(failureNote(data, failure));
    if (decision !== last || !made || text !== artifact) {
      const open = decision === last && !made;
      card.append(h("details", { open }, h("summary", "Response"), prose(data, text)));
    }
  });
  if (made) card.append(...artifactOf(data, episode, agent, artifact, last, earlier));
  const told = ends ? turn.feedback[agent] || [] : [];
  card.append(...told.map((item) => feedbackOf(data, item)).filter(Boolean));
  return card;
}

function agentHead(agent, decisions, number) {
  const last = decisions.at(-1);
  const { action } = last;
  const sum = (value) => decisions.reduce((total, decision) => total + value(decision.action), 0);
  const facts = [
    last.saw.length && `sees ${last.saw.join(", ")}`,
    action.model,
    action.adapter && `adapter ${action.adapter}`,
    plural(sum(({ usage }) => usage.new_tokens), "token"),
    `${fixed(sum(({ seconds }) => seconds), 1)} s`,
    action.logprobs && `log-prob ${fixed(action.logprobs.mean)} per token`,
    action.logprobs && `least ${fixed(action.logprobs.least)}`,
    action.usage.cost !== null && `$${fixed(action.usage.cost, 4)}`,
  ];
  const cut = action.finish_reason === "length" && h("span", { class: "chip flag" }, "truncated at its limit");
  const order = number && h("span", { class: "order", "aria-label": `acts in round ${number}:` }, number);
  return h("header", h("h4", order, agent, " ", cut), h("small", facts.filter(Boolean).join(" · ")));
}

function observation(data, decision) {
  const told = `Observes (${plural(decision.action.usage.prompt_tokens, "prompt token")})`;
  const messages = decision.observation.map(({ role, content }) => [h("h5", role), prose(data, content)]);
  return h("details", h("summary", told), messages);
}

function artifactOf(data, episode, agent, artifact, last, earlier) {
  const before = earlier && earlier.artifacts[agent];
  if (before !== null && before !== undefined) {
    const changes = difference(data, before, artifact, `${agent}'s artifact`);
    return [h("h5", "Artifact, compared with the turn before"), changes];
  }
  const title = last.action.text === artifact ? "Response (all of it is the artifact)" : "Artifact";
  return [h("h5", title), work(data, episode, artifact)];
}

function feedbackOf(data, item) {
  const text = textOf(data, item.text);
  if (!text.trim()) return null;
  const summary = h("summary", `Feedback for the next turn (${item.source})`);
  return h("details", { open: text.length < SHORT }, summary, prose(data, item.text));
}

function prose(data, place) {
  const text = textOf(data, place);
  return text.trim()
    ? h("pre", { class: "text" }, text.replace(/^\n+/, "").trimEnd())
    : h("p", { class: "text empty" }, "empty");
}

// An artifact: a program with its lines numbered, or other text.
function work(data, episode, place) {
  if (!data.runs[episode.run].language) return prose(data, place);
  const rows = highlight(textOf(data, place).trimEnd()).map((line, n) => {
    const content = line.length ? pieces(line) : "\u00a0";
    return h("div", { "data-n": n + 1 }, h("span", content));
  });
  return h("pre", { class: "code" }, rows);
}

function difference(data, before, after, label) {
  const [a, b] = [before, after].map((place) => textOf(data, place).trimEnd());
  if (a !== b) return diffView(a, b, `Changes in ${label}`);
  return h("p", { class: "text empty" }, a ? "the same in both" : "empty in both");
}

function jointCard(data, episode, turn, earlier) {
  if (!textOf(data, turn.joint).trim()) return null;
  const happened = turn.score ? turn.score.summary : "";
  const made = data.runs[episode.run].language ? "Joint program" : "Joint artifact";
  const title = happened ? "State" : made;
  const content = earlier
    ? difference(data, earlier.joint, turn.joint, title.toLowerCase())
    : work(data, episode, turn.joint);
  return h("article", { class: "card" }, h("header", h("h4", title), happened && h("small", happened)), content);
}

function scoreCard(data, score, n) {
  const scored = [
    score.isolation && `scored in ${fixed(score.seconds)} s, isolation ${score.isolation}`,
    score.flags.length && `flags: ${score.flags.join(", ")}`,
  ];
  const total = score.maximum ? h("span", { class: "dim" }, ` of ${fixed(score.maximum)}`) : null;
  const worth = h("p", { class: "worth" }, h("b", fixed(score.reward)), total);
  const head = h("header", h("h4", "Joint reward"), worth, h("small", scored.filter(Boolean).join("; ")));
  const card = h("article", { class: "card" }, head);
  if (score.parts.length) card.append(partsTable(data, score.parts, n));
  if (score.failures.length) {
    const rows = score.failures.map((place) => h("li", h("code", textOf(data, place))));
    card.append(h("h5", "Failed tests; agents never see these"));
    card.append(h("ul", { class: "lines" }, rows));
  }
  return card;
}

// The parts with their points, and below each why.
function partsTable(data, parts, n) {
  const rows = parts.map((part) => {
    const shown = (value) => (part.applies ? fixed(value) : "–");
    const watched = part.applies && !part.weight; // without points: its value is what it tells
    const why = textOf(data, part.reason).trim();
    const points = watched ? amount(part.value, "share") : shown(part.points);
    return h(
      "tr",
      h("th", { scope: "row" }, part.name, why && h("small", why)),
      h("td", { class: `right ${part.applies ? tone(part.points) : "dim"}` }, points),
      h("td", { class: "right dim" }, watched ? "–" : shown(part.weight)),
    );
  });
  const label = `Parts of the reward, turn ${n + 1}`;
  const table = tableOf(["Part", "Points", "Of"], rows, "plain parts");
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, table);
}

function failureNote(data, failure, prefix = "") {
  const kind = prefix ? "fail soft" : "fail";
  const told = ` (${failure.boundary}): ${textOf(data, failure.message)}`;
  return h("p", { class: kind }, prefix, h("b", failure.type), told);
}

function scoreLine(score, before) {
  const change = before ? ` (${signed(score.reward - before.reward)} from the turn before)` : "";
  const told = score.measured.map((text) => `, ${text}`).join("");
  const largest = score.maximum ? ` of ${fixed(score.maximum)}` : "";
  return ` reward ${fixed(score.reward)}${largest}${change}${told}`;
}

function tone(points) {
  if (!points) return "";
  return points > 0 ? "good" : "bad";
}
