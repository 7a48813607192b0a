// Step 7: change what is looked at and what is chosen. Every gesture ends in one of these functions, and so does every
// test; each changes the state and has it drawn again.

const LEAST = 10; // nanoseconds across the whole canvas

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
  const { start, end } = withMargin();
  state.top = 0;
  look(start, end);
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
  if (!inside || span !== state.end - state.start)
    look((started + finished - span) / 2, (started + finished + span) / 2);
  const row = rowOf(slice);
  if (!row) return;
  state.closed.delete(row.device);
  const y = topOf(row);
  if (y < state.top) scroll(y - state.top - 30);
  else if (y + row.height > state.top + state.height - AXIS)
    scroll(y + row.height - state.top - state.height + AXIS + 30);
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
  state.places = new Int32Array(slices.count).fill(-1);
  state.rows.forEach((row, place) => {
    for (const lane of row.type === "lane" ? [row.lane, row.marks] : []) {
      for (const slice of lane.slices) state.places[slice] = place;
    }
  });
  state.overview = null;
  state.hovered = -1;
  tip.hidden = true;
  for (const choice of byId("views").children)
    choice.setAttribute("aria-pressed", String(choice.dataset.view === view));
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
  const row = rowOf(slice);
  if (!row) return [-1, -1];
  const lane = row.marks.slices.includes(slice) ? row.marks : row.lane;
  const place = lane.slices.indexOf(slice);
  return [lane.slices[place - 1] ?? -1, lane.slices[place + 1] ?? -1];
}

/** Find tasks by a part of their name, whatever its case. */
function find(text) {
  byId("query").value = text;
  state.query = text.trim().toLowerCase();
  const hits = raw.works.map(([name, , , , , , label]) =>
    `${name}\n${label ?? ""}`.toLowerCase().includes(state.query),
  );
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
