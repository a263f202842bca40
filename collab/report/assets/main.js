// What the page does: unpack, draw, listen.

function follow(view) {
  const [kind, ...places] = location.hash.slice(1).split("/");
  const [place, other] = places.map(Number);
  if (kind === "episode" && place === view.place) return;
  if (kind === "episode" && Number.isInteger(place)) view.open(place);
  else if (kind === "compare" && Number.isInteger(place)) view.open(place, String(other));
  else if (view.dialog.open) view.dialog.close();
}

// Arrows scroll the page until the list is entered, and what scrolls by itself.
function listen(list, view) {
  listenToKeys(list, (event, inList) => {
    const next = () => view.step(1);
    const previous = () => view.step(-1);
    if (view.dialog.open) {
      const arrows = { ArrowRight: next, ArrowLeft: previous };
      const keys = { j: next, k: previous, d: () => view.cycle() };
      return event.target.closest("[role=region]") ? keys : { ...keys, ...arrows };
    }
    const arrows = { ArrowDown: inList.j, ArrowUp: inList.k };
    return event.target.closest("#list") ? { ...inList, ...arrows } : inList;
  });
}

// A link to what is folded opens it.
function unfold() {
  const target = location.hash === "#settings" && byId("settings");
  if (target) target.querySelector("details").open = true;
}

async function main() {
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
