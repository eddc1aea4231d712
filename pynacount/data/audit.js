"use strict";
{
  const table = document.getElementById("rows");
  if (table) {
    const body = table.tBodies[0];
    const heads = [...table.tHead.rows[0].cells];
    const rows = [...body.rows]; // as they were written: where a column is equal, this order stays
    const words = new Map(rows.map((row) => [row, searched(row)]));
    const collator = new Intl.Collator("en", { numeric: true });

    heads.forEach((head, column) => {
      const button = head.querySelector("button");
      button.disabled = false;
      button.addEventListener("click", () => sort(head, column));
    });

    function sort(head, column) {
      const down = head.ariaSort === "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const numbers = "numbers" in head.dataset;
      const values = new Map(
        rows.map((row) => [row, numbers ? row.cells[column].dataset.rank : row.cells[column].textContent]),
      );
      const order = numbers ? (a, b) => a - b : collator.compare;
      const sorted = [...rows].sort((left, right) => {
        const [a, b] = [values.get(left), values.get(right)];
        if (a === "" || b === "") return (a === "") - (b === ""); // what is not there comes last, both ways
        return down ? order(b, a) : order(a, b);
      });
      const all = document.createDocumentFragment();
      for (const row of sorted) all.append(row);
      body.append(all);
    }

    const filter = document.getElementById("filter");
    filter.parentElement.hidden = false;
    filter.addEventListener("input", show);
    show(); // a browser may have kept what was typed before the page was loaded anew

    function show() {
      const wanted = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of rows) {
        const matches = wanted.every((word) => words.get(row).includes(word));
        row.hidden = !matches;
        if (matches) shown += 1;
      }
      const all = count(rows.length, "row");
      document.getElementById("shown").textContent = wanted.length ? `${shown.toLocaleString("en")} of ${all}` : all;
      document.getElementById("nothing").hidden = shown > 0 || rows.length === 0;
    }

    function searched(row) {
      const text = [...row.cells].map((cell) => cell.textContent).join(" ").toLowerCase();
      return `${text} ${text.replaceAll(",", "")}`; // 1,200 is also found as 1200
    }

    function count(many, one) {
      return `${many.toLocaleString("en")} ${one}${many === 1 ? "" : "s"}`;
    }
  }
}
