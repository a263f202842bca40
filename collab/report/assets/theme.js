// Colours: as the system has them, or as they were chosen here.

const THEMES = { "": "Auto", light: "Light", dark: "Dark" };

function setTheme(theme) {
  const root = document.documentElement;
  if (theme) root.dataset.theme = theme;
  else delete root.dataset.theme;
  byId("theme").textContent = THEMES[theme];
  const told = theme ? theme : "as the system";
  byId("theme").setAttribute("aria-label", `Colours: ${told}`);
  try {
    localStorage.setItem("collab-theme", theme);
  } catch {
    // A browser may keep nothing for a file; the choice then lasts as long as the page.
  }
}

function nextTheme() {
  const names = Object.keys(THEMES);
  const now = names.indexOf(document.documentElement.dataset.theme || "");
  setTheme(names[(now + 1) % names.length]);
}

function storedTheme() {
  try {
    const theme = localStorage.getItem("collab-theme");
    return theme in THEMES ? theme : "";
  } catch {
    return "";
  }
}

function startTheme() {
  setTheme(storedTheme());
  byId("theme").addEventListener("click", nextTheme);
}
