// Step 5: what the user does. Every gesture ends in one of a few functions that change the state and draw again; the
// tests use the same ones.

const LEAST = 10; // nanoseconds across the whole canvas
const SNAP = 6; // pixels within which a measurement holds on to the edge of a slice

// -- where to look ----------------------------------------------------------------------------------------------------

/** Look from here to there, within reason. */
function look(start, end) {
  const most = (whole.end - whole.start) * 1.5;
  const span = Math.min(most, Math.max(LEAST, end - start));
  const room = span / 2;
  const middle = Math.max(whole.start - room * 0.9, Math.min(whole.end + room * 0.9, (start + end) / 2));
  [state.start, state.end] = [middle - span / 2, middle + span / 2];
  redraw();
}

function fit() {
  const margin = (whole.end - whole.start) * 0.01;
  state.top = 0;
  look(whole.start - margin, whole.end + margin);
}

function zoom(factor, time = (state.start + state.end) / 2) {
  const most = (whole.end - whole.start) * 1.5;
  const span = Math.min(most, Math.max(LEAST, (state.end - state.start) * factor));
  const part = (time - state.start) / (state.end - state.start);
  look(time - part * span, time + (1 - part) * span);
}

function pan(share) {
  const shift = (state.end - state.start) * share;
  look(state.start + shift, state.end + shift);
}

function scroll(pixels) {
  const most = Math.max(0, contentHeight() - (state.height - AXIS));
  state.top = Math.max(0, Math.min(most, state.top + pixels));
  redraw();
}

/** Bring a slice into sight, and close enough to see it. */
function reveal(slice) {
  const [started, finished] = [slices.started[slice], slices.finished[slice]];
  let span = state.end - state.start;
  if ((finished - started) * scale() < 6) span = Math.min(span, Math.max(LEAST, (finished - started) * 60 || span));
  const inside = started >= state.start && finished <= state.end;
  if (!inside || span !== state.end - state.start) look((started + finished - span) / 2, (started + finished + span) / 2);
  const row = state.rowOf.get(slice);
  if (!row) return;
  state.closed.delete(row.device);
  const y = topOf(row);
  if (y < state.top) scroll(y - state.top - 30);
  else if (y + row.height > state.top + state.height - AXIS) scroll(y + row.height - state.top - state.height + AXIS + 30);
}

function topOf(row) {
  let y = 0;
  for (const other of shownRows()) {
    if (other === row) return y;
    y += other.height;
  }
  return -1;
}

function show(view) {
  state.view = view;
  state.rows = buildRows(view);
  state.rowOf = new Map();
  for (const row of state.rows) {
    if (row.type !== "lane") continue;
    for (const slice of row.lane.slices) state.rowOf.set(slice, row);
    for (const slice of row.marks.slices) state.rowOf.set(slice, row);
  }
  state.hovered = -1;
  for (const choice of byId("views").children) choice.ariaPressed = String(choice.dataset.view === view);
  scroll(0);
  fillPanel();
}

// -- what to look at --------------------------------------------------------------------------------------------------

function select(slice) {
  state.selected = slice;
  fillPanel();
  redraw();
}

function choose(slice) {
  select(slice);
  reveal(slice);
}

/** The slices before and after it in its row. */
function neighbours(slice) {
  const row = state.rowOf.get(slice);
  if (!row) return [-1, -1];
  const lane = row.marks.slices.includes(slice) ? row.marks : row.lane;
  const place = lane.slices.indexOf(slice);
  return [lane.slices[place - 1] ?? -1, lane.slices[place + 1] ?? -1];
}

/** Find tasks by a part of their name, whatever its case. */
function find(text) {
  byId("query").value = text;
  state.query = text.trim().toLowerCase();
  const hits = raw.works.map(([name, , , , , , label]) => `${name}\n${label ?? ""}`.toLowerCase().includes(state.query));
  state.isMatch = (slice) => isTask(slice) && hits[tasks.work[slice]];
  state.matches = state.query ? range(0, slices.tasks).filter(state.isMatch) : [];
  state.matches.sort((a, b) => slices.started[a] - slices.started[b]);
  state.total = state.matches.reduce((sum, task) => sum + slices.finished[task] - slices.started[task], 0);
  state.match = -1;
  for (const row of state.rows) row.found = undefined;
  showFound();
  redraw();
}

function showFound() {
  const count = state.matches.length;
  const place = state.match >= 0 ? `${grouped(state.match + 1)} of ` : "";
  byId("found").textContent = !state.query ? "" : count ? `${place}${grouped(count)}, ${short(state.total)}` : "none";
  byId("previous").disabled = byId("next").disabled = !count;
}

