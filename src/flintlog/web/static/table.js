// A table of entries or of the state, with a row below a row that shows all of it.

import { el, entryPosition, link, valueNode, valueText } from "./dom.js";

const HIDDEN = new Set(["dialect", "file", "offset", "length", "term", "position"]);

export function entryTable(directory, columns, label) {
  const own = columns.filter((column) => column.kind === "object");
  const shown = columns.filter((column) => !HIDDEN.has(column.name) && column.kind !== "object");
  const heads = [["position", "number"], ...shown.map((column) => [column.name, column.kind]), ["where", ""]];
  const body = el("tbody");
  const cells = (row) => [
    el("td", { class: "number" }, entryPosition(row)),
    ...shown.map((column) => el("td", { class: column.name }, valueNode(column, row[column.name], row.cut?.[column.name]))),
    el("td", { class: "where" }, row.file
      ? el("a", {
          href: link(directory, "bytes", { file: row.file, offset: row.offset, length: row.length }),
          title: `${row.length} bytes: show them`,
        }, `${row.file}:${row.offset}`)
      : `${row.length} entries`),
  ];
  const details = (row) => [
    ["position", entryPosition(row)], ["term", String(row.term ?? "–")], ["length", `${row.length} bytes`],
    ...shown.map((column) => [column.name, valueNode(column, row[column.name], row.cut?.[column.name])]),
    ...own.flatMap((column) => column.fields
      .filter((part) => row[column.name]?.[part.name] !== null && row[column.name]?.[part.name] !== undefined)
      .map((part) => [`${column.name}.${part.name}`, valueText(part, row[column.name][part.name])])),
  ];
  return built(heads, body, label, cells, details, (row) => `op-${/^[a-z-]+$/.test(row.operation) ? row.operation : "other"}`);
}

export function stateTable(columns, label) {
  const body = el("tbody");
  const cells = (row) => columns.map((column) => el("td", { class: column.kind }, valueNode(column, row[column.name], row.cut?.[column.name])));
  const details = (row) => columns.map((column) => [column.name, valueNode(column, row[column.name], row.cut?.[column.name])]);
  return built(columns.map((column) => [column.name, column.kind]), body, label, cells, details, () => "");
}

function built(heads, body, label, cells, details, kind) {
  const table = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    el("table", {}, el("thead", {}, el("tr", {}, el("th", {}, el("span", { class: "hidden" }, "all fields")),
      heads.map(([name, kind]) => el("th", { scope: "col", class: kind }, name)))), body));
  const made = (row) => {
    const button = el("button", { type: "button", class: "more", "aria-expanded": "false", title: "all fields" }, "▸");
    const line = el("tr", { class: kind(row) }, el("td", {}, button), cells(row));
    let below = null;
    button.addEventListener("click", () => {
      if (below) {
        below.remove();
        below = null;
      } else {
        below = el("tr", { class: "below" }, el("td", { colspan: heads.length + 1 },
          el("dl", {}, details(row).map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]))));
        line.after(below);
      }
      button.setAttribute("aria-expanded", String(below !== null));
      button.textContent = below ? "▾" : "▸";
    });
    return line;
  };
  return {
    table,
    append: (rows) => body.append(...rows.map(made)),
    prepend(rows, most) {
      body.prepend(...rows.map((row) => {
        const line = made(row);
        line.classList.add("new");
        return line;
      }).reverse());
      while (body.children.length > most) body.lastElementChild.remove();
    },
  };
}
