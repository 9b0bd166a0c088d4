// Entries in the order of the log, filtered as `dump` filters them, a page at a time.

import { add, choice, command, el, failure, field, given, link, number, size } from "./dom.js";
import { entryTable } from "./table.js";

const DECODERS = [["", "as they are"], ["text", "text"], ["json", "JSON"], ["msgpack", "msgpack"], ["hex", "hex"]];

export async function show(section, context) {
  const { params, name, directory } = context;
  add(section, el("h1", { id: "title" }, "Entries"), filters(context));
  const page = await context.ask("entries", params);
  const made = entryTable(name, page.columns, "entries");
  made.append(page.rows);
  add(section,
    page.rows.length ? made.table : el("p", { class: "empty" }, page.next ? "Nothing found so far." : page.error ? "" : "No entries."),
    page.undecoded > 0 && el("p", { class: "quiet" }, `${page.undecoded} payloads of this page cannot be read so.`),
    page.error && failure(page.error),
    page.error && page.error.file && el("p", {}, el("a", { href: link(name, "verify") }, "Verify the directory"), " to see everything that is wrong",
      !params.reverse && [", or read the log ", el("a", { href: link(name, "entries", { ...params, reverse: 1, after: null }) }, "from its end"), ""], "."),
    el("p", { class: "pager" },
      params.after && el("a", { class: "button", href: link(name, "entries", { ...params, after: null }) }, "First page"),
      page.next && el("a", { class: "button next", href: link(name, "entries", { ...params, after: page.next }) }, page.rows.length ? "Next page" : "Search on"),
      el("span", { class: "quiet" }, `${number(page.rows.length)} entries${page.searched_bytes ? `, ${size(page.searched_bytes)} read` : ""}${page.next || page.error ? "" : "; this is the end"}`)),
    command(words(directory.path, params)),
  );
}

function filters(context) {
  const { params, directory } = context;
  const text = (name, size, hint) => el("input", { name, size, value: params[name] ?? "", placeholder: hint, autocomplete: "off", spellcheck: "false" });
  const hint = directory.dialect === "mpy6a" ? "term,index" : "";
  return el("form", {
    class: "filters",
    onsubmit: (event) => {
      event.preventDefault();
      context.go(given(event.target));
    },
  },
    field("from position", text("from", 8, hint)),
    field("to position", text("to", 8, hint)),
    field("operation", choice("operation", [["", "any"], ...directory.operations.map((word) => [word, word])], params.operation)),
    directory.stream && field(directory.stream, text("stream", 10)),
    field("key", text("key", 12)),
    field("payloads", choice("decode", DECODERS, params.decode)),
    field("order", choice("reverse", [["", "oldest first"], ["1", "newest first"]], params.reverse)),
    field("rows", choice("limit", [["", "100"], ["25", "25"], ["500", "500"]], params.limit)),
    el("button", { type: "submit", class: "main" }, "Show"),
    Object.keys(params).length > 0 && el("a", { class: "button", href: link(context.name, "entries") }, "Clear"));
}

function words(path, params) {
  const option = (name, flag) => (params[name] ? [flag, params[name]] : []);
  return ["flintlog", "dump", path, option("from", "--from"), option("to", "--to"), option("operation", "--operation"),
    option("stream", "--stream"), option("key", "--key"), option("decode", "--decode"), params.reverse === "1" ? "--reverse" : [],
    "--limit", params.limit ?? "100"].flat();
}
