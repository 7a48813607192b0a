// Step 3: what drawing is done with: the pen, the colours of the theme, and text that is cut to the room there is.

const canvas = document.getElementById("canvas");
const pen = canvas.getContext("2d", { alpha: false });
const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";
const widths = new Map(); // of texts, by their font
let theme = {};

function textWidth(text, points, weight = 400) {
  const key = `${weight} ${points} ${text}`;
  if (!widths.has(key)) {
    pen.font = `${weight} ${points}px ${FONT}`;
    widths.set(key, pen.measureText(text).width);
  }
  return widths.get(key);
}

/** Write a text, shortened to the room there is; nothing if that is too little. */
function write(text, x, y, colour, points, room = Infinity, weight = 400) {
  const wide = textWidth(text, points, weight);
  let shown = text;
  if (wide > room) {
    const letters = [...text];
    shown = `${letters.slice(0, Math.floor((room / wide) * letters.length) - 1).join("")}…`;
    if (shown.length < 5) return;
  }
  pen.font = `${weight} ${points}px ${FONT}`;
  pen.textBaseline = "middle";
  pen.fillStyle = colour;
  pen.fillText(shown, x, y + 0.5);
}

/** Take the colours of the style sheet, which follow the system's theme. */
function readTheme() {
  const style = getComputedStyle(document.documentElement);
  const names = [
    "paper",
    "plane",
    "ink",
    "soft",
    "faint",
    "line",
    "grid",
    "accent",
    "hatch",
    "hatched",
    "band",
    "note",
  ];
  theme = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  theme.waiting = hatching();
  for (const kind of KINDS) if (kind.colour) kind.ink = luminance(kind.colour) > 0.2 ? "#10151d" : "#ffffff";
}

function hatching() {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const brush = tile.getContext("2d");
  brush.fillStyle = theme.hatched;
  brush.fillRect(0, 0, 8, 8);
  brush.strokeStyle = theme.hatch;
  brush.globalAlpha = 0.55;
  brush.beginPath();
  for (const shift of [-8, 0, 8]) {
    brush.moveTo(shift - 1, 9);
    brush.lineTo(shift + 9, -1);
  }
  brush.stroke();
  return pen.createPattern(tile, "repeat");
}

function luminance(colour) {
  const parts = [1, 3, 5].map((at) => (parseInt(colour.slice(at, at + 2), 16) / 255) ** 2.2);
  return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
}
