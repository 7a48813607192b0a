// Step 4: draw what the state says, at most once a frame. A slice that is wide enough is a box with its name. Where
// slices are narrower than a pixel or two, each such column is filled as high as the row was busy in it, kind by kind:
// a row that is zoomed out is a chart of how busy it was, and costs the same for a hundred slices as for a million.

const GUTTER = 176;
const OVERVIEW = 34; // the height of the strip on top that shows all of it, small
const AXIS = OVERVIEW + 32; // where the rows begin
const NARROW = 1.5; // pixels: what is narrower is merged
const COLUMN = 2; // pixels into which it is merged

/** What is looked at, and what the user has chosen. Times are nanoseconds since the start. */
const state = {
  view: "streams",
  start: 0,
  end: 1,
  top: 0,
  rows: [],
  places: null,
  closed: new Set(),
  selected: -1,
  hovered: -1,
  pointer: null,
  query: "",
  matches: [],
  match: -1,
  total: 0,
  measured: null,
  overview: null,
  frames: 0,
  width: 0,
  height: 0,
};
const whole = { start: 0, end: 1 };
let wanted = false;

/** All that there is, with a little room on both sides. */
function withMargin() {
  const margin = (whole.end - whole.start) * 0.01;
  return { start: whole.start - margin, end: whole.end + margin };
}

function redraw() {
  if (!wanted) requestAnimationFrame(draw);
  wanted = true;
}

/** The row of a slice in this view, if any. */
const rowOf = (slice) => state.rows[state.places[slice]];
const scale = () => (state.width - GUTTER) / (state.end - state.start);
const xOf = (time) => GUTTER + (time - state.start) * scale();
const timeAt = (x) => state.start + (x - GUTTER) / scale();

function draw() {
  wanted = false;
  state.frames++;
  pen.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
  pen.fillStyle = theme.paper;
  pen.fillRect(0, 0, state.width, state.height);
  const ticks = axisTicks();
  clipped(0, AXIS, state.width, state.height - AXIS, () => {
    drawGrid(ticks);
    drawRows();
    clipped(GUTTER, AXIS, state.width, state.height, () => {
      drawArrows();
      drawMeasured();
    });
    drawScrollbar();
  });
  drawAxis(ticks);
  drawOverview();
}

function clipped(x, y, width, height, paint) {
  pen.save();
  pen.beginPath();
  pen.rect(x, y, width, height);
  pen.clip();
  paint();
  pen.restore();
}

// -- rows -------------------------------------------------------------------------------------------------------------

function drawRows() {
  let y = AXIS - state.top;
  for (const row of state.rows) row.y = undefined;
  for (const row of shownRows()) {
    row.y = y;
    if (y + row.height > AXIS && y < state.height) drawRow(row, y);
    y += row.height;
  }
  pen.fillStyle = theme.line;
  pen.fillRect(GUTTER - 1, AXIS, 1, state.height);
}

/** The rows without those of groups that are closed. */
function shownRows() {
  return state.rows.filter((row) => row.type === "group" || !state.closed.has(row.device));
}

function drawRow(row, y) {
  if (row.type === "group") drawGroup(row, y);
  else {
    clipped(GUTTER, y, state.width - GUTTER, row.height, () =>
      row.type === "chart" ? drawChart(row, y) : drawLane(row, y),
    );
    const middle = y + row.height / 2;
    if (row.type === "chart") {
      write(row.label, 34, middle - 7, theme.soft, 12);
      write(`at most ${row.text(row.series.peak)}`, 34, middle + 8, theme.faint, 11, GUTTER - 46);
    } else {
      write(row.label, 34, middle, theme.ink, 12, 90);
      const used = 34 + textWidth(row.label, 12) + 8;
      write(row.note, used, middle, theme.faint, 12, GUTTER - used - 8);
    }
  }
}

function drawGroup(row, y) {
  const middle = y + row.height / 2 + 2;
  pen.fillStyle = theme.plane;
  pen.fillRect(0, y + 8, state.width, row.height - 12);
  write(state.closed.has(row.device) ? "▸" : "▾", 16, middle, theme.soft, 11);
  write(row.label, 34, middle, theme.ink, 12, 100, 650);
  write(row.note, 34 + textWidth(row.label, 12, 650) + 10, middle, theme.soft, 12);
}

function drawLane(row, y) {
  const boxes = { top: y + 3, height: row.height - 6, wide: new Map(), narrow: new Map() };
  const searching = state.query !== "";
  pen.globalAlpha = searching ? 0.22 : 1;
  drawSlices(row.lane, boxes);
  pen.globalAlpha = 1;
  if (searching) drawSlices((row.found ??= makeLane(row.lane.slices.filter((slice) => state.isMatch(slice)))), boxes);
  drawMarks(row, y);
  for (const slice of new Set([state.hovered, state.selected])) {
    if (slice >= 0 && rowOf(slice) === row) drawFrame(slice, boxes);
  }
}

