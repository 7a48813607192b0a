// Step 8: what the user does: what is under the pointer, what a press, the wheel or a key means; and the beginning.

const MOST_HOST_ROWS = 12; // with more of them the host is closed at first: the devices come before it
const SNAP = 6; // pixels within which a measurement holds on to the edge of a slice

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
  else if (row?.type === "chart" && x >= GUTTER)
    showTip(x, y, element("div", {}, `${row.label}: ${row.text(valueAt(row.series, timeAt(x)))}`));
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
  if (y < OVERVIEW) {
    press = { x, y, moved: true, overview: true };
    return overlook(x);
  }
  press = { x, y, lastX: x, lastY: y, moved: false, from: event.shiftKey ? snapped(x, y) : null };
}

function moved(event) {
  const [x, y] = place(event);
  if (!press) return hover(x, y);
  press.moved ||= Math.hypot(x - press.x, y - press.y) > 4;
  if (!press.moved) return;
  tip.hidden = true;
  if (press.overview) return overlook(x);
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

/** Move the view to a place of the overview. */
function overlook(x) {
  const around = withMargin();
  const middle = around.start + ((x - GUTTER) / (state.width - GUTTER)) * (around.end - around.start);
  const half = (state.end - state.start) / 2;
  look(middle - half, middle + half);
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
  w: () => zoom(0.7),
  s: () => zoom(1 / 0.7),
  a: () => pan(-0.15),
  d: () => pan(0.15),
  f: fit,
  "+": () => zoom(0.7),
  "-": () => zoom(1 / 0.7),
  ArrowUp: () => scroll(-60),
  ArrowDown: () => scroll(60),
  ArrowLeft: () => neighbour(0),
  ArrowRight: () => neighbour(1),
  "/": () => byId("query").select(),
  Escape: escape,
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
  state.overview = null;
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
  fillFacts();
  if (!slices.tasks) return say("Nothing has run yet: this timeline has no tasks.");
  [whole.start, whole.end] = [Math.min(lowest(tasks.submitted), lowest(slices.started)), highest(slices.finished)];
  if (whole.end <= whole.start) whole.end = whole.start + LEAST;
  state.manyDevices = raw.socs.length > 1;
  byId("bar").hidden = byId("main").hidden = false;
  byId("views").append(
    ...Object.entries(VIEWS).map(([view, name]) => {
      const choice = element("button", { type: "button", onclick: () => show(view) }, name);
      choice.dataset.view = view;
      return choice;
    }),
  );
  readTheme();
  fillLegend();
  resized();
  if (hostRows().length > MOST_HOST_ROWS) state.closed.add(HOST);
  show("streams");
  fit();
  listen();
}

/** Say something in place of the drawing. */
function say(text) {
  byId("notice").hidden = false;
  byId("notice").textContent = text;
}

/** For tests and for the curious: what is shown, and the functions behind the gestures. Times are nanoseconds. */
window.cannTimeline = {
  get state() {
    return state;
  },
  get view() {
    return { name: state.view, start: state.start, end: state.end, top: state.top };
  },
  get matches() {
    return state.matches.map((task) => tasks.id[task]);
  },
  get selected() {
    return state.selected < 0
      ? null
      : Object.fromEntries([["Name", nameOf(state.selected)], ...details(state.selected)]);
  },
  get measured() {
    return state.measured;
  },
  get rows() {
    return state.rows.map(({ type, label, note, device, y, height, lane }) => ({
      type,
      label,
      note,
      device,
      y,
      height,
      slices: lane?.slices.length,
    }));
  },
  /** Where on the screen a task is drawn: the middle of it. */
  position(id) {
    const slice = taskById(id);
    const row = rowOf(slice);
    const box = canvas.getBoundingClientRect();
    const x = (xOf(slices.started[slice]) + xOf(slices.finished[slice])) / 2;
    return { x: box.left + x, y: box.top + row.y + row.height / 2 };
  },
  select: (id) => choose(taskById(id)),
  look,
  fit,
  zoom,
  pan,
  show,
  find,
  measure,
  draw,
};
window.cannTimeline.ready = begin();
window.cannTimeline.ready.catch((error) => say(`This browser cannot draw the page: ${error.message}`));
