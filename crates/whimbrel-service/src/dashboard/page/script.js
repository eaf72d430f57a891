"use strict";
// Shows the status report that comes once a second. Every text goes into the page as text: clients choose their names.

const KEPT = 120; // points of a plot, one a second
const MOST_ROWS = 200; // of a table
const plots = new Map();
let last = null;

const number = (value) => (value ?? 0).toLocaleString("en", { maximumFractionDigits: value < 10 ? 1 : 0 });

function scaled(value, units) {
  let at = 0;
  while (value >= 1000 && at < units.length - 1) { value /= 1000; at += 1; }
  return `${value.toFixed(value < 10 && at > 0 ? 2 : value < 100 && at > 0 ? 1 : 0)} ${units[at]}`;
}
const bytes = (value) => scaled(value ?? 0, ["B", "kB", "MB", "GB", "TB"]);
const rate = (value) => `${scaled(value ?? 0, ["", "k", "M", "G"]).trim()}/s`;
const bits = (value) => scaled(value * 8, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"]);

function time(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 1) return `${(seconds * 1000).toFixed(1)} ms`;
  if (seconds < 120) return `${seconds.toFixed(1)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${(seconds / 3600).toFixed(1)} h` : `${Math.round(seconds / 86400)} d`;
}

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

// Plots

function plot(name, value, show) {
  if (!plots.has(name)) {
    const figure = element("figure");
    const output = element("output");
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", `0 0 ${KEPT - 1} 100`);
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("aria-hidden", "true");
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    svg.append(path);
    figure.append(element("figcaption", name), output, svg);
    document.getElementById("plots").append(figure);
    plots.set(name, { output, path, values: [] });
  }
  const { output, path, values } = plots.get(name);
  values.push(Math.max(0, value));
  if (values.length > KEPT) values.shift();
  output.textContent = show(value);
  const most = Math.max(...values, 1e-9);
  const first = KEPT - values.length;
  const point = (value, at) => `${at ? "L" : "M"}${first + at} ${(96 - (92 * value) / most).toFixed(1)}`;
  path.setAttribute("d", values.map(point).join(""));
}

// Tables

// A column is [head, value of a row], and a value is a text, a number or an element.
function table(title, columns, rows, isAlarm, more) {
  const parts = [element("h2", title)];
  const made = element("table");
  const head = made.createTHead().insertRow();
  const shown = rows.slice(0, MOST_ROWS);
  for (const [name, value] of columns) {
    const isNumber = shown.length > 0 && typeof value(shown[0]) === "number";
    head.append(element("th", name, isNumber ? "number" : ""));
  }
  const body = made.createTBody();
  for (const row of shown) {
    const line = body.insertRow();
    if (isAlarm && isAlarm(row)) line.className = "alarm";
    for (const [name, value] of columns) {
      const content = value(row);
      const cell = line.insertCell();
      if (content instanceof Element) cell.append(content);
      else if (typeof content === "number") { cell.textContent = number(content); cell.className = "number"; }
      else {
        cell.textContent = content ?? "–";
        if (/client|filter|key|peer|target|program/.test(name)) { cell.className = "name"; cell.title = content ?? ""; }
      }
    }
  }
  const scroll = element("div", undefined, "scroll");
  scroll.append(made);
  parts.push(scroll);
  const left = more ?? (rows.length > MOST_ROWS ? `and ${rows.length - MOST_ROWS} more` : "");
  if (left) parts.push(element("p", left, "more"));
  return parts;
}

function fill(held, room) {
  const span = element("span");
  const meter = element("meter");
  meter.max = Math.max(room, 1);
  meter.value = held;
  span.append(meter, `${number(held)} of ${number(room)}`);
  return span;
}

function broker(more) {
  const channels = more.channels ?? [];
  const sum = (field) => channels.reduce((sum, channel) => sum + (channel[field] ?? 0), 0);
  plot("messages in", sum("arrived_per_s"), rate);
  plot("messages out", sum("delivered_per_s"), rate);
  plot("slow subscribers", more.subscribers?.slow ?? 0, number);
  const partitions = channels.flatMap((channel) =>
    (channel.partitions ?? []).map((partition, at) => ({ ...partition, channel: channel.name, at })));
  const { list = [], rest = {} } = more.subscribers ?? {};
  const publishers = more.publishers ?? {};
  const others = (rest, text) => (rest?.number ? `and ${number(rest.number)} more${text}` : "");
  return [
    ...table("Channels", [
      ["channel", (row) => row.name],
      ["in", (row) => rate(row.arrived_per_s)],
      ["out", (row) => rate(row.delivered_per_s)],
      ["arrived", (row) => row.arrived ?? 0],
      ["delivered", (row) => row.delivered ?? 0],
      ["last values", (row) => row.retained ?? 0],
      ["missing", (row) => row.missing ?? 0],
    ], channels),
    ...table("Buffers", [
      ["channel", (row) => row.channel],
      ["partition", (row) => String(row.at)],
      ["fill", (row) => fill(row.messages, row.room)],
      ["bytes", (row) => bytes(row.bytes)],
      ["overwritten", (row) => row.overwritten ?? 0],
      ["oldest", (row) => time(row.oldest_s)],
    ], partitions),
    ...(more.brokers?.length ? table("Brokers", [
      ["broker", (row) => row.name],
      ["address", (row) => row.address],
      ["state", (row) => `${row.state ?? (row.linked ? "linked" : "not linked")} for ${time(row.linked ? row.linked_s : row.away_s)}`],
      ["next attempt in", (row) => time(row.next_attempt_s)],
      ["paths", (row) => `${row.working_paths} of ${row.paths}`],
      ["rtt", (row) => time(row.rtt_ms === null ? null : row.rtt_ms / 1000)],
      ["out", (row) => rate(row.sent_per_s)],
      ["in", (row) => rate(row.received_per_s)],
      ["behind", (row) => row.behind ?? 0],
      ["last failure", (row) => row.trouble],
    ], more.brokers, (row) => !row.linked) : []),
    ...table(`Subscribers (${number(more.subscriptions)})`, [
      ["client", (row) => row.client],
      ["address", (row) => row.address],
      ["filter", (row) => row.filter + (row.selector ? ` where ${row.selector}` : "")],
      ["kind", (row) => row.kind],
      ["state", (row) => (row.slow ? `slow for ${time(row.slow_s)}` : row.recovering ? "recovering" : "keeps up")],
      ["lag", (row) => row.lag ?? 0],
      ["out", (row) => rate(row.delivered_per_s)],
      ["delivered", (row) => row.delivered ?? 0],
      ["recovered", (row) => row.recovered ?? 0],
      ["lost", (row) => row.lost ?? 0],
      ["superseded", (row) => row.superseded ?? 0],
      ["attached for", (row) => time(row.since_s)],
    ], list, (row) => row.slow, others(rest, `, lag ${number(rest.lag)}, lost ${number(rest.lost)}`)),
    ...table(`Publishers (${number(publishers.number)})`, [
      ["client", (row) => row.client],
      ["address", (row) => row.address],
      ["in", (row) => rate(row.accepted_per_s)],
      ["accepted", (row) => row.accepted ?? 0],
      ["refused", (row) => row.refused ?? 0],
    ], publishers.list ?? [], (row) => row.refused > 0, others(publishers.rest, "")),
  ];
}