/** Go to the next match, or (-1) to the one before. */
function step(by) {
  const count = state.matches.length;
  if (!count) return;
  state.match = state.match < 0 && by < 0 ? count - 1 : (state.match + by + count) % count;
  showFound();
  choose(state.matches[state.match]);
}

/** Measure from one time to another, or (null) no longer. */
function measure(start, end) {
  state.measured = start === null ? null : { start: Math.min(start, end), end: Math.max(start, end) };
  fillPanel();
  redraw();
}

// -- what is under the pointer ----------------------------------------------------------------------------------------

function rowAt(y) {
  if (y < AXIS) return null;
  return shownRows().find((row) => row.y !== undefined && y >= row.y && y < row.y + row.height) ?? null;
}

/** The slice at a place of the canvas, or -1: a tick first, then what runs there, then what is close. */
function sliceAt(x, y) {
  const row = rowAt(y);
  if (!row || row.type !== "lane" || x < GUTTER) return -1;
  const time = timeAt(x);
  const mark = nearest(row.marks, time, 5 / scale());
  if (mark >= 0 && y > row.y + row.height / 2) return mark;
  const place = search(row.lane.finished, time);
  if (place < row.lane.slices.length && row.lane.started[place] <= time) return row.lane.slices[place];
  const close = nearest(row.lane, time, 3 / scale());
  return close >= 0 ? close : mark;
}

function nearest(lane, time, reach) {
  const after = search(lane.started, time);
  let best = -1;
  for (const place of [after - 1, after]) {
    if (place < 0 || place >= lane.slices.length) continue;
    const away = Math.max(lane.started[place] - time, time - lane.finished[place], 0);
    if (away <= reach) [best, reach] = [lane.slices[place], away];
  }
  return best;
}

/** The time at a place, held on to the edge of a slice if one is near; a whole number of nanoseconds. */
function snapped(x, y) {
  const time = timeAt(x);
  const row = rowAt(y);
  const lane = row?.type === "lane" ? row.lane : null;
  let best = Math.round(time);
  let reach = SNAP / scale();
  for (const edges of lane ? [lane.started, lane.finished] : []) {
    const after = search(edges, time);
    for (const edge of [edges[after - 1], edges[after]]) {
      if (edge !== undefined && Math.abs(edge - time) <= reach) [best, reach] = [edge, Math.abs(edge - time)];
    }
  }
  return best;
}

function hover(x, y) {
  const before = state.hovered;
  state.hovered = sliceAt(x, y);
  const row = rowAt(y);
  if (state.hovered >= 0) showTip(x, y, ...detailsList(state.hovered));
  else if (row?.type === "chart" && x >= GUTTER) showTip(x, y, element("div", {}, `${row.label}: ${row.text(valueAt(row.series, timeAt(x)))}`));
  else tip.hidden = true;
  if (state.hovered !== before) redraw();
}

function valueAt({ times, values }, time) {
  return values[search(times, time, true) - 1] ?? 0;
}

// -- events -----------------------------------------------------------------------------------------------------------

/** One press of the pointer: a click, a drag, or with Shift a measurement. */
let press = null;

function place(event) {
  const box = canvas.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

function pressed(event) {
  if (event.button) return;
  const [x, y] = place(event);
  canvas.setPointerCapture(event.pointerId);
  press = { x, y, lastX: x, lastY: y, moved: false, from: event.shiftKey ? snapped(x, y) : null };
}

function moved(event) {
  const [x, y] = place(event);
  if (!press) return hover(x, y);
  press.moved ||= Math.hypot(x - press.x, y - press.y) > 4;
  if (!press.moved) return;
  tip.hidden = true;
  if (press.from !== null) {
    canvas.className = "measuring";
    measure(press.from, snapped(Math.max(GUTTER, x), y));
  } else {
    canvas.className = "panning";
    pan((press.lastX - x) / (state.width - GUTTER));
    scroll(press.lastY - y);
  }
  [press.lastX, press.lastY] = [x, y];
}

function released(event) {
  const [x, y] = place(event);
  if (press && !press.moved) clicked(x, y);
  press = null;
  canvas.className = "";
}

function clicked(x, y) {
  const row = rowAt(y);
  if (row?.type === "group") {
    if (!state.closed.delete(row.device)) state.closed.add(row.device);
    scroll(0);
  } else select(sliceAt(x, y));
}

function wheeled(event) {
  event.preventDefault();
  const [x, y] = place(event);
  const pixels = event.deltaMode ? 16 : 1; // a wheel may count lines
  if (x < GUTTER || event.shiftKey) scroll((event.deltaY || event.deltaX) * pixels);
  else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan((event.deltaX * pixels) / (state.width - GUTTER));
  else zoom(1.0015 ** (event.deltaY * pixels), timeAt(x));
  hover(x, y);
}

const KEYS = {
  w: () => zoom(0.7), s: () => zoom(1 / 0.7), a: () => pan(-0.15), d: () => pan(0.15), f: fit,
  "+": () => zoom(0.7), "-": () => zoom(1 / 0.7), ArrowUp: () => scroll(-60), ArrowDown: () => scroll(60),
  ArrowLeft: () => neighbour(0), ArrowRight: () => neighbour(1), "/": () => byId("query").select(), Escape: escape,
};

function neighbour(which) {
  if (state.selected < 0) return pan(which ? 0.15 : -0.15);
  const next = neighbours(state.selected)[which];
  if (next >= 0) choose(next);
}

/** Take back one thing at a time: the search, the measurement, the selection. */
function escape() {
  tip.hidden = true;
  if (state.query) find("");
  else if (state.measured) measure(null);
  else select(-1);
  canvas.focus();
}

function typed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const writing = event.target === byId("query");
  if (writing && event.key === "Enter") step(event.shiftKey ? -1 : 1);
  else if (writing && event.key !== "Escape") return;
  else if (KEYS[event.key]) KEYS[event.key]();
  else return;
  event.preventDefault();
}

