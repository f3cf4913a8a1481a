// Runs before anything is drawn, so that no page flashes in the other theme.
(() => {
  let theme = "system";
  try {
    theme = localStorage.getItem("agenda.theme") ?? "system";
  } catch { /* storage may be shut off: then the system's theme is worn */ }
  document.documentElement.dataset.theme = theme;
})();
