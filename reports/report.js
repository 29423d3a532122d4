"use strict";
(() => {
  const table = document.getElementById("table");
  const rows = table ? [...table.tBodies[0].rows] : [];

  function filter() {
    const text = document.getElementById("filter-text").value.trim().toLowerCase();
    const status = document.getElementById("filter-status").value;
    const red = document.getElementById("filter-red").checked;
    let shown = 0;
    for (const row of rows) {
      const fits = row.textContent.toLowerCase().includes(text)
        && (!status || row.dataset.statuses.split(" ").includes(status))
        && (!red || row.dataset.tone === "bad" || row.dataset.tone === "unknown");
      row.hidden = !fits;
      shown += fits;
    }
    document.getElementById("filter-count").value = `${shown} of ${rows.length} artifacts`;
  }

  const key = (row, column) => row.cells[column].dataset.key ?? row.cells[column].textContent.trim();

  function sort(header, column) {
    const down = header.getAttribute("aria-sort") === "ascending";
    const order = new Intl.Collator("en", { numeric: false });
    const compare = (a, b) => {
      const [x, y] = [key(a, column), key(b, column)];
      return isNaN(x) || isNaN(y) ? order.compare(x, y) : x === y ? 0 : Number(x) - Number(y);
    };
    rows.sort((a, b) => (down ? -compare(a, b) : compare(a, b)));
    table.tBodies[0].append(...rows);
    for (const other of header.parentNode.cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", down ? "descending" : "ascending");
  }

  if (table) {
    const form = document.getElementById("filter");
    form.hidden = false;
    form.addEventListener("input", filter);
    form.addEventListener("submit", (event) => event.preventDefault());
    filter();
    [...table.tHead.rows[0].cells].forEach((header, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = header.textContent;
      button.addEventListener("click", () => sort(header, column));
      header.replaceChildren(button);
    });
  }

  for (const command of document.querySelectorAll(".command")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(command.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(command);
        button.textContent = "Selected: press Ctrl+C";
      }
    });
    command.previousElementSibling.append(button);
  }

  function openTarget() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target instanceof HTMLDetailsElement) target.open = true;
  }
  addEventListener("hashchange", openTarget);
  openTarget();
  addEventListener("beforeprint", () => {
    for (const failure of document.querySelectorAll(".failure")) failure.open = true;
  });
})();
