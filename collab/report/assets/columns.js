// The columns of the list of episodes: what each shows, and by what it is ordered.

const COLUMNS = [
  {
    name: "Episode",
    key: (episode) => [episode.task, episode.run, episode.step || 0, episode.sample],
    cell: (episode, place) => h("a", { href: `#episode/${place}` }, episode.id),
  },
  {
    name: "Run",
    key: (episode) => episode.run,
    cell: (episode, _, data) => data.runs[episode.run].name,
    only: (data) => data.runs.length > 1,
  },
  {
    name: "Step",
    key: (episode) => episode.step,
    cell: (episode) => (episode.step === null ? "" : count(episode.step)),
    right: true,
    only: (data) => data.episodes.some((e) => e.step !== null),
  },
  { name: "Phase", key: (episode) => phaseOf(episode), only: (data) => data.episodes.some((e) => e.mode) },
  { name: "Verdict", key: (episode) => episode.verdict, cell: (episode) => verdictChip(episode.verdict) },
  {
    name: "Return",
    key: (episode) => episode.return,
    cell: (episode) => outOf(episode.return, episode.largest_return),
    right: true,
  },
  {
    name: "Signs",
    key: (episode) => signsOf(episode).join(" "),
    cell: (episode) => signChips(episode),
    only: (data) => data.episodes.some((e) => signsOf(e).length),
  },
  {
    name: "Turns",
    key: (episode) => episode.turns.length,
    cell: (episode) => turnsOf(episode),
    right: true,
    only: (data) => data.episodes.some((e) => e.turns.length > 1 || e.horizon),
  },
  { name: "Tokens", key: (episode) => episode.tokens, cell: (episode) => count(episode.tokens), right: true },
];

// The columns, those that the rewards declare after the return.
function columnsOf(data) {
  const heads = [...new Set(data.episodes.flatMap((episode) => Object.keys(episode.shown)))];
  const declared = heads.map((head) => ({
    name: head[0].toUpperCase() + head.slice(1),
    key: (episode) => episode.shown[head]?.[1],
    cell: (episode) => episode.shown[head]?.[0] ?? "",
    right: true,
  }));
  const place = COLUMNS.findIndex((column) => column.name === "Return") + 1;
  const all = [...COLUMNS.slice(0, place), ...declared, ...COLUMNS.slice(place)];
  return all.filter((column) => !column.only || column.only(data));
}

function phaseOf(episode) {
  return [episode.phase, episode.mode].filter(Boolean).join(", ");
}

// How many turns were played, and of how many where the task was solved before the last one.
function turnsOf(episode) {
  const played = count(episode.turns.length);
  return episode.horizon ? `${played} of ${count(episode.horizon)}` : played;
}

function signsOf(episode) {
  return [...episode.flags, ...(episode.cut ? ["truncated"] : [])];
}

function signChips(episode) {
  return signsOf(episode).map((sign) => h("span", { class: "chip flag" }, sign));
}

function verdictChip(verdict) {
  return h("span", { class: `chip ${verdict.split(" ")[0]}` }, verdict);
}
