// Step 2: the rows of a view. A lane is the slices of one row by time, with running sums for each kind, so that "how
// busy was it from here to there" takes a few look-ups, however many slices there are: that makes drawing cheap.

const HOST = -1; // stands for a device in rows of the host
const HEIGHT = { group: 34, lane: 30, chart: 50 };

/** Order slices by time; `which` is a list of their numbers, none of which overlap. */
function makeLane(which) {
  const count = which.length;
  const lane = { slices: which, started: new Float64Array(count), finished: new Float64Array(count), sums: new Map() };
  for (let i = 0; i < count; i++) {
    const slice = which[i];
    lane.started[i] = slices.started[slice];
    lane.finished[i] = slices.finished[slice];
    const kind = slices.kind[slice];
    if (!lane.sums.has(kind)) lane.sums.set(kind, new Float64Array(count + 1));
  }
  lane.sums = new Map([...lane.sums].sort(([a], [b]) => a - b)); // what is stacked is so in the same order everywhere
  for (const [kind, sum] of lane.sums) {
    for (let i = 0; i < count; i++) {
      sum[i + 1] = sum[i] + (slices.kind[which[i]] === kind ? lane.finished[i] - lane.started[i] : 0);
    }
  }
  return lane;
}

/** How long before that time slices of this kind ran; `place` is the first that starts after it. */
function busyBefore(lane, kind, time, place = search(lane.started, time, true)) {
  if (!place) return 0;
  const last = place - 1;
  const over = slices.kind[lane.slices[last]] === kind ? Math.max(0, lane.finished[last] - time) : 0;
  return lane.sums.get(kind)[place] - over;
}

/** How long a row worked: waits are not work. */
function workBetween(lane, start, end) {
  let sum = 0;
  for (const kind of lane.sums.keys())
    if (kind !== KIND.wait) sum += busyBefore(lane, kind, end) - busyBefore(lane, kind, start);
  return sum;
}

/** Split slices by a key; within each, order them by time. */
function groupBy(which, key) {
  const found = new Map();
  for (const slice of which) {
    const name = key(slice);
    if (!found.has(name)) found.set(name, []);
    found.get(name).push(slice);
  }
  for (const part of found.values()) {
    part.sort((a, b) => slices.started[a] - slices.started[b] || slices.finished[b] - slices.finished[a] || a - b);
  }
  return found;
}

/** Deal slices out to as few lanes as keep them apart: one, but for copies without a stream and hosts that nest. */
function spread(which) {
  const lanes = [];
  const ends = [];
  for (const slice of which) {
    let lane = ends.findIndex((end) => end <= slices.started[slice]);
    if (lane < 0) lane = lanes.push([]) - 1;
    lanes[lane].push(slice);
    ends[lane] = slices.finished[slice];
  }
  return lanes;
}

/** Make a row per lane. What took no time, such as a record, is a tick on the first of them. */
function laneRows(which, label, note, device) {
  const marked = which.filter(
    (slice) => slices.kind[slice] >= KIND.wait && slices.started[slice] === slices.finished[slice],
  );
  const taking = which.filter(
    (slice) => slices.kind[slice] < KIND.wait || slices.started[slice] !== slices.finished[slice],
  );
  const lanes = taking.length ? spread(taking) : [[]];
  return lanes.map((lane, number) => ({
    type: "lane",
    label: number ? "" : label,
    note: number ? "" : note,
    device,
    lane: makeLane(lane),
    marks: makeLane(number ? [] : marked),
    height: HEIGHT.lane,
  }));
}

// -- views ------------------------------------------------------------------------------------------------------------

const VIEWS = { streams: "Streams", engines: "Engines" };

/** All rows of a view: the host, then every device. */
function buildRows(view) {
  const rows = hostRows();
  const devices = groupBy(range(0, slices.tasks), view === "streams" ? deviceOfStream : (task) => work(task).device);
  for (const device of [...devices.keys()].sort((a, b) => a - b)) {
    const soc = raw.socs[device];
    rows.push({ type: "group", label: `npu:${device}`, note: soc ?? "", device, height: HEIGHT.group });
    rows.push(
      ...(view === "streams" ? streamRows(devices.get(device), device) : engineRows(devices.get(device), device)),
    );
    rows.push(...chartRows(devices.get(device), device));
  }
  return rows;
}