function resized() {
  const box = byId("stage").getBoundingClientRect();
  [state.width, state.height] = [box.width, box.height];
  canvas.width = Math.round(box.width * devicePixelRatio);
  canvas.height = Math.round(box.height * devicePixelRatio);
  scroll(0);
}

function listen() {
  canvas.addEventListener("pointerdown", pressed);
  canvas.addEventListener("pointermove", moved);
  canvas.addEventListener("pointerup", released);
  canvas.addEventListener("pointercancel", released);
  canvas.addEventListener("pointerleave", () => hover(-1, -1));
  canvas.addEventListener("dblclick", fit);
  canvas.addEventListener("wheel", wheeled, { passive: false });
  document.addEventListener("keydown", typed);
  byId("query").addEventListener("input", (event) => find(event.target.value));
  byId("search").addEventListener("submit", (event) => (event.preventDefault(), step(1)));
  byId("previous").addEventListener("click", () => step(-1));
  byId("closer").addEventListener("click", () => zoom(0.7));
  byId("wider").addEventListener("click", () => zoom(1 / 0.7));
  byId("fit").addEventListener("click", fit);
  new ResizeObserver(resized).observe(byId("stage"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => (readTheme(), redraw()));
}

// -- the beginning ----------------------------------------------------------------------------------------------------

async function begin() {
  await decode();
  const starts = [...raw.spans.map((span) => span[1])];
  if (slices.tasks) starts.push(least(tasks.submitted), least(tasks.started));
  [whole.start, whole.end] = [Math.min(...starts), most(slices.finished)];
  if (slices.tasks) whole.start = Math.min(least(tasks.submitted), least(slices.started));
  if (whole.end <= whole.start) whole.end = whole.start + LEAST;
  fillFacts();
  if (!slices.tasks) return nothing();
  state.manyDevices = raw.socs.length > 1;
  byId("bar").hidden = byId("main").hidden = false;
  byId("views").append(...Object.entries(VIEWS).map(([view, name]) => {
    const choice = element("button", { type: "button", onclick: () => show(view) }, name);
    choice.dataset.view = view;
    return choice;
  }));
  readTheme();
  fillLegend();
  resized();
  show("streams");
  fit();
  listen();
}

const least = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);
const most = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);

function nothing() {
  byId("empty").hidden = false;
  byId("empty").textContent = "Nothing has run yet: this timeline has no tasks.";
}

/** For tests and for the curious: what is shown, and the functions behind the gestures. Times are nanoseconds. */
window.cannTimeline = {
  get state() { return state; },
  get view() { return { name: state.view, start: state.start, end: state.end, top: state.top }; },
  get matches() { return state.matches.map((task) => tasks.id[task]); },
  get selected() { return state.selected < 0 ? null : Object.fromEntries([["Name", nameOf(state.selected)], ...details(state.selected)]); },
  get measured() { return state.measured; },
  get rows() { return state.rows.map(({ type, label, note, device, y, height, lane }) => ({ type, label, note, device, y, height, slices: lane?.slices.length })); },
  /** Where on the screen a task is drawn: the middle of it. */
  position(id) {
    const slice = taskById(id);
    const row = state.rowOf.get(slice);
    const box = canvas.getBoundingClientRect();
    const x = (xOf(slices.started[slice]) + xOf(slices.finished[slice])) / 2;
    return { x: box.left + x, y: box.top + row.y + row.height / 2 };
  },
  select: (id) => choose(taskById(id)),
  look, fit, zoom, pan, show, find, measure, draw,
};
window.cannTimeline.ready = begin();
