// Step 5: what stands above the rows: a strip with all of it, small, and a frame around what is in sight; and the axis.

// -- the axis ---------------------------------------------------------------------------------------------------------

/** Round times at least 120 pixels apart, and the unit in which they are short. */
function axisTicks() {
  const least = 120 / scale();
  let step = 10 ** Math.ceil(Math.log10(least));
  if (step / 5 >= least) step /= 5;
  else if (step / 2 >= least) step /= 2;
  step = Math.max(1, Math.round(step));
  const times = [];
  for (let time = Math.ceil(state.start / step) * step; time <= state.end; time += step) times.push(time);
  const most = Math.max(Math.abs(state.end), step);
  const [unit, name] = UNITS.find(([unit]) => unit <= step * 100 && unit <= most) ?? UNITS[3];
  const digits = Math.max(0, Math.ceil(Math.log10(unit / step) - 1e-9));
  return { times, step, text: (time) => (time ? `${groupedText((time / unit).toFixed(digits))} ${name}` : "0") };
}

function groupedText(text) {
  const [whole, rest] = text.split(".");
  return grouped(whole) + (rest ? `.${rest}` : "");
}

function drawGrid({ times }) {
  pen.fillStyle = theme.grid;
  for (const time of times) pen.fillRect(Math.round(xOf(time)), AXIS, 1, state.height);
}

function drawAxis({ times, text }) {
  pen.fillStyle = theme.paper;
  pen.fillRect(0, 0, state.width, AXIS);
  pen.fillStyle = theme.line;
  pen.fillRect(0, AXIS - 1, state.width, 1);
  const middle = OVERVIEW + 15;
  clipped(GUTTER, OVERVIEW, state.width, AXIS, () => {
    for (const time of times) {
      const x = Math.round(xOf(time));
      pen.fillStyle = theme.faint;
      pen.fillRect(x, AXIS - 6, 1, 5);
      if (x + 5 + textWidth(text(time), 12) < state.width) write(text(time), x + 5, middle, theme.soft, 12);
    }
  });
  write("time since the start", 20, middle, theme.faint, 12);
}

// -- the overview -----------------------------------------------------------------------------------------------------

/** Draw all of it, small, and lay a veil over what is not in sight. */
function drawOverview() {
  pen.fillStyle = theme.plane;
  pen.fillRect(0, 0, state.width, OVERVIEW);
  write("everything", 20, OVERVIEW / 2, theme.faint, 12);
  state.overview ??= overviewImage();
  pen.globalAlpha = 0.75;
  pen.drawImage(state.overview, GUTTER, 0, state.width - GUTTER, OVERVIEW);
  const around = withMargin();
  const room = (state.width - GUTTER) / (around.end - around.start);
  const at = (time) => Math.max(GUTTER, Math.min(state.width, GUTTER + (time - around.start) * room));
  const [left, right] = [at(state.start), Math.max(at(state.end), at(state.start) + 3)];
  pen.fillStyle = theme.plane;
  pen.globalAlpha = 0.75;
  pen.fillRect(GUTTER, 0, left - GUTTER, OVERVIEW);
  pen.fillRect(right, 0, state.width - right, OVERVIEW);
  pen.globalAlpha = 1;
  pen.strokeStyle = theme.accent;
  pen.lineWidth = 1.5;
  if (right - left < state.width - GUTTER) {
    pen.beginPath();
    pen.roundRect(left + 0.75, 0.75, right - left - 1.5, OVERVIEW - 1.5, 3);
    pen.stroke();
  }
  pen.fillStyle = theme.line;
  pen.fillRect(0, OVERVIEW - 1, state.width, 1);
}

/** Add up how busy all lanes of the devices were, column by column; the fullest column is as high as the strip. */
function overviewImage() {
  const lanes = state.rows.filter((row) => row.type === "lane" && row.device >= 0).map((row) => row.lane);
  const count = Math.max(1, Math.floor((state.width - GUTTER) / COLUMN));
  const around = withMargin();
  const width = (around.end - around.start) / count;
  const columns = Array.from({ length: count }, () => new Map());
  for (const lane of lanes) {
    for (const kind of [...lane.sums.keys()].filter((kind) => kind < KIND.wait)) {
      let before = 0;
      columns.forEach((column, number) => {
        const busy = busyBefore(lane, kind, around.start + (number + 1) * width);
        column.set(kind, (column.get(kind) ?? 0) + busy - before);
        before = busy;
      });
    }
  }
  const fullest = columns.reduce(
    (peak, column) =>
      Math.max(
        peak,
        [...column.values()].reduce((a, b) => a + b, 0),
      ),
    0,
  );
  return stacked(columns, (OVERVIEW - 8) / Math.max(1, fullest));
}

function stacked(columns, unit) {
  const image = Object.assign(document.createElement("canvas"), { width: columns.length, height: OVERVIEW });
  const brush = image.getContext("2d");
  columns.forEach((column, x) => {
    let y = OVERVIEW - 3;
    for (const kind of [...column.keys()].sort((a, b) => a - b)) {
      const height = column.get(kind) * unit;
      brush.fillStyle = KINDS[kind].colour;
      brush.fillRect(x, y - height, 1, height);
      y -= height;
    }
  });
  return image;
}
