// Step 1: the page's data, decoded. Everything that takes time is a slice with a number: first the tasks, by id, then
// the waits of hosts, then their annotations. Times are nanoseconds since the start of the runtime.

const raw = JSON.parse(document.getElementById("data").textContent);

// One colour per kind of engine, in every view: the palette of Okabe and Ito, which the colour-blind can tell apart.
const KINDS = [
  { key: "ai_core", colour: "#0072b2" },
  { key: "ai_vector", colour: "#009e73" },
  { key: "ai_cpu", colour: "#56b4e9" },
  { key: "dvpp", colour: "#cc79a7" },
  { key: "h2d", colour: "#e69f00", label: "copy in (h2d)" },
  { key: "d2h", colour: "#d55e00", label: "copy out (d2h)" },
  { key: "d2d", colour: "#f0e442", label: "copy (d2d)" },
  { key: "host", colour: "#9aa3ad", label: "copy (host)" },
  { key: "callback", colour: "#8d7bc0" },
  { key: "other", colour: "#a0785a", label: "other engine" },
  { key: "wait", colour: null },
  { key: "mark", colour: null, label: "record" },
  { key: "span", colour: null, label: "annotation" },
];
const KIND = Object.fromEntries(KINDS.map((kind, number) => [kind.key, number]));
for (const kind of KINDS) kind.label ??= kind.key;

/** What a page has: columns of numbers, of which each place is one slice. Filled by `decode`. */
const slices = { count: 0, tasks: 0, hosts: 0, started: null, finished: null, kind: null };
let tasks, hosts, memory, waiters;

async function decode() {
  tasks = columns(await unpack(raw.tasks, 8), [
    "id",
    "work",
    "stream",
    "lane",
    "submitted",
    "started",
    "finished",
    "bytes",
  ]);
  hosts = mergedWaits(columns(await unpack(raw.hosts, 4), ["task", "started", "finished", "thread"]));
  memory = columns(await unpack(raw.memory, 3), ["time", "device", "used"]);
  slices.tasks = tasks.id.length;
  slices.hosts = hosts.task.length;
  slices.count = slices.tasks + slices.hosts + raw.spans.length;
  slices.started = joined(
    tasks.started,
    hosts.started,
    raw.spans.map((span) => span[1]),
  );
  slices.finished = joined(
    tasks.finished,
    hosts.finished,
    raw.spans.map((span) => span[2]),
  );
  const kinds = raw.works.map(kindOfWork);
  slices.kind = new Uint8Array(slices.count).fill(KIND.wait);
  for (let i = 0; i < slices.tasks; i++) slices.kind[i] = kinds[tasks.work[i]];
  slices.kind.fill(KIND.span, slices.tasks + slices.hosts);
  waiters = waitersByTarget();
}

/** Make one of the waits of a thread that overlap, as those of coroutines do: a row shows when the thread waited. */
function mergedWaits({ task, started, finished, thread }) {
  const found = { task: [], started: [], finished: [], thread: [], waits: [] };
  const open = new Map(); // of each thread the place of its last one
  for (let i = 0; i < task.length; i++) {
    const place = open.get(thread[i]);
    if (place !== undefined && started[i] < found.finished[place]) {
      found.waits[place]++;
      if (finished[i] < found.finished[place]) continue;
      [found.task[place], found.finished[place]] = [task[i], finished[i]];
    } else {
      open.set(thread[i], found.task.push(task[i]) - 1);
      found.started.push(started[i]);
      found.finished.push(finished[i]);
      found.thread.push(thread[i]);
      found.waits.push(1);
    }
  }
  return found;
}

/** Undo `packed` of saved.py: differences from row to row, as planes of bytes, compressed. */
async function unpack(texts, width) {
  const parts = await Promise.all(texts.map(inflate));
  const total = parts.reduce((sum, part) => sum + part.length / 8 / width, 0);
  const found = Array.from({ length: width }, () => new Float64Array(total));
  let done = 0;
  for (const planes of parts) {
    const rows = planes.length / 8 / width;
    for (let column = 0; column < width; column++)
      restore(planes, column * rows, rows, rows * width, found[column], done);
    done += rows;
  }
  return found;
}

