// What the page does: unpack, draw, listen.

function follow(view) {
  const [kind, ...places] = location.hash.slice(1).split("/");
  const [place, other] = places.map(Number);
  if (kind === "episode" && place === view.place) return;
  if (kind === "episode" && Number.isInteger(place)) view.open(place);
  else if (kind === "compare" && Number.isInteger(place)) view.open(place, String(other));
  else if (view.dialog.open) view.dialog.close();
}

function listen(list, view) {
  const inList = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 };
  const inEpisode = { j: 1, ArrowRight: 1, k: -1, ArrowLeft: -1 };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const search = byId("search");
    if (event.key === "Escape" && document.activeElement === search) {
      search.value = "";
      search.blur();
      list.update();
      return;
    }
    if (document.activeElement === search && ["Enter", "ArrowDown"].includes(event.key)) {
      event.preventDefault();
      list.step(0);
      return;
    }
    if (event.target.closest("input, select, textarea")) return;
    const open = view.dialog.open;
    if (event.key === "?") showKeys();
    else if (byId("keys").open) return;
    else if (event.key === "/" && !open) search.focus();
    else if (event.key === "d" && open) view.cycle();
    else if (open && event.key in inEpisode && !scrolls(event)) view.step(inEpisode[event.key]);
    else if (!open && event.key in inList && !scrolls(event)) list.step(inList[event.key]);
    else return;
    event.preventDefault();
  });
}

// Arrows scroll the page until the list is entered, and what scrolls by itself.
function scrolls(event) {
  if (!event.key.startsWith("Arrow")) return false;
  return byId("episode").open
    ? Boolean(event.target.closest("[role=region]"))
    : !event.target.closest("#list");
}

function showKeys() {
  if (byId("keys").open) byId("keys").close();
  else byId("keys").showModal();
}

// A link to what is folded opens it.
function unfold() {
  const target = location.hash === "#settings" && byId("settings");
  if (target) target.querySelector("details").open = true;
}

async function main() {
  byId("help").addEventListener("click", showKeys);
  try {
    const data = await readData(byId("data").textContent);
    if (byId("curves")) drawCurves(byId("curves"), data.panels, data.cohorts);
    const list = new List(data);
    const view = new EpisodeView(data, list);
    listen(list, view);
    addEventListener("hashchange", () => follow(view));
    addEventListener("hashchange", unfold);
    unfold();
    follow(view);
    document.querySelector("section:target")?.scrollIntoView();
    document.documentElement.dataset.ready = "";
  } catch (error) {
    byId("broken").textContent = `The curves and episodes cannot be shown: ${error.message}.`;
    byId("broken").hidden = false;
    throw error;
  }
}

main();