function drawSlices(lane, boxes) {
  const { started, finished } = lane;
  let place = search(finished, state.start, true);
  const labels = [];
  while (place < started.length && started[place] < state.end) {
    const left = xOf(started[place]);
    const right = xOf(finished[place]);
    if (right - left >= NARROW) {
      addBox(lane.slices[place], Math.max(left, GUTTER - 9), Math.min(right, state.width + 9), boxes, labels);
      place++;
    } else {
      place = addColumn(lane, place, Math.max(GUTTER, Math.floor(left / COLUMN) * COLUMN), boxes);
    }
  }
  flush(boxes);
  for (const [slice, left, width] of labels) {
    const kind = slices.kind[slice];
    const colour = kind === KIND.wait ? theme.soft : kind === KIND.span ? theme.ink : KINDS[kind].ink;
    const [long, brief] = labelsOf(slice);
    const label = textWidth(long, 11.5) <= width - 10 ? long : brief;
    write(label, left + 6, boxes.top + boxes.height / 2, colour, 11.5, width - 10);
  }
}

function addBox(slice, left, right, boxes, labels) {
  if (right - left > 4) [left, right] = [Math.round(left), Math.round(right)];
  const width = right - left;
  const gap = width > 4 ? 1 : 0; // so that neighbours of one kind are two
  const kind = slices.kind[slice];
  listOf(boxes.wide, kind).push(left, boxes.top, width - gap, boxes.height);
  const first = Math.max(left, GUTTER);
  if (right - first > 30) labels.push([slice, first, right - first]);
}

/** Fill one column as high as each kind was busy in it; give the slice to go on with. */
function addColumn(lane, place, x, boxes) {
  const [start, end] = [timeAt(x), timeAt(x + COLUMN)];
  const [first, next] = [search(lane.started, start, true), search(lane.started, end, true, place)];
  let base = boxes.top + boxes.height;
  if (next - place === 1 && isAlone(lane, place)) {
    listOf(boxes.narrow, slices.kind[lane.slices[place]]).push(xOf(lane.started[place]), boxes.top, 1, boxes.height);
    return next;
  }
  for (const kind of lane.sums.keys()) {
    const busy = busyBefore(lane, kind, end, next) - busyBefore(lane, kind, start, first);
    if (busy <= 0 && lane.sums.size > 1) continue;
    const height = Math.min(base - boxes.top, Math.max(2, Math.round((busy / (end - start)) * boxes.height)));
    base -= height;
    if (height > 0) extend(listOf(boxes.narrow, kind), x, base, height);
  }
  const last = next - 1; // it may begin here and yet be wide enough for a box of its own
  const wide = last > place && (lane.finished[last] - lane.started[last]) * scale() >= NARROW;
  return Math.max(place + 1, wide ? last : next);
}

/** Whether a narrow slice has room around it: then it is a thin line of its own. */
function isAlone(lane, place) {
  const room = (2 * COLUMN) / scale();
  const before = place ? lane.finished[place - 1] : -Infinity;
  const after = lane.started[place + 1] ?? Infinity;
  return lane.started[place] - before > room && after - lane.finished[place] > room;
}

/** Add a column to the box on its left if they are of one height: that leaves few boxes to draw. */
function extend(list, x, y, height) {
  const last = list.length - 4;
  if (last >= 0 && list[last] + list[last + 2] === x && list[last + 1] === y && list[last + 3] === height)
    list[last + 2] += COLUMN;
  else list.push(x, y, COLUMN, height);
}

function listOf(lists, kind) {
  if (!lists.has(kind)) lists.set(kind, []);
  return lists.get(kind);
}

/** Draw what has been collected kind by kind: changing colours is what costs. Boxes with room for it are rounded. */
function flush(boxes) {
  for (const lists of [boxes.narrow, boxes.wide]) {
    for (const [kind, list] of lists) {
      pen.fillStyle = kind === KIND.wait ? theme.waiting : kind === KIND.span ? theme.note : KINDS[kind].colour;
      pen.beginPath();
      for (let i = 0; i < list.length; i += 4) {
        const box = [list[i], list[i + 1], list[i + 2], list[i + 3]];
        if (lists === boxes.wide && box[2] > 6) pen.roundRect(...box, 3);
        else pen.fillRect(...box);
      }
      pen.fill();
    }
    lists.clear();
  }
}

/** Draw what took no time as ticks; where they would stand side by side they say nothing. */
function drawMarks(row, y) {
  const { started, slices: which } = row.marks;
  const first = search(started, state.start);
  const end = search(started, state.end, true);
  if (end - first > state.width / 14) return;
  const foot = y + row.height - 1;
  for (let place = first; place < end; place++) {
    const x = xOf(started[place]);
    const chosen = which[place] === state.selected || which[place] === state.hovered;
    const dim = state.query !== "" && !state.isMatch(which[place]);
    pen.fillStyle = chosen ? theme.accent : theme.ink;
    pen.globalAlpha = dim ? 0.22 : 1;
    pen.beginPath();
    pen.moveTo(x, foot - (chosen ? 11 : 7));
    pen.lineTo(x + (chosen ? 6 : 4), foot);
    pen.lineTo(x - (chosen ? 6 : 4), foot);
    pen.closePath();
    pen.fill();
    pen.strokeStyle = theme.paper;
    pen.lineWidth = 1;
    pen.stroke();
  }
  pen.globalAlpha = 1;
}

