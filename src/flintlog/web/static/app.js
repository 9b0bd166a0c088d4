// The frame of the page: which directory, which view, and the address that says both.

import { act, address, ask, el, failure, fill, link, Refusal } from "./dom.js";
import * as bytes from "./bytes.js";
import * as entries from "./entries.js";
import * as follow from "./follow.js";
import * as overview from "./overview.js";
import * as state from "./state.js";
import * as verify from "./verify.js";

const VIEWS = { overview, entries, bytes, state, verify, follow };
const main = document.getElementById("main");
const chooser = document.getElementById("directory");
const tabs = document.getElementById("tabs");
let directories = [];
let running = null;

function route() {
  const [, path = "", words = ""] = /^#\/([^?]*)\??(.*)$/.exec(location.hash) ?? [];
  const [name = "", tab = ""] = path.split("/").map(decoded);
  const known = directories.some((one) => one.name === name);
  return {
    name: known || name ? name : directories[0].name,
    tab: VIEWS[tab] ? tab : "overview",
    params: Object.fromEntries(new URLSearchParams(words)),
  };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

async function show() {
  running?.abort();
  const mine = (running = new AbortController());
  const { name, tab, params } = route();
  const directory = directories.find((one) => one.name === name);
  frame(name, tab, directory);
  const section = el("section", { "aria-labelledby": "title" });
  const busy = setTimeout(() => main.setAttribute("aria-busy", "true"), 150);
  const context = {
    name, params, directory, signal: mine.signal,
    ask: (view, given) => ask(address(name, view, given), mine.signal),
    act: (view, given) => act(address(name, view, given), mine.signal),
    go: (given, where = tab) => {
      const next = link(name, where, given);
      if (next === location.hash) show();
      else location.hash = next;
    },
  };
  try {
    if (!directory) {
      throw new Refusal({ code: "not-found", message: `no directory “${name}” is shown here`, advice: "Choose one above" });
    }
    await VIEWS[tab].show(section, context);
    if (!mine.signal.aborted) fill(main, section);
  } catch (problem) {
    if (mine.signal.aborted || problem.name === "AbortError") return;
    const told = problem instanceof Refusal ? problem.told : { code: "page", message: String(problem) };
    fill(main, section, failure(told));
  } finally {
    clearTimeout(busy);
    if (running === mine) main.removeAttribute("aria-busy");
  }
}

function frame(name, tab, directory) {
  document.title = `${name} · ${tab} · Flintlog`;
  chooser.value = name;
  fill(document.getElementById("about"), directory && [el("span", { class: "dialect" }, directory.dialect), " ", el("code", {}, directory.path)]);
  fill(tabs, Object.keys(VIEWS).map((word, at) =>
    el("a", { href: link(name, word), "aria-current": word === tab ? "page" : null, title: `key ${at + 1}` }, word)));
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  const tab = tabs.children[Number(event.key) - 1];
  const next = event.key === "n" ? main.querySelector("a.next") : null;
  const input = event.key === "/" ? main.querySelector("form input, form select") : null;
  if (tab ?? next ?? input) event.preventDefault();
  (tab ?? next)?.click();
  input?.focus();
});

chooser.addEventListener("change", () => {
  location.hash = link(chooser.value, route().tab === "bytes" ? "overview" : route().tab);
});
window.addEventListener("hashchange", () => {
  if (location.hash === "#main") return;
  show();
  window.scrollTo(0, 0);
});

try {
  ({ directories } = await ask("api/directories"));
  fill(chooser, directories.map((one) => el("option", { value: one.name }, one.name)));
  await show();
} catch (problem) {
  fill(main, failure(problem instanceof Refusal ? problem.told : { code: "page", message: String(problem) }));
}