async function inflate(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function restore(planes, first, rows, step, target, done) {
  let value = 0;
  for (let at = first; at < first + rows; at++) {
    const low = planes[at] | (planes[at + step] << 8) | (planes[at + 2 * step] << 16) | (planes[at + 3 * step] << 24);
    const high =
      planes[at + 4 * step] |
      (planes[at + 5 * step] << 8) |
      (planes[at + 6 * step] << 16) |
      (planes[at + 7 * step] << 24);
    value += high * 4294967296 + (low >>> 0); // exact up to 2 to the 53rd
    target[done + at - first] = value;
  }
}

function columns(arrays, names) {
  return Object.fromEntries(names.map((name, number) => [name, arrays[number]]));
}

function joined(...parts) {
  const found = new Float64Array(parts.reduce((sum, part) => sum + part.length, 0));
  let done = 0;
  for (const part of parts) {
    found.set(part, done);
    done += part.length;
  }
  return found;
}

function work(task) {
  const [name, engine, capacity, cores, device, blocks, label] = raw.works[tasks.work[task]];
  return { name, engine, capacity, cores, device, blocks, label };
}

function kindOfWork([name, engine]) {
  if (engine) return KIND[engine] ?? KIND.other;
  return name.startsWith("wait") ? KIND.wait : KIND.mark;
}

const isTask = (slice) => slice < slices.tasks;
const isHost = (slice) => slice >= slices.tasks && slice < slices.tasks + slices.hosts;

function nameOf(slice) {
  if (isTask(slice)) return work(slice).name;
  return isHost(slice) ? "host waits" : raw.spans[slice - slices.tasks - slices.hosts][0];
}

/** What is written on a slice, long and short: of a wait that is what it waited for. */
function labelsOf(slice) {
  const name = isHost(slice) ? "waits" : nameOf(slice);
  if (slices.kind[slice] !== KIND.wait) return [name, name];
  const target = waitedFor(slice);
  const what = (isTask(slice) ? work(slice).label : null) ?? (target >= 0 ? whatIs(target) : null);
  return what === null ? [name, name] : [`${name} for ${what}`, what];
}

/** A task as what others wait for: a record without a name stands for its stream. */
function whatIs(task) {
  const { name, label } = work(task);
  if (label) return label;
  return slices.kind[task] === KIND.mark && tasks.stream[task] >= 0 ? streamName(tasks.stream[task]) : name;
}

function streamName(stream) {
  if (stream < 0) return "no stream";
  const name = raw.streams[stream]?.[0];
  return name ? `stream ${stream} (${name})` : `stream ${stream}`;
}

// -- who waited for whom ----------------------------------------------------------------------------------------------

/** The first place of a sorted array, from `low` on, whose value is at least (or, if `after`, above) this one. */
function search(values, value, after = false, low = 0) {
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (after ? values[middle] <= value : values[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

function taskById(id) {
  const place = search(tasks.id, id);
  return tasks.id[place] === id ? place : -1;
}

/** The task that a wait waited for, or -1. Only waits for events and notifies say it. */
function targetOf(slice) {
  if (!isTask(slice) || slices.kind[slice] !== KIND.wait || !tasks.bytes[slice]) return -1;
  return work(slice).name === "wait value" ? -1 : taskById(tasks.bytes[slice]);
}

/** The task that a wait, also of a host, waited for, or -1. */
const waitedFor = (slice) => (isHost(slice) ? taskById(hosts.task[slice - slices.tasks]) : targetOf(slice));

function waitersByTarget() {
  const found = new Map();
  for (let task = 0; task < slices.tasks; task++) {
    const target = targetOf(task);
    if (target < 0) continue;
    if (!found.has(target)) found.set(target, []);
    found.get(target).push(task);
  }
  return found;
}

// -- numbers for people -----------------------------------------------------------------------------------------------

const UNITS = [
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"],
  [1, "ns"],
];
const SPACE = "\u202f";

function grouped(number) {
  return String(number).replace(/\B(?=(\d{3})+(?!\d))/g, SPACE);
}

/** A duration with four digits, as 48.69 µs. */
function short(ns) {
  const [scale, unit] = UNITS.find(([scale]) => Math.abs(ns) >= scale) ?? UNITS[3];
  return `${scale === 1 ? Math.round(ns) : Number((ns / scale).toPrecision(4))} ${unit}`;
}

/** A point in time to the nanosecond, in a unit that suits it: 1.807 914 ms. */
function exact(ns) {
  const [scale, unit] = UNITS.find(([scale]) => Math.abs(ns) >= scale) ?? UNITS[3];
  const whole = Math.trunc(ns / scale);
  const rest = scale === 1 ? "" : `.${String(Math.abs(ns % scale)).padStart(Math.log10(scale), "0")}`;
  return `${grouped(whole)}${rest.replace(/(\d{3})(?=\d)/g, `$1${SPACE}`)} ${unit}`;
}

function size(bytes) {
  const power = Math.min(4, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
  return `${Number((bytes / 1024 ** power).toPrecision(4))} ${["B", "KiB", "MiB", "GiB", "TiB"][power]}`;
}

function percent(share) {
  return share > 0 && share < 0.001 ? "< 0.1 %" : `${(100 * share).toFixed(1)} %`;
}

const lowest = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);
const highest = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);
