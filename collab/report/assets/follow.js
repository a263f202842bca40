// Of a page that is served: asks whether its runs have gone on, and shows them as they are now.

const EVERY = 4000; // milliseconds between two questions

const followed = byId("follows");

function isBusy() {
  const focus = document.activeElement;
  return Boolean(document.querySelector("dialog[open]") || focus?.closest("input, select, details .plot"));
}

// The page anew, where it was and with what was open.
function again() {
  const open = [...document.querySelectorAll("details")].map((one) => one.open);
  sessionStorage.setItem("collab-open", JSON.stringify({ at: location.search, open }));
  location.reload();
}

function reopen() {
  const kept = JSON.parse(sessionStorage.getItem("collab-open") ?? "null");
  sessionStorage.removeItem("collab-open");
  const details = [...document.querySelectorAll("details")];
  if (kept?.at !== location.search || kept.open.length !== details.length) return;
  details.forEach((one, n) => {
    one.open = kept.open[n];
  });
}

async function ask() {
  if (document.hidden) return;
  try {
    const answer = await fetch(followed.dataset.at, { cache: "no-store" });
    const { stamp, working } = await answer.json();
    followed.textContent = working ? "running" : "";
    if (stamp === followed.dataset.stamp) return;
    if (!isBusy()) again();
    else followed.textContent = "there are updates; close this to see them";
  } catch {
    followed.textContent = "the server has stopped";
  }
}

setInterval(ask, EVERY);
new MutationObserver((_, observer) => {
  observer.disconnect();
  reopen();
}).observe(document.documentElement, { attributeFilter: ["data-ready"] });
