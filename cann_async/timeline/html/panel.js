// Step 6: what stands in words: the facts on top, the legend, the tooltip and the panel. All text goes in as text,
// never as HTML, so a name may contain anything.

const byId = (name) => document.getElementById(name);
const panel = byId("panel");
const tip = byId("tip");

function element(tag, properties = {}, ...children) {
  const found = Object.assign(document.createElement(tag), properties);
  found.append(...children.filter((child) => child !== null));
  return found;
}

function button(text, title, action) {
  return element("button", { type: "button", className: "link", title, onclick: action }, text);
}

function swatch(kind) {
  const found = element("span", { className: `swatch ${KINDS[kind].key}` });
  found.style.setProperty("--kind", kind === KIND.span ? "var(--note)" : (KINDS[kind].colour ?? "none"));
  return found;
}

function fillFacts() {
  const socs = new Map();
  for (const name of raw.socs) socs.set(name, (socs.get(name) ?? 0) + 1);
  const chips = [...socs].map(([name, count]) => (count > 1 ? `${count} × ${name}` : name)).join(", ");
  const total = slices.tasks ? short(highest(tasks.finished) - lowest(tasks.submitted)) : "0 ns";
  const facts = { Tasks: grouped(slices.tasks), "Total time": total, Clock: raw.clock, Soc: chips };
  byId("facts").append(
    ...Object.entries(facts).map(([name, value]) =>
      element("div", {}, element("dt", {}, name), element("dd", {}, value)),
    ),
  );
}

function fillLegend() {
  const present = new Set(slices.kind);
  byId("legend").append(
    ...KINDS.map((_, kind) => kind)
      .filter((kind) => present.has(kind))
      .map((kind) => element("li", {}, swatch(kind), KINDS[kind].label)),
  );
}

// -- one slice --------------------------------------------------------------------------------------------------------

/** All that is known of a slice, as pairs of a word and a text or a pair of texts. */
function details(slice) {
  const [started, finished] = [slices.started[slice], slices.finished[slice]];
  const times = [
    ["Started", exact(started)],
    ["Finished", exact(finished)],
    ["Duration", exact(finished - started)],
  ];
  if (isHost(slice)) return hostDetails(slice - slices.tasks, times);
  if (!isTask(slice)) return [["Thread", String(raw.spans[slice - slices.tasks - slices.hosts][3])], ...times];
  const { engine, capacity, cores, device, blocks, label } = work(slice);
  const found = [["Task", String(tasks.id[slice])]];
  if (label !== null) found.push(["Event", label]);
  found.push(["Device", `npu:${device}${raw.socs[device] ? `, ${raw.socs[device]}` : ""}`]);
  found.push(["Stream", streamName(tasks.stream[slice])]);
  if (engine) {
    found.push(
      ["Engine", `${engine}, lane ${tasks.lane[slice]}`],
      ["Cores", `${cores} of ${capacity}`],
      ["Blocks", String(blocks)],
    );
    if (tasks.bytes[slice]) found.push(["Bytes", `${size(tasks.bytes[slice])} (${grouped(tasks.bytes[slice])})`]);
  }
  const target = targetOf(slice);
  if (target >= 0) found.push(["Waited for", describe(target)]);
  found.push(["Submitted", exact(tasks.submitted[slice])], ...times);
  found.push(["Queued for", exact(started - tasks.submitted[slice])]);
  return found;
}

function hostDetails(place, times) {
  const task = taskById(hosts.task[place]);
  const what = task >= 0 ? describe(task) : "a timer, or a task that is not here";
  const count = hosts.waits[place];
  const several = count > 1 ? [["Waits", `${grouped(count)} that overlap; the last is named`]] : [];
  return [["Thread", String(hosts.thread[place])], ["Waited for", what], ...several, ...times];
}

function describe(task) {
  const { name, label } = work(task);
  return `task ${tasks.id[task]}, ${name}${label ? ` of ${label}` : ""}, on ${streamName(tasks.stream[task])}`;
}

function detailsList(slice) {
  const pairs = details(slice).flatMap(([name, text]) => [element("dt", {}, name), element("dd", {}, text)]);
  return [
    element("div", { className: "name" }, swatch(slices.kind[slice]), element("span", {}, nameOf(slice))),
    element("dl", { className: "details" }, ...pairs),
  ];
}

function showTip(x, y, ...children) {
  tip.replaceChildren(...children);
  tip.hidden = false;
  const left = x + 16 + tip.offsetWidth > state.width ? x - 16 - tip.offsetWidth : x + 16;
  const top = Math.min(y + 16, state.height - tip.offsetHeight - 8);
  tip.style.transform = `translate(${Math.max(4, left)}px, ${Math.max(4, top)}px)`;
}

// -- the panel --------------------------------------------------------------------------------------------------------

