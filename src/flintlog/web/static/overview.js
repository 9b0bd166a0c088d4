// What is here: health in one line, numbers, and a map of the files with what is alive in them and where findings are.

import { add, address, ask, command, el, findingItem, health, link, number, position, Refusal, sentence, size } from "./dom.js";

const FILES_SHOWN = 300;

export async function show(section, context) {
  const [found, alive] = await Promise.all([context.ask("inspect"), picture(context)]);
  const total = found.files.reduce((sum, file) => sum + Number(file.size), 0);
  add(section,
    el("h1", { id: "title" }, context.name),
    verdictLine(found, " The view verify shows what a repair would do."),
    facts(found, total),
    el("h2", {}, "Files"),
    strip(found.files, total),
    files(context, found, alive),
    found.findings.length ? [el("h2", {}, "Findings"), el("ul", { class: "findings" }, found.findings.map((one) => findingItem(context.name, one, found.files)))] : [],
    command(["flintlog", "inspect", context.directory.path]),
  );
}

// Which bytes count. A directory that no store would open has no picture; then nothing is drawn as alive or dead.
async function picture(context) {
  try {
    const found = await ask(address(context.name, "map"), context.signal);
    return new Map(found.parts.map((part) => [part.name, Number(part.live)]));
  } catch (problem) {
    if (problem instanceof Refusal) return null;
    throw problem;
  }
}

export function verdictLine(found, where = "") {
  const advice = {
    clean: "nothing to do.",
    repairable: "opening heals it, or repair does; nothing acknowledged is lost.",
    corrupt: `acknowledged data is damaged or missing.${where}`,
    unsupported: "a newer release may know it.",
  };
  return el("p", { class: `verdict ${found.verdict}` }, health(found.verdict), " ", advice[found.verdict]);
}

function facts(found, total) {
  const range = found.first === null || found.last === null ? "no entries" : `${position(found.first)} to ${position(found.last)}`;
  const rows = [
    ...(found.edition ? [["edition", found.edition]] : []),
    ["range", range],
    ["size", size(total)],
    ["files", number(found.files.length)],
    ...Object.entries(found.facts).map(([name, value]) => [name.replaceAll("_", " "), fact(name, value)]),
  ];
  return el("dl", { class: "facts" }, rows.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

function fact(name, value) {
  if (value === null) return "–";
  if (name.endsWith("_bytes")) return size(value);
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value)) return value.join(", ") || "–";
  if (typeof value === "object") return Object.entries(value).map(([key, one]) => `${key} ${one}`).join(", ");
  return String(value);
}

const ROLES = [];
function roleColour(role) {
  if (!ROLES.includes(role)) ROLES.push(role);
  return `var(--c${ROLES.indexOf(role) % 8})`;
}

// All files in one bar, each as wide as its share.
function strip(files, total) {
  const roles = [...new Set(files.map((file) => file.role))];
  roles.forEach(roleColour);
  return el("figure", { class: "strip" },
    el("div", { class: "bar", role: "img", "aria-label": "share of each file in the size of the directory" },
      files.slice(0, 2000).map((file) => el("span", {
        title: `${file.name}: ${size(file.size)}`,
        style: { "flex-grow": String(total ? Number(file.size) / total : 0), background: roleColour(file.role) },
      }))),
    el("figcaption", {}, roles.map((role) => el("span", { class: "key" },
      el("i", { style: { background: roleColour(role) } }), `${role} ${size(files.filter((file) => file.role === role).reduce((sum, file) => sum + Number(file.size), 0))}`))));
}

function files(context, found, alive) {
  const most = Math.max(1, ...found.files.map((file) => Number(file.size)));
  const line = (file) => {
    const bytes = Number(file.size);
    const live = alive ? Math.min(bytes, alive.get(file.name) ?? 0) : null;
    const mine = found.findings.filter((one) => one.file === file.name);
    return el("tr", {},
      el("td", {}, el("a", { href: link(context.name, "bytes", { file: file.name }) }, file.name)),
      el("td", {}, file.role),
      el("td", { class: "number" }, size(bytes)),
      el("td", { class: "picture" }, bar(context, file, bytes, most, live, mine)),
      el("td", { class: "number" }, live === null ? "–" : size(bytes - live)),
      el("td", { class: "number" }, position(file.first)),
      el("td", { class: "number" }, position(file.last)),
      el("td", { class: "number" }, file.entries === null ? "–" : number(file.entries)));
  };
  const body = el("tbody", {}, found.files.slice(0, FILES_SHOWN).map(line));
  const rest = found.files.slice(FILES_SHOWN);
  const more = rest.length > 0 && el("button", {
    type: "button",
    onclick: () => {
      body.append(...rest.splice(0, 10 * FILES_SHOWN).map(line));
      if (!rest.length) more.remove();
    },
  }, `Show ${number(rest.length)} more files`);
  return [
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "files" },
      el("table", { class: "files" }, el("thead", {}, el("tr", {},
        ["file", "role", "size", "map", "not needed", "first", "last", "entries"].map((name, at) => el("th", { scope: "col", class: at > 3 || at === 2 ? "number" : null }, name)))), body)),
    more,
    el("p", { class: "quiet small" }, alive
      ? ["Map: ", el("i", { class: "swatch live" }), " bytes that make the log now, ", el("i", { class: "swatch dead" }), " bytes that it does not need, ", el("i", { class: "swatch mark" }), " a finding."]
      : "No store would open this directory, so nothing tells which bytes it needs."),
  ];
}

function bar(context, file, bytes, most, live, findings) {
  const share = (part) => `${bytes ? (100 * part) / bytes : 0}%`;
  return el("div", { class: "file-bar", style: { width: `${Math.max(1.5, (100 * bytes) / most)}%` } },
    live !== null && el("span", { class: "live", style: { width: share(live) } }),
    live === null && el("span", { class: "unknown" }),
    findings.filter((one) => one.offset !== null).map((one) => el("a", {
      class: `mark ${one.severity}`,
      href: link(context.name, "bytes", { file: file.name, offset: one.offset, mark: 1 }),
      title: `byte ${one.offset}: ${sentence(one)}`,
      "aria-label": `finding at byte ${one.offset}`,
      style: { left: share(Math.min(Number(one.offset), bytes)) },
    })));
}
