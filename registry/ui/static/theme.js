// Chooses the theme before anything is painted. A classic script, because modules run later.
{
  const chosen = localStorage.getItem("registrar.theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
}