function fillPanel() {
  const parts = [];
  if (state.measured) parts.push(...measuredPart());
  if (state.selected >= 0) parts.push(...selectedPart());
  if (!parts.length) parts.push(...overviewPart(), ...keysPart());
  panel.replaceChildren(...parts);
}

function selectedPart() {
  const slice = state.selected;
  const row = rowOf(slice);
  const [before, after] = neighbours(slice);
  const links = [
    before >= 0
      ? button("← before it", `${nameOf(before)}, the one before it in its row (left arrow)`, () => choose(before))
      : null,
    after >= 0
      ? button("after it →", `${nameOf(after)}, the next one in its row (right arrow)`, () => choose(after))
      : null,
  ].filter((link) => link !== null);
  const target = waitedFor(slice);
  if (target >= 0) links.push(button(`waited for task ${tasks.id[target]}`, describe(target), () => choose(target)));
  const waiting = waiters.get(slice) ?? [];
  for (const waiter of waiting.slice(0, 12)) {
    links.push(button(`task ${tasks.id[waiter]} waited for it`, describe(waiter), () => choose(waiter)));
  }
  const more =
    waiting.length > 12
      ? [element("p", { className: "hint" }, `and ${grouped(waiting.length - 12)} more waited for it`)]
      : [];
  const away = row ? [] : [element("p", { className: "hint" }, "It is in no row of this view.")];
  return [
    element(
      "h2",
      {},
      "Selected",
      button("Close", "Close (Esc)", () => select(-1)),
    ),
    ...detailsList(slice),
    element("div", { className: "links" }, ...links),
    ...more,
    ...away,
  ];
}

function measuredPart() {
  const { start, end } = state.measured;
  const lines = state.rows
    .filter((row) => row.type === "lane" && row.device >= 0)
    .map((row) => {
      const busy = workBetween(row.lane, start, end);
      const label = state.manyDevices ? `npu:${row.device} ${row.label}` : row.label;
      return [
        element("span", {}, label || "…", " ", element("small", {}, row.note)),
        short(busy),
        percent(busy / Math.max(1, end - start)),
      ];
    });
  return [
    element(
      "h2",
      {},
      "Measured",
      button("Close", "Close (Esc)", () => measure(null)),
    ),
    element("div", { className: "big" }, short(end - start)),
    element(
      "dl",
      { className: "details" },
      ...[
        ["From", exact(start)],
        ["To", exact(end)],
        ["Between", exact(end - start)],
      ].flatMap(([name, text]) => [element("dt", {}, name), element("dd", {}, text)]),
    ),
    element("h2", {}, "How busy each row was"),
    tableOf(["Row", "Busy", "Share"], lines),
  ];
}

/** What takes the time: the names with the longest total. */
function overviewPart() {
  const totals = new Map();
  for (let task = 0; task < slices.tasks; task++) {
    if (slices.kind[task] >= KIND.wait) continue;
    const name = nameOf(task);
    const entry = totals.get(name) ?? { count: 0, time: 0, kind: slices.kind[task] };
    entry.count++;
    entry.time += slices.finished[task] - slices.started[task];
    totals.set(name, entry);
  }
  const sorted = [...totals].sort((a, b) => b[1].time - a[1].time);
  const lines = sorted.slice(0, 12).map(([name, { count, time, kind }]) => [
    element(
      "span",
      {},
      swatch(kind),
      button(name, `Find ${name}`, () => find(name)),
    ),
    grouped(count),
    short(time),
  ]);
  if (!lines.length) return [];
  const more =
    sorted.length > 12 ? [element("p", { className: "hint" }, `and ${grouped(sorted.length - 12)} more names`)] : [];
  return [element("h2", {}, "What takes the time"), tableOf(["Name", "Tasks", "Total"], lines), ...more];
}

function keysPart() {
  const keys = [
    [["wheel", "w", "s"], "zoom"],
    [["drag", "a", "d"], "move"],
    [["Shift", "drag"], "measure"],
    [["click"], "select"],
    [["←", "→"], "before, after it"],
    [["double click", "f"], "everything"],
    [["/", "Enter"], "find, next"],
    [["Esc"], "close"],
  ];
  const pairs = keys.flatMap(([names, what]) => [
    element("dt", {}, ...names.flatMap((name, number) => [number ? " " : "", element("kbd", {}, name)])),
    element("dd", {}, what),
  ]);
  return [element("h2", {}, "How to look around"), element("dl", { className: "keys" }, ...pairs)];
}

function tableOf(heads, lines) {
  return element(
    "table",
    {},
    element("thead", {}, element("tr", {}, ...heads.map((head) => element("th", { scope: "col" }, head)))),
    element("tbody", {}, ...lines.map((line) => element("tr", {}, ...line.map((cell) => element("td", {}, cell))))),
  );
}