function drawFrame(slice, boxes) {
  if (slices.started[slice] === slices.finished[slice] && slices.kind[slice] >= KIND.wait) return;
  const left = Math.max(xOf(slices.started[slice]), GUTTER - 9);
  const right = Math.min(xOf(slices.finished[slice]), state.width + 9);
  pen.strokeStyle = slice === state.selected ? theme.accent : theme.ink;
  pen.lineWidth = slice === state.selected ? 2.5 : 1.5;
  pen.beginPath();
  pen.roundRect(left - 0.5, boxes.top - 0.5, Math.max(2, right - left), boxes.height + 1, 3);
  pen.stroke();
}

/** Draw steps over time, of each pixel the highest. */
function drawChart(row, y) {
  const { times, values, peak } = row.series;
  const foot = y + row.height - 5;
  const unit = (row.height - 12) / Math.max(1, peak);
  let place = search(times, state.start, true) - 1;
  let value = place >= 0 ? values[place] : 0;
  let x = GUTTER;
  const steps = new Path2D();
  const to = (x, value) => steps.lineTo(x, foot - value * unit);
  to(x, value);
  for (place++; place < times.length && times[place] <= state.end; place++) {
    const column = Math.max(GUTTER, Math.floor(xOf(times[place])));
    let high = values[place];
    const end = timeAt(column + 1);
    while (place + 1 < times.length && times[place + 1] < end) high = Math.max(high, values[++place]);
    to(column, value);
    to(column, high);
    value = values[place];
    if (high !== value) {
      to(column + 1, high);
      to(column + 1, value);
    }
    x = column;
  }
  to(Math.max(x, Math.min(state.width, xOf(whole.end))), value);
  pen.strokeStyle = theme.accent;
  pen.lineWidth = 1;
  pen.stroke(steps);
  to(Math.max(x, Math.min(state.width, xOf(whole.end))), 0);
  to(GUTTER, 0);
  pen.fillStyle = theme.band;
  pen.fill(steps);
}

function drawScrollbar() {
  const all = contentHeight();
  const room = state.height - AXIS;
  if (all <= room) return;
  pen.fillStyle = theme.faint;
  pen.globalAlpha = 0.5;
  pen.beginPath();
  pen.roundRect(
    state.width - 8,
    AXIS + 2 + (state.top / all) * (room - 4),
    5,
    Math.max(20, (room / all) * (room - 4)),
    2.5,
  );
  pen.fill();
  pen.globalAlpha = 1;
}

const contentHeight = () => shownRows().reduce((sum, row) => sum + row.height, 0) + 12;

// -- what the user has chosen -----------------------------------------------------------------------------------------

function drawArrows() {
  if (state.selected < 0) return;
  const target = targetOf(state.selected);
  if (target >= 0) drawArrow(target, state.selected);
  for (const waiter of (waiters.get(state.selected) ?? []).slice(0, 50)) drawArrow(state.selected, waiter);
}

/** An arrow from the end of a task to the end of the wait for it. */
function drawArrow(from, to) {
  const [a, b] = [rowOf(from), rowOf(to)];
  if (!a || !b || a.y === undefined || b.y === undefined) return;
  const [x, y] = [xOf(slices.finished[from]), a.y + a.height / 2];
  const [tipX, tipY] = [xOf(slices.finished[to]), b.y + b.height / 2];
  const bend = Math.max(18, Math.min(60, Math.abs(tipX - x) / 2));
  const head = new Path2D();
  head.moveTo(tipX, tipY);
  head.lineTo(tipX - 8, tipY - 4.5);
  head.lineTo(tipX - 8, tipY + 4.5);
  const curve = new Path2D();
  curve.moveTo(x, y);
  curve.bezierCurveTo(x + bend, y, tipX - 8 - bend, tipY, tipX - 7, tipY);
  for (const [colour, width] of [
    [theme.paper, 5],
    [theme.accent, 2],
  ]) {
    pen.strokeStyle = colour;
    pen.lineWidth = width;
    pen.stroke(curve);
  }
  pen.fillStyle = theme.accent;
  pen.fill(head);
}

function drawMeasured() {
  if (!state.measured) return;
  const { start, end } = state.measured;
  const [left, right] = [xOf(start), xOf(end)];
  pen.fillStyle = theme.band;
  pen.fillRect(left, AXIS, right - left, state.height);
  pen.fillStyle = theme.accent;
  pen.fillRect(Math.round(left), AXIS, 1, state.height);
  pen.fillRect(Math.round(right), AXIS, 1, state.height);
  const text = short(end - start);
  const width = textWidth(text, 12, 650) + 16;
  const x = Math.max(GUTTER + 4, Math.min(state.width - width - 12, (left + right - width) / 2));
  pen.beginPath();
  pen.roundRect(x, AXIS + 7, width, 22, 11);
  pen.fill();
  write(text, x + 8, AXIS + 18, theme.paper, 12, Infinity, 650);
}
