// Bytes of a file as a map: a colour for each field, and what it means beside it.

import { add, command, el, failure, field, fromHex, given, link, number, size } from "./dom.js";

const CONTEXT = 48;
const WINDOW = 512;
const WINDOW_MAX = 4096;
const QUIET = new Set(["padding", "reserve", "end marker"]);

export async function show(section, context) {
  const { params, name } = context;
  if (!params.file) return choose(section, context);
  const asked = Math.max(0, Number(params.offset ?? 0) || 0);
  const length = Number(params.length ?? 0) || 0;
  const begin = Math.max(0, asked - (asked % 16) - (asked ? CONTEXT : 0));
  const span = Math.min(WINDOW_MAX, Math.max(WINDOW, 16 * Math.ceil((asked + length - begin + CONTEXT) / 16)));
  const found = await context.ask("bytes", { file: params.file, offset: begin, length: span });
  const painted = paint(found);
  const target = params.mark ? [asked, asked + 1] : length ? [asked, asked + length] : null;
  const jump = (offset) => link(name, "bytes", { file: params.file, offset });
  const end = Number(found.size);
  const behind = begin + found.bytes.length / 2;
  add(section,
    el("h1", { id: "title" }, found.file),
    el("form", {
      class: "filters",
      onsubmit: (event) => {
        event.preventDefault();
        context.go({ file: params.file, ...given(event.target) });
      },
    }, field("byte", el("input", { name: "offset", size: 12, inputmode: "numeric", value: String(asked) })),
      el("button", { type: "submit", class: "main" }, "Go"),
      el("a", { class: "button", href: link(name, "bytes") }, "Other file")),
    el("p", { class: "quiet" }, `Bytes ${number(begin)} to ${number(Math.max(begin, behind - 1))} of ${number(end)} (${size(end)})`,
      target && length ? `; the entry has ${number(length)} bytes from byte ${number(asked)} on` : ""),
    found.error && failure(found.error),
    behind > begin
      ? el("div", { class: "byte-view" }, hexMap(found, painted, target), legend(found, painted, target))
      : el("p", { class: "empty" }, "The file ends in front of this byte."),
    found.fields.length === 0 && !found.error && behind > begin &&
      el("p", { class: "quiet" }, "This file is no part of the log, so its bytes have no known meaning."),
    el("p", { class: "pager" },
      begin > 0 && el("a", { class: "button", href: jump(Math.max(0, begin - span + CONTEXT)) }, "Before"),
      behind < end && el("a", { class: "button next", href: jump(behind + CONTEXT) }, "Behind"),
      begin > 0 && el("a", { class: "button", href: jump(0) }, "Beginning of the file"),
      behind < end && el("a", { class: "button", href: jump(Math.max(0, end - 256)) }, "End of the file")),
    command(["flintlog", "dump", context.directory.path, "--hex", "--file", params.file]),
  );
}

async function choose(section, context) {
  const found = await context.ask("inspect");
  add(section, el("h1", { id: "title" }, "Bytes"), el("p", {}, "Of which file?"),
    el("ul", { class: "plain" }, found.files.slice(0, 1000).map((file) => el("li", {},
      el("a", { href: link(context.name, "bytes", { file: file.name }) }, file.name), " ",
      el("span", { class: "quiet" }, `${file.role}, ${size(file.size)}`)))));
}

// Which field each byte belongs to, and a colour for each name.
function paint(found) {
  const count = found.bytes.length / 2;
  const owner = new Int32Array(count).fill(-1);
  const colours = new Map();
  const classes = found.fields.map((one, at) => {
    const start = Number(one.offset) - Number(found.offset);
    for (let byte = Math.max(0, start); byte < Math.min(count, start + Number(one.length)); byte++) owner[byte] = at;
    if (one.name === "damage" || one.name === "torn") return "damage";
    if (QUIET.has(one.name)) return "idle";
    if (!colours.has(one.name)) colours.set(one.name, `f${colours.size % 10}`);
    return colours.get(one.name);
  });
  return { owner, classes };
}

function hexMap(found, { owner, classes }, target) {
  const dims = target && target[1] > target[0] + 1; // one byte alone is looked at with what is around it
  const data = fromHex(found.bytes);
  const wide = window.matchMedia("(max-width: 640px)").matches ? 8 : 16;
  const base = Number(found.offset);
  const lines = [];
  for (let row = 0; row < data.length; row += wide) {
    const hex = [];
    const text = [];
    for (let at = row; at < row + wide; at++) {
      if (at >= data.length) {
        hex.push(el("b", { class: "gap" }, "  "));
        continue;
      }
      const mine = owner[at];
      const one = mine < 0 ? null : found.fields[mine];
      const inside = target && base + at >= target[0] && base + at < target[1];
      const first = one && (at === 0 || owner[at - 1] !== mine);
      const last = one && (at === data.length - 1 || owner[at + 1] !== mine);
      const kind = [one ? classes[mine] : "bare", inside ? "inside" : dims ? "outside" : "", first ? "first" : "", last ? "last" : ""].join(" ");
      const title = one ? `${base + at}: ${one.name}${one.meaning ? `: ${one.meaning}` : ""}` : String(base + at);
      hex.push(el("b", { class: kind, title, "data-field": mine }, data[at].toString(16).padStart(2, "0")));
      text.push(el("b", { class: kind, "data-field": mine }, data[at] > 32 && data[at] < 127 ? String.fromCharCode(data[at]) : "·"));
    }
    lines.push(el("div", { class: "line" }, el("span", { class: "offset" }, String(base + row)), el("span", { class: "hex" }, hex), el("span", { class: "text" }, text)));
  }
  const map = el("div", { class: "hex-map scroll", tabindex: "0", role: "region", "aria-label": "bytes in hexadecimal" }, lines);
  map.addEventListener("mouseover", (event) => light(event.target.dataset?.field));
  map.addEventListener("mouseleave", () => light());
  map.addEventListener("click", (event) => {
    const item = document.querySelector(`.legend [data-field="${Number(event.target.dataset?.field ?? -1)}"]`);
    item?.scrollIntoView({ block: "nearest" });
    item?.focus();
  });
  return map;
}

function legend(found, { classes }, target) {
  const inside = (one) => !target || target[1] === target[0] + 1 || (Number(one.offset) < target[1] && Number(one.offset) + Math.max(1, Number(one.length)) > target[0]);
  return el("ol", { class: "legend", "aria-label": "fields" }, found.fields.map((one, at) => el("li", {},
    el("button", {
      type: "button",
      "data-field": at,
      class: inside(one) ? "" : "outside",
      onfocus: () => light(at),
      onblur: () => light(),
      onmouseenter: () => light(at),
      onmouseleave: () => light(),
    }, el("i", { class: classes[at] }), el("span", { class: "at" }, `${one.offset} +${one.length}`), el("strong", {}, one.name), " ", el("span", {}, one.meaning)))));
}

function light(which) {
  for (const one of document.querySelectorAll(".lit")) one.classList.remove("lit");
  if (which === undefined || Number(which) < 0) return;
  for (const one of document.querySelectorAll(`[data-field="${Number(which)}"]`)) one.classList.add("lit");
}