/** The device that a task's stream belongs to: a copy may run on an engine of another one. */
const deviceOfStream = (task) => raw.streams[tasks.stream[task]]?.[1] ?? work(task).device;

function hostRows() {
  const waits = range(slices.tasks, slices.tasks + slices.hosts);
  const spans = range(slices.tasks + slices.hosts, slices.count);
  if (!waits.length && !spans.length) return [];
  const rows = [{ type: "group", label: "host", note: "", device: HOST, height: HEIGHT.group }];
  const annotated = groupBy(spans, (slice) => raw.spans[slice - slices.tasks - slices.hosts][3]);
  const waited = groupBy(waits, (slice) => hosts.thread[slice - slices.tasks]);
  for (const thread of [...new Set([...annotated.keys(), ...waited.keys()])].sort((a, b) => a - b)) {
    rows.push(
      ...laneRows(annotated.get(thread) ?? [], `thread ${thread}`, "annotations", HOST).filter(
        (row) => row.lane.slices.length,
      ),
    );
    const mine = laneRows(waited.get(thread) ?? [], `thread ${thread}`, "waits", HOST);
    rows.push(...mine.filter((row) => row.lane.slices.length || row.marks.slices.length));
  }
  return rows;
}

function streamRows(which, device) {
  const streams = groupBy(which, (task) => tasks.stream[task]);
  return [...streams.keys()]
    .sort((a, b) => (a < 0) - (b < 0) || a - b)
    .flatMap((stream) =>
      laneRows(
        streams.get(stream),
        stream < 0 ? "no stream" : `stream ${stream}`,
        raw.streams[stream]?.[0] ?? "",
        device,
      ),
    );
}

function engineRows(which, device) {
  const order = Object.fromEntries(KINDS.map((kind, number) => [kind.key, number]));
  const rank = (engine) => order[engine] ?? order.other;
  const engines = groupBy(
    which.filter((task) => work(task).engine),
    (task) => `${work(task).engine} ${tasks.lane[task]}`,
  );
  const parts = [...engines.entries()].map(([label, part]) => ({
    label,
    part,
    engine: work(part[0]).engine,
    lane: tasks.lane[part[0]],
  }));
  parts.sort((a, b) => rank(a.engine) - rank(b.engine) || a.engine.localeCompare(b.engine) || a.lane - b.lane);
  return parts.flatMap(({ label, part }) => laneRows(part, label, "", device));
}

/** How many tasks were waiting or running, and how much memory was in use: steps over time. */
function chartRows(which, device) {
  const rows = [];
  rows.push({ type: "chart", label: "in flight", device, height: HEIGHT.chart, series: queued(which), text: counted });
  const mine = range(0, memory.time.length).filter((place) => memory.device[place] === device);
  if (mine.length) {
    const series = { times: mine.map((place) => memory.time[place]), values: mine.map((place) => memory.used[place]) };
    rows.push({ type: "chart", label: "memory", device, height: HEIGHT.chart, series: peaked(series), text: size });
  }
  return rows;
}

function queued(which) {
  const enqueued = Float64Array.from(which, (task) => tasks.submitted[task]).sort();
  const ended = Float64Array.from(which, (task) => tasks.finished[task]).sort();
  const times = new Float64Array(2 * which.length);
  const values = new Float64Array(2 * which.length);
  for (let up = 0, down = 0, at = 0; at < times.length; at++) {
    // At one instant what ends makes room for what comes, unless it came at that instant itself.
    const next = up < enqueued.length && (enqueued[up] < ended[down] || (enqueued[up] === ended[down] && up === down));
    times[at] = next ? enqueued[up++] : ended[down++];
    values[at] = up - down;
  }
  return peaked({ times, values });
}

const counted = (count) => `${grouped(count)} ${count === 1 ? "task" : "tasks"}`;

function peaked(series) {
  let peak = 0;
  for (const value of series.values) peak = Math.max(peak, value);
  return { ...series, peak };
}

function range(first, end) {
  return Array.from({ length: end - first }, (_, number) => first + number);
}
