// The report's data: gzipped JSON in base64.

async function readData(text) {
  if (typeof DecompressionStream === "undefined") {
    throw new Error("this browser cannot unpack the data (it has no DecompressionStream)");
  }
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text(), withoutInherited);
}

// An object that has only its own keys, because an agent may be called `constructor`.
function withoutInherited(_, value) {
  const isObject = value !== null && typeof value === "object" && !Array.isArray(value);
  return isObject ? Object.setPrototypeOf(value, null) : value;
}

// When an episode was run, in words; null without training.
function whenOf(episode) {
  if (episode.step === null) return null;
  if (!episode.mode) return `step ${episode.step}`;
  return `held out after ${plural(episode.step, "step")}, ${episode.mode}`;
}

// The places of all strings that an episode shows.
function textsOf(episode) {
  const places = [];
  if (episode.failure) places.push(episode.failure.message);
  for (const turn of episode.turns) {
    places.push(turn.joint, ...Object.values(turn.artifacts));
    for (const decision of turn.decisions) {
      places.push(decision.action.text, ...decision.observation.map((message) => message.content));
    }
    for (const items of Object.values(turn.feedback))
      places.push(...items.map((item) => item.text));
    if (turn.score) {
      places.push(...turn.score.failures, ...turn.score.parts.map((part) => part.reason));
    }
  }
  return places;
}
