// Chooses the theme before anything is painted: the entry imports it first.
{
  const chosen = localStorage.getItem("registrar.theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
}
