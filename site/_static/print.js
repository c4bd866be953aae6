// Nothing scrolls on paper: a table that is too wide for it is printed smaller.
const PAPER = 625; // pixels for a table between the margins of A4

addEventListener("beforeprint", () => {
  for (const table of document.querySelectorAll("article table")) {
    table.style.width = "min-content";
    table.style.zoom = Math.min(1, PAPER / table.scrollWidth);
    table.style.width = "";
  }
});

addEventListener("afterprint", () => {
  for (const table of document.querySelectorAll("article table")) table.style.zoom = "";
});
