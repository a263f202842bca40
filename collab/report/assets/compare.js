// Two episodes of one task, side by side; the earlier one comes first.

// What an episode can be compared with: [[value, label, group], ...].
function comparisons(data, place) {
  const episode = data.episodes[place];
  const options = [["", "nothing", ""]];
  if (episode.turns.length > 1) options.push(["turn", "the turn before", ""]);
  const same = data.episodes.map((_, n) => n).filter((n) => data.episodes[n].task === episode.task);
  const far = otherEnd(data, same, place);
  if (far !== null) {
    options.push([String(far), `before and after training: ${labelOf(data, far)}`, ""]);
  }
  for (const other of same) {
    if (other === far || other === place) continue;
    options.push([String(other), labelOf(data, other), `Other episodes of ${episode.task}`]);
  }
  return options;
}

// For an episode of the first step, one of the last step; for any other, one of the first step. Of
// the same sample, if there is one; null without training.
function otherEnd(data, places, place) {
  const { run, mode, sample, step } = data.episodes[place];
  const alike = places.filter((n) => data.episodes[n].run === run && data.episodes[n].mode === mode);
  const steps = alike.map((n) => data.episodes[n].step).filter((number) => number !== null);
  const [first, last] = [Math.min(...steps), Math.max(...steps)];
  if (!steps.length || first === last) return null;
  const end = alike.filter((n) => data.episodes[n].step === (step === first ? last : first));
  return end.find((n) => data.episodes[n].sample === sample) ?? end[0];
}

function labelOf(data, place) {
  const episode = data.episodes[place];
  const words = [
    episode.id,
    whenOf(episode),
    data.runs.length > 1 && data.runs[episode.run].name,
    episode.verdict,
    episode.return !== null && fixed(episode.return),
  ];
  return words.filter(Boolean).join(", ");
}

// Their last turns: rewards, artifacts, joint work.
function sideBySide(data, place, other) {
  const step = (n) => data.episodes[n].step ?? 0;
  const order = [place, other].sort((a, b) => step(a) - step(b) || a - b);
  const titles = ["Before (−)", "After (+)"];
  const heads = order.map((n, side) => sideHead(data, n, titles[side], n === place));
  const view = [h("div", { class: "columns" }, heads)];
  const [before, after] = order.map((n) => data.episodes[n].turns.at(-1));
  if (!before || !after) {
    return [...view, h("p", { class: "dim" }, "One of the two episodes has no turn to compare.")];
  }
  if (before.score && after.score) view.push(gainsCard(before.score, after.score));
  const agents = new Set([...Object.keys(before.artifacts), ...Object.keys(after.artifacts)]);
  const card = (title, one, two, label) => changesCard(title, difference(data, one, two, label));
  const cards = [...agents].map((agent) =>
    card(agent, before.artifacts[agent], after.artifacts[agent], `${agent}'s artifact`),
  );
  view.push(h("div", { class: "columns" }, cards));
  view.push(card("Joint work", before.joint, after.joint, "the joint work"));
  return view;
}

function sideHead(data, place, title, here) {
  const label = labelOf(data, place);
  const link = here ? h("b", label) : h("a", { href: `#episode/${place}` }, label);
  return h("article", { class: "card" }, h("h3", { class: "side" }, title), h("p", link));
}

function changesCard(title, changes) {
  return h("article", { class: "card" }, h("header", h("h4", title)), changes);
}

function gainsCard(before, after) {
  const names = new Set([...before.parts, ...after.parts].map((part) => part.name));
  const points = (score, name) =>
    score.parts.find((part) => part.name === name && part.applies)?.points ?? null;
  const row = (name, a, b) => {
    const gain = a === null || b === null ? null : b - a;
    const cells = [[fixed(a)], [fixed(b)], [gain === null ? "–" : signed(gain), tone(gain)]];
    const shown = cells.map(([text, kind = ""]) => h("td", { class: `right ${kind}` }, text));
    return h("tr", h("th", { scope: "row" }, name), shown);
  };
  const rows = [row("reward", before.reward, after.reward)];
  for (const name of names) rows.push(row(name, points(before, name), points(after, name)));
  const table = tableOf(["Part", "Before", "After", "Gain"], rows, "plain parts");
  return changesCard("Joint reward of the last turn", table);
}
