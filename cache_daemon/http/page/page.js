// Asks the daemon how it is, and shows it. What comes from the daemon is only ever set as text.
"use strict";

const stats_ms = 1000, slow_ms = 5000;
const tiers = ["device", "host", "disk", "redis"];
const history_limit = 4000;
const reasons = {
  unseen: "never seen",
  evicted: "evicted",
  corrupt: "did not verify",
  failed: "could not be read",
  dropped: "dropped by an operator",
  pending: "others compute it",
  slower: "slower than computing",
  no_room: "no room in device",
  late: "Redis was late",
  behind: "behind a miss",
};

const at = (id) => document.getElementById(id);

function element(name, options = {}, ...children) {
  const made = document.createElement(name);
  if (options.class) made.className = options.class;
  if (options.text !== undefined) made.textContent = options.text;
  if (options.title) made.title = options.title;
  made.append(...children);
  return made;
}

function bytes(number) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (number >= 1024 && unit + 1 < units.length) {
    number /= 1024;
    ++unit;
  }
  return `${unit === 0 || number >= 100 ? Math.round(number) : number.toFixed(1)} ${units[unit]}`;
}

const count = (number) => number.toLocaleString("en");

function span_of(seconds) {
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400)
    return `${Math.floor(seconds / 3600)} h ${Math.floor(seconds / 60) % 60} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor(seconds / 3600) % 24} h`;
}

function ago(unix_ms) {
  const seconds = (Date.now() - unix_ms) / 1000;
  return seconds < 2 ? "just now" : `${span_of(seconds)} ago`;
}

let samples = [];  // of history: counted since the daemon's start
let last = null;   // {stats, ms}

function rate(now, before, seconds, what) {
  const per_second = (now - before) / seconds;
  return per_second < .05 ? null : `${what} ${per_second.toFixed(per_second < 10 ? 1 : 0)}/s`;
}

function make_tier(name) {
  const parts = {
    use: element("span", {class: "tier_use"}),
    blocks: element("span", {class: "quiet"}),
    flow: element("span", {class: "quiet tier_flow"}),
    fill: element("div", {class: "fill"}),
  };
  parts.root = element(
      "div", {class: `tier ${name}`},
      element("div", {class: "tier_head"}, element("span", {class: "tier_name", text: name}),
              parts.use, parts.blocks, parts.flow),
      element("div", {class: "trough"}, parts.fill));
  return parts;
}

const tier_parts = {};

function show_tiers(stats, before, seconds) {
  for (const name of tiers) {
    const tier = stats.tiers[name];
    if (!tier || (name === "redis" ? !stats.redis : tier.capacity_bytes === 0)) continue;
    if (!tier_parts[name]) {
      tier_parts[name] = make_tier(name);
      at("tiers").append(tier_parts[name].root);
    }
    const parts = tier_parts[name];
    if (name === "redis") {
      const on = stats.redis.breaker === "closed";
      parts.use.textContent = on ? "on" : "off";
      parts.fill.style.width = on ? "100%" : "0";
      parts.blocks.textContent = `${count(tier.blocks)} blocks believed there`;
    } else {
      const part = tier.used_bytes / tier.capacity_bytes;
      parts.use.textContent =
          `${bytes(tier.used_bytes)} of ${bytes(tier.capacity_bytes)} (${Math.round(part * 100)}%)`;
      parts.fill.style.width = `${Math.min(part, 1) * 100}%`;
      parts.blocks.textContent = `${count(tier.blocks)} blocks, ${count(tier.hits)} hits`;
    }
    const old = before && before.tiers[name];
    parts.flow.textContent = !old ? "" : [
      rate(tier.hits, old.hits, seconds, "hits"),
      rate(tier.promotions, old.promotions, seconds, "▲"),
      rate(tier.demotions, old.demotions, seconds, "▼"),
      rate(tier.evictions, old.evictions, seconds, "evicted"),
    ].filter(Boolean).join("  ");
  }
}

const sum = (object) => Object.values(object).reduce((all, one) => all + one, 0);

function show_ratio(stats) {
  const hits = tiers.reduce((all, name) => all + stats.tiers[name].hits, 0);
  const misses = sum(stats.misses);
  samples.push({unix_ms: Date.now(), hits, misses});
  if (samples.length > history_limit) samples = samples.slice(-history_limit / 2);
  at("ratio").textContent = hits + misses === 0 ? "" : `${Math.round(hits / (hits + misses) * 100)}%`;
  chart.draw(at("chart"), samples, Date.now());
}

function show_misses(stats) {
  const found = Object.entries(stats.misses).filter(([, number]) => number > 0);
  found.sort((a, b) => b[1] - a[1]);
  const most = found.length ? found[0][1] : 1;
  const rows = found.map(([reason, number]) => {
    const bar = element("div", {class: "bar"});
    bar.style.width = `${number / most * 100}%`;
    return [element("span", {text: reasons[reason] || reason}), bar,
            element("span", {class: "number", text: count(number)})];
  }).flat();
  if (rows.length === 0) rows.push(element("span", {class: "quiet", text: "none yet"}));
  at("misses").replaceChildren(...rows);
}

