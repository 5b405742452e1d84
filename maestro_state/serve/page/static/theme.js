// Runs before anything is drawn: the theme that was chosen here, if one was.
(() => {
  const chosen = localStorage.getItem("maestro.theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
})();
