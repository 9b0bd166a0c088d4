// What the entries add up to: now, or after any position.

import { add, command, el, field, given, link, number, position } from "./dom.js";
import { stateTable } from "./table.js";

export async function show(section, context) {
  const { params, name, directory } = context;
  const found = await context.ask("inspect");
  add(section, el("h1", { id: "title" }, "State"), form(context, found));
  const page = await context.ask("state", params);
  const start = Number(params.start ?? 0) || 0;
  const made = stateTable(page.columns, "state");
  made.append(page.rows);
  add(section,
    page.rows.length ? made.table : el("p", { class: "empty" }, start ? "Nothing behind the last page." : "The state is empty."),
    el("p", { class: "pager" },
      start > 0 && el("a", { class: "button", href: link(name, "state", { as_of: params.as_of }) }, "First page"),
      page.next && el("a", { class: "button next", href: link(name, "state", { ...params, start: page.next }) }, "Next page"),
      page.rows.length > 0 && el("span", { class: "quiet" }, `Rows ${number(start + 1)} to ${number(start + page.rows.length)}${page.next ? "" : "; these are the last"}`)),
    command(["flintlog", "state", directory.path, params.as_of ? ["--as-of", params.as_of] : []].flat()),
  );
}

function form(context, found) {
  const { params } = context;
  const parts = (value) => (Array.isArray(value) ? value : value === null ? [] : [value]).map(Number);
  const first = parts(found.first);
  const last = parts(found.last);
  const prefix = first.slice(0, -1).join(",");
  const ends = [first.at(-1), last.at(-1)];
  const slides = first.length > 0 && prefix === last.slice(0, -1).join(",") && ends[0] < ends[1] && ends.every(Number.isSafeInteger);
  const chosen = (params.as_of ?? "").split(/[,-]/).map(Number).at(-1);
  const input = el("input", { name: "as_of", size: 12, value: params.as_of ?? "", placeholder: `now (${position(found.last)})`, autocomplete: "off" });
  const slider = slides && el("input", {
    type: "range", min: ends[0], max: ends[1], value: String(params.as_of ? chosen : ends[1]),
    "aria-label": "position of the state",
    oninput: () => { input.value = word(); },
    onchange: () => context.go({ ...params, as_of: word(), start: null }),
  });
  const word = () => (Number(slider.value) === ends[1] ? "" : prefix ? `${prefix},${slider.value}` : slider.value);
  return el("form", {
    class: "filters",
    onsubmit: (event) => {
      event.preventDefault();
      context.go(given(event.target));
    },
  },
    field("after position", input),
    slides && el("label", { class: "field wide" }, el("span", {}, `${position(found.first)} to ${position(found.last)}`), slider),
    el("button", { type: "submit", class: "main" }, "Show"),
    params.as_of && el("a", { class: "button", href: link(context.name, "state") }, "Now"));
}