function show_now(stats) {
  const facts = [
    ["Sessions", count(stats.sessions)],
    ["Leases", count(stats.leases)],
    ["Reserved slots", count(stats.reserved_slots)],
    ["Quarantined slots", count(stats.quarantined_slots)],
    ["Blocks being computed", count(stats.pending_blocks)],
    ["Acquires that wait", count(stats.waiting_acquires)],
    ["Spaces", count(stats.spaces)],
    ["Written to disk this hour", bytes(stats.disk_hour_bytes)],
    ["Corrupt copies dropped", count(tiers.reduce((n, name) => n + stats.tiers[name].corruptions, 0))],
  ];
  for (const tenant of stats.tenants)
    for (const name of tiers)
      if (tenant[name] && tenant[name].quota_bytes !== undefined)
        facts.push([`${tenant.name}, ${name}`,
                    `${bytes(tenant[name].used_bytes)} of ${bytes(tenant[name].quota_bytes)}`]);
  at("now").replaceChildren(...facts.map(([name, value]) => [element("dt", {text: name}),
                                                             element("dd", {text: value})]).flat());
  at("pin_budget").textContent =
      `${bytes(stats.pinned_bytes)} of ${bytes(stats.pin_capacity_bytes)}`;
}

function show_state(text, good) {
  at("state").textContent = text;
  at("state").className = `state ${good ? "good" : "bad"}`;
}

function show_stats(stats) {
  const now_ms = performance.now();
  if (last && last.stats.boot_id !== stats.boot_id) {
    last = null;
    samples = [];
  }
  show_tiers(stats, last && last.stats, last ? (now_ms - last.ms) / 1000 : 1);
  show_ratio(stats);
  show_misses(stats);
  show_now(stats);
  at("about").textContent = `version ${stats.version}, up ${span_of(stats.uptime_s)}`;
  last = {stats, ms: now_ms};
}

const open_runs = new Set();  // that somebody has closed or opened, by their first key

function show_run(runs, children, index) {
  const run = runs[index];
  const line = element("span", {class: "run"});
  if (run.parent === null)
    line.append(element("span", {class: "label",
                                 text: (run.label || "unnamed") +
                                       (run.tenant ? ` · ${run.tenant}` : "")}));
  line.append(
      element("span", {text: `${count(run.blocks)} block${run.blocks === 1 ? "" : "s"}`}),
      element("span", {class: "quiet", text: `${bytes(run.bytes)}, ${ago(run.used_unix_ms)}`}));
  for (const name of tiers)
    if (run.tiers[name] > 0)
      line.append(element("span", {class: `chip ${name}`, title: `${run.tiers[name]} in ${name}`,
                                   text: run.tiers[name] === run.blocks
                                             ? name
                                             : `${name} ${run.tiers[name]}`}));
  if (run.pinned) line.append(element("span", {class: "chip pin", text: "pinned"}));
  if (run.holders > 0)
    line.append(element("span", {class: "quiet",
                                 text: `${run.holders} lease${run.holders === 1 ? "" : "s"}`}));
  line.append(element("span", {class: "tokens", title: `key ${run.first}, tokens ${run.tokens.join(" ")}`,
                               text: run.text || run.tokens.join(" ")}));
  if (children[index].length === 0) return element("li", {}, line);
  const more = element("details", {}, element("summary", {}, line),
                       element("ul", {}, ...children[index].map(
                                             (child) => show_run(runs, children, child))));
  more.open = !open_runs.has(run.first);
  more.addEventListener("toggle", () => {
    if (more.open) open_runs.delete(run.first);
    else open_runs.add(run.first);
  });
  return element("li", {}, more);
}

function show_prefixes({runs}) {
  const children = runs.map(() => []);
  const heads = [];
  runs.forEach((run, index) => (run.parent === null ? heads : children[run.parent]).push(index));
  const tails = children.filter((list) => list.length === 0).length;
  at("prefix_count").textContent = runs.length ? `the last ${tails}` : "";
  at("prefixes").replaceChildren(...heads.map((head) => show_run(runs, children, head)));
  if (!runs.length)
    at("prefixes").replaceChildren(element("li", {class: "quiet", text: "nothing is cached yet"}));
}

function show_pins({pins, total}) {
  if (total === 0) {
    at("pins").replaceChildren(element("p", {class: "quiet", text: "Nothing is pinned."}));
    return;
  }
  const cell = (text) => element("td", {text});
  const rows = pins.map(
      (pin) => element("tr", {}, element("td", {title: pin.key}, element("code", {text: pin.key.slice(0, 12)})),
                       cell(`${count(pin.blocks)}${pin.whole ? "" : ", not all there"}`),
                       cell(bytes(pin.bytes)), cell(pin.tier || "any"),
                       cell(pin.expires_unix_ms
                                ? new Date(pin.expires_unix_ms).toISOString().slice(0, 16).replace("T", " ")
                                : "never")));
  const head = ["key", "blocks", "size", "tier", "until (UTC)"].map((text) => element("th", {text}));
  at("pins").replaceChildren(
      element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows)));
}

async function get(path) {
  const answer = await fetch(path, {cache: "no-store"});
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

async function forever(interval_ms, work) {
  for (;;) {
    // Nobody looks: nothing is asked.
    if (!document.hidden) await work();
    await new Promise((resume) => setTimeout(resume, interval_ms));
  }
}

async function look_at_stats() {
  try {
    show_stats(await get("/api/stats"));
    const ready = await fetch("/readyz", {cache: "no-store"});
    show_state(ready.ok ? "ready" : (await ready.text()).trim(), ready.ok);
  } catch {
    show_state("the daemon does not answer", false);
  }
}

async function look_at_lists() {
  try {
    const [prefixes, pins] = await Promise.all([get("/api/prefixes"), get("/api/pins")]);
    show_prefixes(prefixes);
    show_pins(pins);
  } catch {
    // look_at_stats() says so.
  }
}

async function start() {
  try {
    samples = (await get("/api/history")).samples;
  } catch {
    // As above.
  }
  forever(stats_ms, look_at_stats);
  forever(slow_ms, look_at_lists);
}

start();