function proxy(more) {
  const flows = more.flows ?? {};
  plot("flows", flows.running ?? 0, number);
  const hidden = (flows.running ?? 0) - (flows.list?.length ?? 0);
  return [
    ...table("Peers", [
      ["peer", (row) => row.name],
      ["state", (row) => row.state + (row.why ? `: ${row.why}` : "")],
      ["over", (row) => row.connector],
      ["key", (row) => row.key],
    ], more.peers ?? [], (row) => row.state !== "connected"),
    ...table(`Flows (${number(flows.running)}, ${number(flows.opened)} so far, ${number(flows.refused)} refused)`, [
      ["protocol", (row) => row.protocol],
      ["program", (row) => row.program],
      ["target", (row) => row.target],
      ["peer", (row) => row.peer],
      ["rule", (row) => row.rule],
      ["state", (row) => row.state],
      ["age", (row) => time(row.age_s)],
      ["to peer", (row) => bytes(row.to_peer_bytes)],
      ["from peer", (row) => bytes(row.from_peer_bytes)],
    ], flows.list ?? [], undefined, hidden > 0 ? `and ${number(hidden)} more` : undefined),
  ];
}

function figures(more) {
  const rows = Object.entries(more ?? {}).filter(([, value]) => typeof value !== "object");
  return rows.length ? table("Figures", [["figure", ([name]) => name], ["value", ([, value]) => value]], rows) : [];
}

function sessions(now) {
  const rows = now.report.sessions.flatMap((session) => {
    const paths = session.paths.length ? session.paths : [{}];
    return paths.map((path) => ({ session, path }));
  });
  const hidden = now.sessions - now.report.sessions.length;
  return table(`Sessions (${number(now.sessions)})`, [
    ["peer", ({ session }) => session.peer],
    ["address", ({ session }) => session.address],
    ["state", ({ session }) => session.state],
    ["queued", ({ session }) => bytes(session.queue_bytes)],
    ["path", ({ path }) => (path.state ? `${path.local ?? "?"} – ${path.remote}` : "none")],
    ["path state", ({ path }) => path.state && path.state + (path.primary ? ", primary" : "")],
    ["rtt", ({ path }) => time(path.rtt_ms === undefined ? null : path.rtt_ms / 1000)],
    ["lost lately", ({ path }) => (path.loss === undefined ? "–" : `${(path.loss * 100).toFixed(1)} %`)],
    ["carries", ({ path }) => (path.rate ? bits(path.rate) : "–")],
  ], rows, ({ session }) => session.state === "unreachable", hidden > 0 ? `and ${number(hidden)} more` : undefined);
}

function show(now) {
  const { report } = now;
  document.title = `${report.service} – Whimbrel`;
  document.getElementById("name").textContent = report.service;
  document.getElementById("about").textContent =
    `${report.version} · process ${report.pid} · up ${time(report.uptime_s)} · whimbrel://${report.public_key}@${report.address ?? "?"}`;
  const views = { broker, proxy };
  const own = (views[report.service] ?? figures)(report.more ?? {});
  if (last && now.time > last.time && last.report.pid === report.pid) {
    const seconds = (now.time - last.time) / 1000;
    const grown = (field) => Math.max(0, now[field] - last[field]) / seconds;
    plot("received, open sessions", grown("received_bytes"), bits);
    plot("sent, open sessions", grown("sent_bytes"), bits);
  }
  last = now;
  document.getElementById("tables").replaceChildren(...own, ...sessions(now));
}

const state = document.getElementById("state");
const events = new EventSource("events");
events.onopen = () => { state.textContent = "live"; state.className = ""; };
events.onerror = () => { state.textContent = "no answer; trying again"; state.className = "lost"; };
events.onmessage = (event) => show(JSON.parse(event.data));
