// The dialog that shows one episode, alone or next to another one.

// A note that an episode ended before its last turn, and how the skipped turns count.
function endOf(episode) {
  if (!episode.horizon) return "";
  const solved = `solved in turn ${episode.turns.length} of ${episode.horizon}`;
  return solved + (episode.absorbed ? ", its reward counts for the rest" : ", the rest counts nothing");
}

class EpisodeView {
  constructor(data, list) {
    Object.assign(this, { data, list, dialog: byId("episode"), place: null, against: "" });
    this.dialog.addEventListener("close", () => this.closed());
    this.dialog.addEventListener("click", (event) => {
      if (event.target === this.dialog) this.dialog.close();
    });
  }

  // `against` is what it is compared with: "", "turn", or the place of another episode.
  open(place, against = "") {
    const episode = this.data.episodes[place];
    if (!episode) return;
    this.place = place;
    this.options = comparisons(this.data, place);
    this.against = this.options.some(([value]) => value === against) ? against : "";
    const body = h("div", { class: "body" }, this.content(episode));
    this.dialog.replaceChildren(this.header(episode), body);
    if (!this.dialog.open) this.dialog.showModal();
    this.dialog.scrollTop = 0;
    byId("episode-title").focus();
  }

  closed() {
    const place = this.place;
    this.place = null;
    if (/^#(episode|compare)\//.test(location.hash)) location.hash = "#episodes";
    this.list.focus(place);
  }

  step(distance) {
    const next = this.list.beside(this.place, distance);
    if (next === undefined) return;
    this.open(next);
    location.hash = `#episode/${next}`;
  }

  cycle() {
    const values = this.options.map(([value]) => value);
    this.open(this.place, values[(values.indexOf(this.against) + 1) % values.length]);
    this.say(this.told());
  }

  // What is compared, in words.
  told() {
    if (this.options.length < 2)
      return "There is nothing to compare with: no earlier turn and no other episode of this problem.";
    const [, label] = this.options.find(([value]) => value === this.against);
    return this.against ? `Compared with ${label}` : "Compared with nothing";
  }

  say(text) {
    this.dialog.querySelector("[role=status]").textContent = text;
  }

  header(episode) {
    const chips = [
      verdictChip(episode.verdict),
      signChips(episode),
    ];
    const facts = [
      this.data.runs.length > 1 && this.data.runs[episode.run].name,
      whenOf(episode),
      episode.return !== null && `return ${outOf(episode.return, episode.largest_return)}`,
      endOf(episode),
      `seed ${episode.seed}`,
      plural(episode.tokens, "token"),
      `${fixed(episode.seconds, 1)} s`,
      episode.started.slice(0, 16).replace("T", " "),
    ];
    const title = h("h2", { id: "episode-title", tabindex: -1 }, episode.id, " ", chips);
    const told = h("small", facts.filter(Boolean).join(" · "));
    return h(
      "header",
      h("div", { class: "head" }, title, this.buttons()),
      h("div", { class: "sub" }, told, this.options.length > 1 && this.chooser()),
      h("p", { class: "dim", role: "status" }),
    );
  }

  buttons() {
    const beside = (distance, sign, label) => {
      const disabled = this.list.beside(this.place, distance) === undefined;
      const onclick = () => this.step(distance);
      return h("button", { type: "button", "aria-label": label, disabled, onclick }, sign);
    };
    const onclick = () => this.dialog.close();
    return h(
      "nav",
      { "aria-label": "Episodes" },
      beside(-1, "↑", "Previous episode"),
      beside(1, "↓", "Next episode"),
      h("button", { type: "button", "aria-label": "Close", onclick }, "✕"),
    );
  }

  chooser() {
    const groups = new Map();
    for (const [value, label, group] of this.options) {
      if (!groups.has(group)) groups.set(group, []);
      groups.get(group).push(h("option", { value, selected: value === this.against }, label));
    }
    const content = [...groups].map(([label, options]) =>
      label ? h("optgroup", { label }, options) : options,
    );
    const select = h("select", { id: "against" }, content);
    select.addEventListener("change", () => {
      this.open(this.place, select.value);
      byId("against").focus();
    });
    return h("label", "Compare with", select);
  }

  content(episode) {
    const { turns, failure } = episode;
    const parts = [];
    if (this.against && this.against !== "turn") {
      parts.push(sideBySide(this.data, this.place, Number(this.against)));
    } else if (this.against === "turn") {
      // The first turn has none before it.
      parts.push(turns.slice(1).map((_, n) => turnView(this.data, episode, n + 1, turns[n])));
    } else {
      parts.push(problemCard(this.data, episode));
      parts.push(turns.map((_, n) => turnView(this.data, episode, n, null)));
    }
    if (failure) parts.push(failureNote(this.data, failure));
    if (!turns.length && !failure) parts.push(h("p", { class: "dim" }, "No turn was played."));
    return parts.filter(Boolean);
  }
}
