// Every byte, checked, while the page stays usable; and the plan of a repair, which only a shell carries out.

import { add, address, ask, command, el, failure, fill, findingItem, health, link, number, Refusal, size } from "./dom.js";
import { verdictLine } from "./overview.js";

const POLL_MILLISECONDS = 300;

export async function show(section, context) {
  const box = el("div", { "aria-live": "polite" });
  add(section, el("h1", { id: "title" }, "Verify"),
    el("p", { class: "quiet" }, "Reads every byte and checks everything that the dialect knows. A large log takes a while; the other views work meanwhile."), box);
  await step(box, context);
}

async function step(box, context, deed) {
  const job = await (deed ? context.act("verify", deed) : context.ask("verify"));
  if (context.signal.aborted) return;
  const press = (words) => step(box, context, words).catch((problem) => tell(box, context, problem));
  if (job.status === "running") {
    const stop = box.querySelector("button.stop") ?? el("button", { type: "button", class: "stop", onclick: () => press({ stop: 1 }) }, "Stop");
    const total = Number(job.total_bytes);  // 0 while it is not known
    const bar = el("progress", { "aria-label": "verify", max: total || null });
    if (total) bar.value = Number(job.done_bytes);
    fill(box, el("p", { class: "working" }, bar, " ", `${size(job.done_bytes)}${total ? ` of ${size(total)}` : ""}, ${job.seconds.toFixed(1)} s`), stop);
    setTimeout(() => context.signal.aborted || press(), POLL_MILLISECONDS);
    return;
  }
  const run = el("button", { type: "button", class: "main", onclick: () => press({ run: 1 }) }, job.status === "idle" ? "Verify now" : "Verify again");
  const when = job.finished && el("span", { class: "quiet" }, ` ${job.status} at ${job.finished.replace("T", " ").replace("Z", " UTC")}, after ${job.seconds.toFixed(1)} s`);
  fill(box, el("p", {}, run, when), job.error && failure(job.error), job.inventory && result(context, job.inventory),
    command(["flintlog", "verify", context.directory.path]));
  if (job.inventory && job.inventory.verdict !== "clean") box.append(await plan(context));
}

function tell(box, context, problem) {
  if (context.signal.aborted) return;
  fill(box, failure(problem instanceof Refusal ? problem.told : { code: "page", message: String(problem) }));
}

function result(context, found) {
  const names = new Set(found.files.map((file) => file.name));
  const worst = (file) => found.findings.filter((one) => one.file === file.name).map((one) => one.severity);
  const sick = found.files.filter((file) => worst(file).length);
  return [
    verdictLine(found),
    found.findings.length > 0 && el("ul", { class: "findings" }, found.findings.map((one) => findingItem(context.name, one, found.files))),
    el("details", { open: found.files.length <= 40 }, el("summary", {}, `${number(found.files.length - sick.length)} of ${number(names.size)} files without a finding`),
      el("ul", { class: "plain" }, found.files.slice(0, 1000).map((file) => el("li", {},
        health(worst(file)[0] ?? "clean"), " ", el("a", { href: link(context.name, "bytes", { file: file.name }) }, file.name), " ",
        el("span", { class: "quiet" }, size(file.size)))))),
  ];
}

async function plan(context) {
  try {
    const found = await ask(address(context.name, "repair"), context.signal);
    return el("div", { class: "plan" }, el("h2", {}, "What a repair would do"), el("pre", { tabindex: "0" }, found.text),
      found.lost.length > 0 && el("p", { class: "verdict corrupt" }, health("lost"), " ", found.lost.join("; ")),
      found.command
        ? [el("p", {}, "Nothing is changed from here. To carry it out, type this; the original bytes are kept aside, and ", el("code", {}, "--undo"), " gives them back."), command(found.command, "In a shell:")]
        : el("p", { class: "quiet" }, "A repair can do nothing here."));
  } catch (problem) {
    if (!(problem instanceof Refusal)) throw problem;
    return el("div", { class: "plan" }, el("h2", {}, "What a repair would do"), failure(problem.told));
  }
}
