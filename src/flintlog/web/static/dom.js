// Elements, requests and words that all views share. Data reaches the page as text only, never as markup.

export function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, one] of Object.entries(value)) element.style.setProperty(key, one);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  add(element, children);
  return element;
}

// Children may be in lists, and what is not there is left out.
const present = (children) => children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);

export function add(element, ...children) {
  element.append(...present(children));
}

export function fill(element, ...children) {
  element.replaceChildren(...present(children));
}

// Requests

export class Refusal extends Error {
  constructor(told) {
    super(told.text ?? told.message);
    this.told = told;
  }
}

const NUMBER_OR_STRING = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

// Numbers of 64 bits do not fit a number of JavaScript: those stay words.
export function parse(text) {
  return JSON.parse(text.replace(NUMBER_OR_STRING, (part) => (/^-?\d{16,}$/.test(part) ? `"${part}"` : part)));
}

const encode = (text) => encodeURIComponent(text.toWellFormed ? text.toWellFormed() : text);

export function query(params) {
  return Object.entries(params)
    .flatMap(([name, value]) => (Array.isArray(value) ? value : [value]).map((one) => [name, one]))
    .filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false)
    .map(([name, value]) => `${name}=${encode(value === true ? "1" : String(value))}`)
    .join("&");
}

export function address(directory, view, params = {}) {
  const words = query(params);
  return `api/${encode(directory)}/${view}${words && "?" + words}`;
}

export async function ask(path, signal, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { signal, ...options });
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    throw new Refusal({ code: "gone", message: "the server does not answer", advice: "Is flintlog web still running?" });
  }
  const found = parse(await answer.text());
  if (!answer.ok) throw new Refusal(found.error);
  return found;
}

// What starts work or ends it: the server wants a header that no page of another site can send.
export const act = (path, signal) => ask(path, signal, { method: "POST", headers: { "X-Flintlog": "1" } });

// Links inside the page: they can be sent to a person who has the same page open.
export function link(directory, tab, params = {}) {
  const words = query(params);
  return `#/${encode(directory)}/${tab}${words && "?" + words}`;
}

// Words

export function size(bytes) {
  let value = Number(bytes);
  if (value < 1024) return `${value} B`;
  for (const unit of ["KiB", "MiB", "GiB", "TiB", "PiB"]) {
    value /= 1024;
    if (value < 1024 || unit === "PiB") return `${value.toFixed(1)} ${unit}`;
  }
}

export const number = (value) => String(value).replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");

export function position(value) {
  return value === null || value === undefined ? "–" : Array.isArray(value) ? value.join(",") : String(value);
}

export const entryPosition = (row) => (row.dialect === "mpy6a" ? `${row.term},${row.position}` : String(row.position));

export function fromHex(hex) {
  const bytes = new Uint8Array(hex.length / 2);
  for (let at = 0; at < bytes.length; at++) bytes[at] = parseInt(hex.substr(2 * at, 2), 16);
  return bytes;
}

// Bytes as a person reads them: printable text in quotes, else hex.
export function bytesText(hex) {
  if (hex === "") return '""';
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(fromHex(hex));
    if (!/[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/u.test(text)) return `"${text}"`;
  } catch {
    // not text
  }
  return hex;
}

export function valueText(column, value) {
  if (value === null || value === undefined) return "–";
  if (column.kind === "bytes") return bytesText(value);
  if (column.kind === "text") return value === "" ? '""' : value;
  if (Array.isArray(value)) return value.join(",") || "–";
  if (column.kind === "object") {
    const kinds = Object.fromEntries(column.fields.map((field) => [field.name, field]));
    return Object.entries(value)
      .filter(([, part]) => part !== null && !(Array.isArray(part) && !part.length))
      .map(([name, part]) => `${name}=${valueText(kinds[name] ?? {}, part)}`)
      .join("  ");
  }
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

export function valueNode(column, value, whole) {
  const text = valueText(column, value);
  const isHex = column.kind === "bytes" && value !== null && !text.startsWith('"');
  const kind = value === null || value === undefined ? "none" : column.kind === "number" ? "number" : isHex ? "hex" : "";
  const node = el("span", { class: `value ${kind}` }, text);
  return whole === undefined ? node : [node, el("span", { class: "cut" }, ` … of ${number(whole)}`)];
}

// Pieces of pages

export function failure(told) {
  const place = told.file ? `${told.file}${told.offset === null || told.offset === undefined ? "" : `, byte ${told.offset}`}` : null;
  return el("div", { class: "failure", role: "alert" },
    el("p", {}, el("strong", {}, told.message), " ", el("code", {}, told.code)),
    place && el("p", { class: "place" }, place),
    told.advice && el("p", {}, `${told.advice}.`));
}

export const health = (word) => el("span", { class: `health ${word}` }, word);

export function sentence(finding) {
  const told = finding.expected !== null || finding.found !== null;
  return finding.message + (told ? ` (expected ${finding.expected}, found ${finding.found})` : "");
}

export function findingItem(directory, finding, files) {
  const known = finding.file && files.some((file) => file.name === finding.file);
  const place = finding.file && `${finding.file}${finding.offset === null ? "" : `, byte ${number(finding.offset)}`}`;
  return el("li", {},
    health(finding.severity), " ",
    place && (known
      ? el("a", { href: link(directory, "bytes", { file: finding.file, offset: finding.offset ?? 0, mark: 1 }) }, place)
      : el("span", {}, place)),
    place && ": ", sentence(finding), " ", el("code", {}, finding.code));
}

export function quoted(words) {
  return words.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`)).join(" ");
}

export function command(words, label = "The same in a shell:") {
  const text = typeof words === "string" ? words : quoted(words);
  const button = el("button", {
    type: "button",
    class: "small",
    onclick: async () => {
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
      } catch {
        button.textContent = "Select it";
      }
    },
  }, "Copy");
  return el("p", { class: "command" }, el("span", { class: "quiet" }, label), " ", el("code", {}, text), " ", button);
}

export function field(label, input) {
  return el("label", { class: "field" }, el("span", {}, label), input);
}

export function choice(name, options, chosen) {
  return el("select", { name },
    options.map(([value, text]) => el("option", { value, selected: value === (chosen ?? "") }, text)));
}

// Form fields that are not empty, by name.
export function given(form) {
  return Object.fromEntries([...new FormData(form)].filter(([, value]) => value !== ""));
}
