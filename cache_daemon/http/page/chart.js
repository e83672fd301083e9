// The hit ratio over time, as a picture.
"use strict";

const chart = (() => {
  const width = 560, height = 190, left = 38, right = 10, top = 10, bottom = 24;
  const hour_ms = 3600 * 1000, minute_ms = 60 * 1000;

  function shape(name, attributes, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  // One point a minute in which somebody wanted blocks: {unix_ms, ratio}. `samples` hold what was
  // counted since the daemon's start, the oldest first.
  function points(samples) {
    const minutes = new Map();
    for (let i = 1; i < samples.length; ++i) {
      const before = samples[i - 1], now = samples[i];
      const hits = now.hits - before.hits, misses = now.misses - before.misses;
      if (hits + misses <= 0) continue;
      const minute = Math.floor(now.unix_ms / minute_ms) * minute_ms;
      const sum = minutes.get(minute) || {hits: 0, misses: 0};
      sum.hits += hits;
      sum.misses += misses;
      minutes.set(minute, sum);
    }
    return [...minutes].map(
        ([unix_ms, sum]) => ({unix_ms, ratio: sum.hits / (sum.hits + sum.misses)}));
  }

  function draw(place, samples, now_ms) {
    const x = (unix_ms) =>
        left + (width - left - right) * Math.max(0, 1 - (now_ms - unix_ms) / hour_ms);
    const y = (ratio) => top + (height - top - bottom) * (1 - ratio);
    const picture = shape("svg", {viewBox: `0 0 ${width} ${height}`, role: "img",
                                  "aria-label": "hit ratio over the last hour"});
    for (const ratio of [0, .25, .5, .75, 1]) {
      picture.append(
          shape("line", {class: "grid", x1: left, x2: width - right, y1: y(ratio), y2: y(ratio)}),
          shape("text", {class: "label", x: left - 6, y: y(ratio) + 4, "text-anchor": "end"},
                `${ratio * 100}%`));
    }
    for (const minutes of [60, 45, 30, 15, 0])
      picture.append(
          shape("text", {class: "label", x: x(now_ms - minutes * minute_ms), y: height - 6,
                         "text-anchor": minutes === 60 ? "start" : minutes ? "middle" : "end"},
                minutes ? `−${minutes} min` : "now"));
    const shown = points(samples).filter((point) => now_ms - point.unix_ms <= hour_ms + minute_ms);
    if (shown.length > 0) {
      const line = shown.map((point) => `${x(point.unix_ms)},${y(point.ratio)}`).join(" ");
      const last = shown[shown.length - 1];
      picture.append(
          shape("polygon", {class: "area", points: `${x(shown[0].unix_ms)},${y(0)} ${line} ` +
                                                   `${x(last.unix_ms)},${y(0)}`}),
          shape("polyline", {class: "ratio", points: line}),
          shape("circle", {class: "dot", cx: x(last.unix_ms), cy: y(last.ratio), r: 3.5}));
    } else {
      picture.append(shape("text", {class: "label", x: (left + width) / 2, y: y(.5) - 8,
                                    "text-anchor": "middle"}, "nobody has asked for a block yet"));
    }
    place.replaceChildren(picture);
  }

  return {draw};
})();
