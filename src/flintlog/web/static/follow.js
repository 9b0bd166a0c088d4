// The last entries, and those that come, the newest on top.

import { add, address, command, el, failure, fill, number, parse, Refusal } from "./dom.js";
import { entryTable } from "./table.js";

const ROWS_KEPT = 500;

export async function show(section, context) {
  const status = el("p", { class: "status", role: "status" });
  const place = el("div");
  const button = el("button", { type: "button", class: "main" }, "Pause");
  add(section, el("h1", { id: "title" }, "Follow"), el("p", { class: "pager" }, button, status), place, command(["flintlog", "tail", context.directory.path, "-f"]));
  const following = { stop: null, told: 0 };
  button.addEventListener("click", () => (following.stop ? end(following, button, status) : begin(context, following, button, status, place)));
  context.signal.addEventListener("abort", () => following.stop?.abort());
  begin(context, following, button, status, place);
}

function end(following, button, status) {
  following.stop?.abort();
  following.stop = null;
  button.textContent = "Follow";
  status.textContent = `Paused after ${number(following.told)} entries.`;
}

async function begin(context, following, button, status, place) {
  const mine = (following.stop = new AbortController());
  following.told = 0;
  button.textContent = "Pause";
  status.textContent = "Waiting for the end of the log.";
  try {
    const answer = await fetch(address(context.name, "follow"), { signal: mine.signal });
    if (!answer.ok) throw new Refusal(parse(await answer.text()).error);
    let table = null;
    for await (const step of lines(answer.body)) {
      if (step.error) throw new Refusal(step.error);
      if (step.columns) {
        table = entryTable(context.name, step.columns, "entries as they come");
        fill(place, table.table);
      } else {
        following.told += step.rows.length + step.skipped;
        table.prepend(step.rows, ROWS_KEPT);
        status.textContent = `Following: ${number(following.told)} entries${step.skipped ? `; ${number(step.skipped)} came at once and are left out` : ""}.`;
      }
    }
    throw new Refusal({ code: "gone", message: "the server has ended", advice: "Start flintlog web again" });
  } catch (problem) {
    if (mine.signal.aborted) return;
    end(following, button, status);
    place.prepend(failure(problem instanceof Refusal ? problem.told : { code: "gone", message: "the connection is lost", advice: "Is flintlog web still running?" }));
  }
}

async function* lines(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    yield* parts.filter(Boolean).map(parse);
  }
}
