// The status page of penapi. What comes from the mail system becomes text nodes and nothing else.
"use strict";

const $ = (id) => document.getElementById(id);

/** An element: el("td", {class: "x"}, "text", child, …). Values become attributes; functions, listeners. */
function el(name, attributes, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (typeof value === "function") node.addEventListener(key, value);
    else if (value === true) node.setAttribute(key, "");
    else if (value !== false && value != null) node.setAttribute(key, String(value));
  }
  for (const child of children.flat(Infinity)) if (child != null) node.append(child);
  return node;
}
function svg(name, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, String(value));
  node.append(...children);
  return node;
}

const numbers = new Intl.NumberFormat("en");
const count = (n) => (n == null ? "–" : numbers.format(n));
function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  while (n >= 1024 && i < units.length - 1) { n /= 1024; i += 1; }
  return `${n >= 10 || i === 0 ? Math.round(n) : n.toFixed(1)} ${units[i]}`;
}
function span(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}
const rate = (n) => (n >= 100 ? Math.round(n) : n >= 10 ? n.toFixed(1) : n.toFixed(2)).toString();
const two = (n) => String(n).padStart(2, "0");
function clock(s) {
  const d = new Date(s * 1000);
  const day = `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`;
  return `${day} ${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}
const hour = (s) => clock(s).slice(11, 16);
/** The time of day, of another day with its date. */
const moment = (s) => (clock(s).slice(0, 10) === clock(Date.now() / 1000).slice(0, 10) ? clock(s).slice(11) : clock(s));

// --- asking -----------------------------------------------------------------------------------------------------

const token = {
  get: () => sessionStorage.getItem("token") || "",
  set: (value) => (value ? sessionStorage.setItem("token", value) : sessionStorage.removeItem("token")),
};
function headers() {
  return token.get() ? { Authorization: `Bearer ${token.get()}` } : {};
}
class Refused extends Error {
  constructor(status, text) { super(text); this.status = status; }
}
async function ask(path, body) {
  const options = { headers: headers(), cache: "no-store" };
  if (body !== undefined) { options.method = "POST"; options.body = JSON.stringify(body); }
  const answer = await fetch(`api/v1/${path}`, options);
  let content = {};
  try { content = await answer.json(); } catch { /* an answer without JSON has its status */ }
  if (!answer.ok) throw new Refused(answer.status, content.error || `status ${answer.status}`);
  return content;
}
const query = (fields) => new URLSearchParams(Object.entries(fields).filter(([, v]) => v !== "" && v != null)).toString();

// --- what is live -----------------------------------------------------------------------------------------------

const live = { overview: null, previous: null, events: [], connected: false };
const kEventsKept = 500;

function judge(o) {
  if (!o.up) return ["bad", `the queue manager does not answer${o.problem ? `: ${o.problem}` : ""}`];
  if (!o.accepting) return ["bad", "no room in the queue: mail is refused for now"];
  if (!o.recovered) return ["warn", "the queue is being read after a start"];
  const full = o.disks.find((d) => d.size > 0 && d.free / d.size < 0.05);
  if (full) return ["warn", `the disk of ${full.name} is nearly full`];
  return ["good", "all is well"];
}
function showState() {
  const state = $("state");
  const o = live.overview;
  const [kind, text] = !live.connected || !o ? ["bad", "no connection to penapi: trying again"] : judge(o);
  if (state.textContent !== text) state.textContent = text;
  state.className = `state ${kind}`;
  if (!o) return;
  $("host").textContent = o.host;
  document.title = `${kind === "good" ? "" : "! "}${o.host} – Penstock`;
  $("updated").textContent = `Penstock ${o.version}, ${clock(o.time)}`;
}
function take(type, data) {
  if (type === "overview") {
    live.previous = live.overview;
    live.overview = JSON.parse(data);
    live.connected = true;
    showState();
    view.overview?.();
  } else if (type === "event") {
    live.events.push(JSON.parse(data));
    if (live.events.length > kEventsKept) live.events.splice(0, live.events.length - kEventsKept);
    view.event?.();
  }
}
/** Asks for a token once; who leaves the question finds the button. */
async function allowed(answer) {
  let why = "Reading needs a token here.";
  try { why = (await answer.json()).error; } catch { /* the status says enough */ }
  const state = $("state");
  state.className = "state bad";
  state.textContent = `${why}: see the button Token`;
  if (answer.status === 401 && !allowed.asked) { allowed.asked = true; if (await askToken("Reading needs a token here.")) return; }
  await new Promise((resolve) => { allowed.again = resolve; });
}
/** Server-sent events by fetch, because EventSource cannot send a token. */
async function follow() {
  for (;;) {
    try {
      const answer = await fetch("api/v1/stream", { headers: headers(), cache: "no-store" });
      if (answer.status === 401 || answer.status === 403) { await allowed(answer); continue; }
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        const parts = (rest + value).split("\n\n");
        rest = parts.pop();
        for (const part of parts) {
          let type = "message", data = "";
          for (const line of part.split("\n")) {
            if (line.startsWith("event: ")) type = line.slice(7);
            if (line.startsWith("data: ")) data += line.slice(6);
          }
          if (data) take(type, data);
        }
      }
    } catch { /* the server went away, or the network: said by the state line */ }
    live.connected = false;
    showState();
    await new Promise((resolve) => setTimeout(resolve, 2000));
  }
}

// --- pieces -----------------------------------------------------------------------------------------------------

const tag = (kind, text) => el("span", { class: `tag ${kind}` }, text);
/** name: what a screen reader calls it. */
function table(name, columns, rows, empty) {
  if (rows.length === 0) return el("p", { class: "note" }, empty);
  const head = el("tr", {}, columns.map((c) => el("th", { scope: "col", class: c.number ? "number" : null }, c.title)));
  const lines = rows.map((row) => el("tr", {}, columns.map((c) =>
    el("td", { "data-label": c.title, class: c.number ? "number" : c.text ? "text" : null }, c.cell(row)))));
  return el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": name },
    el("table", { class: "stack" }, el("thead", {}, head), el("tbody", {}, lines)));
}
/** Lines over time. series: [{name, values}], all as long as times. */
function plot(title, times, series, form) {
  const width = 640, height = 176, left = 46, bottom = 20, top = 8;
  const most = Math.max(1e-9, ...series.flatMap((s) => s.values));
  const power = 10 ** Math.floor(Math.log10(most));
  const peak = [1, 2, 5, 10].map((f) => f * power).find((p) => p >= most) || most;
  const first = times[0], last = times[times.length - 1];
  const x = (t) => left + ((width - left - 4) * (t - first)) / Math.max(1, last - first);
  const y = (v) => height - bottom - ((height - bottom - top) * v) / peak;
  const picture = svg("svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img" });
  const now = series.map((s) => `${s.name} ${form(s.values[s.values.length - 1] || 0)}`).join(", ");
  picture.append(svg("title", {}, `${title}; at the end: ${now}; largest ${form(most < 1e-8 ? 0 : most)}`));
  for (const part of [0, 0.5, 1]) {
    picture.append(svg("line", { class: "grid", x1: left, x2: width, y1: y(peak * part), y2: y(peak * part) }));
    picture.append(svg("text", { x: left - 6, y: y(peak * part) + 4, "text-anchor": "end" }, form(peak * part)));
  }
  for (const part of [0, 0.5, 1]) {
    const t = first + (last - first) * part;
    const label = last - first > 86400 ? new Date(t * 1000).toLocaleDateString([], { weekday: "short", day: "numeric" }) : hour(t);
    picture.append(svg("text", { x: x(t), y: height - 4, "text-anchor": ["start", "middle", "end"][part * 2] }, label));
  }
  series.forEach((s, i) => {
    const points = s.values.map((v, k) => `${x(times[k]).toFixed(1)} ${y(v).toFixed(1)}`);
    if (i === 0 && points.length > 1)
      picture.append(svg("path", { class: "area", d: `M${x(first)} ${y(0)}L${points.join("L")}L${x(last)} ${y(0)}Z` }));
    picture.append(svg("path", { class: `c${i}`, d: `M${points.join("L")}` }));
  });
  return [picture, el("ul", { class: "legend" }, series.map((s, i) =>
    el("li", {}, el("i", { class: `c${i}` }), `${s.name} ${form(s.values[s.values.length - 1] || 0)}`)))];
}
/** Whether somebody is at it with the keyboard, or is asked something: then it is not drawn anew. */
const inUse = (node) => node.contains(document.activeElement) || document.querySelector("dialog[open]") !== null;
/** What waits until nobody is at its region any more. */
const waiting = new Map();
/** Draws a region by itself, as time passes: when somebody is at it, as soon as he has left. */
function redraw(node, ...children) {
  if (!inUse(node)) { waiting.delete(node); node.replaceChildren(...children); } else waiting.set(node, children);
}
/** Draws a region because somebody asked for it: what he was at is found again by its words. */
function draw(node, ...children) {
  const at = node.contains(document.activeElement) ? document.activeElement : null;
  waiting.delete(node);
  node.replaceChildren(...children);
  if (!at) return;
  const words = (e) => e.getAttribute("aria-label") || e.textContent;
  const same = [...node.querySelectorAll(at.tagName)].filter((e) => words(e) === words(at));
  (same.find((e) => !e.disabled) || $("main")).focus({ preventScroll: true });
}
function drawWaiting() {
  for (const [node, children] of [...waiting]) {
    if (!node.isConnected) waiting.delete(node);
    else redraw(node, ...children);
  }
}
document.addEventListener("focusout", () => setTimeout(drawWaiting));
$("dialog").addEventListener("close", () => setTimeout(drawWaiting));
function section(title, ...children) {
  return el("section", {}, el("h2", {}, title), children);
}
function problem(error) {
  return el("p", { class: "note error", role: "alert" }, error instanceof Refused ? error.message : "penapi does not answer");
}

// --- orders -----------------------------------------------------------------------------------------------------

function dialog(title, ...children) {
  const box = $("dialog");
  box.replaceChildren(el("h2", { id: "dialog-title" }, title), ...children);
  if (!box.open) box.showModal();
  return box;
}
function askToken(why) {
  return new Promise((resolve) => {
    const field = el("input", { type: "password", autocomplete: "off", id: "token-field" });
    const done = (value) => { if (value !== null) token.set(value.trim()); $("dialog").close(); if (value) allowed.again?.(); resolve(value !== null); };
    const box = dialog("Token",
      el("p", { class: "note" }, why || "A token of penapi_token_file lets this page give orders. It is kept until this tab is closed."),
      el("label", { for: "token-field" }, "Token", field),
      el("div", { class: "tools" },
        el("button", { type: "button", click: () => done("") }, "Forget"),
        el("button", { type: "button", click: () => done(null) }, "Cancel"),
        el("button", { type: "button", class: "main", click: () => done(field.value) }, "Use")));
    field.addEventListener("keydown", (e) => { if (e.key === "Enter") { e.preventDefault(); done(field.value); } });
    box.addEventListener("cancel", () => resolve(false), { once: true });
    field.focus();
  });
}
/** Shows what an order would do, asks, and gives it. */
async function order(title, path, body, describe, then) {
  if (!token.get() && !(await askToken("Orders need a token."))) return;
  const close = el("button", { type: "button", click: () => $("dialog").close() }, "Cancel");
  try {
    let what = describe;
    if (body.dry_run !== undefined) {
      const would = await ask(path, { ...body, dry_run: true });
      what = `${count(would.count)} ${would.count === 1 ? "message" : "messages"} would be concerned.`;
      if (would.count === 0) {
        dialog(title, el("p", {}, "No message is concerned."), el("div", { class: "tools" }, close));
        return;
      }
    }
    const go = el("button", { type: "button", class: "main danger" }, title);
    const result = el("p", { role: "status" });
    go.addEventListener("click", async () => {
      go.disabled = true;
      try {
        const { dry_run, ...real } = body;
        const done = await ask(path, real);
        result.textContent = done.count === undefined ? "Done." : `Done: ${count(done.count)}.`;
        close.textContent = "Close";
        then?.();
      } catch (error) { result.replaceChildren(problem(error)); go.disabled = false; }
    });
    dialog(title, el("p", {}, what), result, el("div", { class: "tools" }, close, go));
    close.focus();
  } catch (error) {
    if (error.status === 401 || error.status === 403) token.set("");
    dialog(title, problem(error), el("div", { class: "tools" }, close));
  }
}

// --- views ------------------------------------------------------------------------------------------------------

let view = {};

function overview(main) {
  const cards = el("div", { class: "cards" });
  const plots = el("div", { class: "pair" });
  const ranges = el("div", { class: "tools", role: "group", "aria-label": "Range of the plots" });
  const troubled = el("section"), classes = el("section");
  let range = sessionStorage.getItem("range") || "hour";
  const buttons = ["hour", "day", "week"].map((name) => el("button", {
    type: "button", click: () => { range = name; sessionStorage.setItem("range", name); plotRange(); },
  }, `Last ${name}`));
  ranges.append(...buttons);
  main.append(cards, ranges, plots, el("div", { class: "pair" }, troubled, classes));

  const per = (o, p, name) => (p && o.counts && p.counts && o.time > p.time ? (o.counts[name] - p.counts[name]) / (o.time - p.time) : 0);
  function show() {
    const o = live.overview, p = live.previous;
    if (!o) return;
    const card = (value, text) => el("div", { class: "card" }, el("b", {}, value), el("span", {}, text));
    const state = (name) => o.queue?.[name] || {};
    const oldest = Math.min(...["incoming", "active", "deferred"].map((s) => state(s).oldest || Infinity));
    const syncs = p && o.counts && p.counts ? o.counts.syncs - p.counts.syncs : 0;
    cards.replaceChildren(
      card(count(o.active), "active"),
      card(count(state("deferred").messages), "waiting for another try"),
      card(count(state("hold").messages), "on hold"),
      card(oldest === Infinity ? "–" : span(o.time - oldest), "oldest in the queue"),
      card(rate(Math.max(0, per(o, p, "accepted"))), "taken per second"),
      card(rate(Math.max(0, per(o, p, "delivered"))), "delivered per second"),
      card(`${count(o.sessions)} / ${count(o.connections)}`, "sessions in / out"),
      card(syncs > 0 ? `${((o.counts.sync_microseconds - p.counts.sync_microseconds) / syncs / 1000).toFixed(1)} ms` : "–", "sync of the disk"));
    redraw(classes, el("h2", {}, "Destinations and classes"),
      el("p", { class: "note" }, Object.entries(o.destinations || {}).filter(([, n]) => n > 0).map(([name, n]) => `${count(n)} ${name}`).join(", ") || "No destinations are known."),
      el("p", { class: "note" }, `${count(o.scheduler.jobs)} deliveries wait or are under way, ${count(o.scheduler.jobs_in_hand)} in hand, ${count(o.scheduler.routing)} addresses being routed.`),
      table("Session classes", [{ title: "Class", cell: (c) => c.class }, { title: "In", number: true, cell: (c) => count(c.incoming) },
        { title: "Out", number: true, cell: (c) => count(c.outgoing) }, { title: "Limit", number: true, cell: (c) => count(c.total_limit) },
        { title: "Refused", number: true, cell: (c) => count(c.refused) }], o.classes, "No session classes are set up."));
  }
  async function plotRange() {
    buttons.forEach((b, i) => b.setAttribute("aria-pressed", String(["hour", "day", "week"][i] === range)));
    try {
      const h = await ask(`history?range=${range}`);
      const column = (name) => h.points.map((p) => p[h.columns.indexOf(name)]);
      const times = column("end"), long = column("seconds");
      const rates = (name) => column(name).map((n, i) => n / Math.max(1, long[i]));
      if (times.length < 2) {
        plots.replaceChildren(section("Plots", el("p", { class: "note" }, "Figures are being gathered: the first plot comes in half a minute, or later for the longer ranges.")));
        return;
      }
      plots.replaceChildren(
        section("Messages per second", plot("Messages per second", times, [{ name: "delivered", values: rates("delivered") },
          { name: "deferred", values: rates("deferred") }, { name: "bounced", values: rates("bounced") }], rate)),
        section("Queue", plot("Messages in the queue", times, [{ name: "waiting", values: column("waiting") },
          { name: "active", values: column("active") }, { name: "on hold", values: column("held") }], (n) => count(Math.round(n)))),
        section("Refusals per second", plot("Refusals per second", times, [{ name: "refused", values: rates("rejected") }], rate)),
        section("Sync of the queue, ms", plot("Mean time of a sync in milliseconds", times, [{ name: "mean", values: column("sync_microseconds").map((n, i) => n / 1000 / Math.max(1, column("syncs")[i])) }], rate)));
    } catch (error) { plots.replaceChildren(section("Plots", problem(error))); }
  }
  async function trouble() {
    try {
      const { destinations, in_trouble } = await ask("trouble?limit=12");
      redraw(troubled, el("h2", {}, "Destinations in trouble"), destinationTable(destinations, "None: every destination takes mail."),
        ...(in_trouble > destinations.length ? [el("p", { class: "note" }, `and ${count(in_trouble - destinations.length)} more`)] : []));
    } catch (error) { redraw(troubled, el("h2", {}, "Destinations in trouble"), problem(error)); }
  }
  show(); plotRange(); trouble();
  const timers = [setInterval(plotRange, 10000), setInterval(trouble, 10000)];
  return { overview: show, end: () => timers.forEach(clearInterval) };
}

const stateOf = (d) => d.state || (d.type === "suspension" ? "suspended" : "unknown");
/** The name by which orders and questions know it: "mx.example[192.0.2.1]:25" is [192.0.2.1]:25. */
function nameOf(d) {
  const shown = d.destination || d.name || "";
  const parts = /^(.*)\[([^\]]+)\]:(\d+)$/.exec(shown);
  return parts ? `[${parts[2]}]:${parts[3]}` : shown;
}
function destinationTable(list, empty) {
  const kind = { failing: "bad", suspended: "warn", retry: "warn", closed: "warn" };
  return table("Destinations", [
    { title: "State", cell: (d) => tag(kind[stateOf(d)] || "good", stateOf(d)) },
    { title: "Destination", text: true, cell: (d) => el("a", { href: `#destinations/${encodeURIComponent(nameOf(d))}` }, d.destination || d.name || "") },
    { title: "Connections", number: true, cell: (d) => count(d.connections) },
    { title: "Jobs", number: true, cell: (d) => count((d.jobs_in_hand || 0) + (d.jobs_waiting || 0)) },
    { title: "Next try", cell: (d) => (d.next_retry ? clock(d.next_retry) : "") },
    { title: "What it said", text: true, cell: (d) => d.reason || d.last_error || d.text || "" },
  ], list, empty);
}

function queue(main, id) {
  if (id) return message(main, id);
  const fields = {};
  const field = (name, title, type = "text") => el("label", {}, title, fields[name] = el("input", { type, name, size: 16 }));
  const state = el("select", { name: "state" }, ["", "active", "deferred", "hold", "incoming", "maildrop"].map((s) => el("option", { value: s }, s || "any state")));
  const list = el("div");
  let offset = 0, timer = null;
  const filter = () => Object.fromEntries([...Object.entries(fields).map(([k, f]) => [k, f.value.trim()]), ["state", state.value]].filter(([, v]) => v));
  /** by itself: as time passes. */
  async function load(byItself = false) {
    const show = byItself ? redraw : draw;
    try {
      const page = await ask(`queue?${query({ ...filter(), limit: 100, offset })}`);
      show(list, table("Messages", [
        { title: "Id", cell: (m) => el("a", { class: "code", href: `#queue/${encodeURIComponent(m.queue_id)}` }, m.queue_id) },
        { title: "State", cell: (m) => m.queue_name || m.state || "" },
        { title: "Arrived", cell: (m) => clock(m.arrival_time || m.arrival) },
        { title: "Size", number: true, cell: (m) => bytes(m.message_size || m.size || 0) },
        { title: "Sender", text: true, cell: (m) => m.sender || "<>" },
        { title: "Recipients", text: true, cell: (m) => [...(m.recipients || []).slice(0, 3).map((r) => r.address || r), m.recipients_total > 3 ? `and ${count(m.recipients_total - 3)} more` : null].filter(Boolean).join(", ") },
        { title: "Why it waits", text: true, cell: (m) => (m.recipients || []).map((r) => r.delay_reason).find(Boolean) || "" },
      ], page.messages, page.incomplete ? "No message was found in ten seconds." : "No message."),
      ...(page.incomplete ? [el("p", { class: "note" }, "The queue is large: this is what was found in ten seconds. penqueue looks at all of it.")] : []),
      el("div", { class: "tools" },
        el("button", { type: "button", disabled: offset === 0, click: () => { offset = Math.max(0, offset - 100); load(); } }, "Back"),
        el("button", { type: "button", disabled: page.next_offset === undefined, click: () => { offset = page.next_offset; load(); } }, "Next")));
    } catch (error) { show(list, problem(error)); }
  }
  const give = (title, path) => el("button", { type: "button", class: path === "delete" ? "danger" : null, click: () => {
    const chosen = filter();
    order(title, `queue/${path}`, { ...(Object.keys(chosen).length ? { filter: chosen } : { all: true }), dry_run: true }, "", () => load());
  } }, title);
  const form = el("form", { class: "tools", submit: (e) => { e.preventDefault(); offset = 0; load(); } },
    field("sender", "Sender"), field("recipient", "Recipient"), field("domain", "Domain"), field("reply", "Reply has"),
    el("label", {}, "State", state), el("button", { class: "main" }, "Show"));
  main.append(section("Queue", form, el("div", { class: "tools", role: "group", "aria-label": "Orders for what is chosen" },
    el("span", { class: "soft" }, "All that is chosen:"), give("Try now", "flush"), give("Hold", "hold"), give("Release", "release"),
    give("Return to sender", "expire"), give("Delete", "delete")), list));
  load();
  timer = setInterval(() => { if (offset === 0 && !inUse(list)) load(true); }, 15000);
  return { end: () => clearInterval(timer) };
}

function message(main, id) {
  const facts = el("div"), why = el("div"), story = el("div");
  const give = (title, path) => el("button", { type: "button", class: path === "delete" ? "danger" : null,
    click: () => order(title, `queue/${path}`, { ids: [id], dry_run: true }, "", () => load()) }, title);
  main.append(el("section", {}, el("h2", {}, "Message ", el("span", { class: "code" }, id)),
    el("div", { class: "tools" }, el("a", { href: "#queue" }, "Back to the queue"), give("Try now", "flush"), give("Hold", "hold"),
      give("Release", "release"), give("Return to sender", "expire"), give("Delete", "delete")), facts),
  section("Why it waits", why), section("Its story", story));
  async function load(byItself = false) {
    const show = byItself ? redraw : draw;
    try {
      const m = await ask(`queue/${encodeURIComponent(id)}`);
      show(facts, el("dl", {}, [["State", m.queue_name || m.state], ["Arrived", clock(m.arrival_time || m.arrival)],
        ["Sender", m.sender || "<>"], ["Size", bytes(m.message_size || m.size || 0)], ["Next try", m.next_try ? clock(m.next_try) : "–"]]
        .map(([k, v]) => [el("dt", {}, k), el("dd", {}, v)])),
      table("Recipients", [{ title: "Recipient", text: true, cell: (r) => r.address }, { title: "Why it waits", text: true, cell: (r) => r.delay_reason || "" }],
        m.recipients || [], "No recipient is left."));
    } catch (error) { show(facts, error.status === 404 ? el("p", { class: "note" }, "It is no longer in the queue.") : problem(error)); }
    try {
      const told = await ask(`messages/${encodeURIComponent(id)}/explain`);
      show(why, el("p", {}, told.where), table("Recipients and what they wait for", [{ title: "Recipient", text: true, cell: (r) => r.address },
        { title: "Why", text: true, cell: (r) => [r.why, r.said ? `It was said: ${r.said}` : null].filter(Boolean).join(" ") },
        { title: "What comes next", text: true, cell: (r) => r.next || "" }, { title: "When", cell: (r) => (r.at ? clock(r.at) : "") }],
      told.recipients, "No recipient is left."),
      ...(told.recipients_left_out ? [el("p", { class: "note" }, `and ${count(told.recipients_left_out)} more`)] : []));
    } catch (error) { show(why, error.status === 404 ? el("p", { class: "note" }, "It waits for nothing.") : problem(error)); }
    try {
      const { events, connected } = await ask(`events?${query({ queue_id: id, limit: 1000 })}`);
      show(story, events.length ? el("ul", { class: "story" }, events.map((e) => el("li", {}, eventLine(e)))) : el("p", { class: "note" }, connected ? "No event of it is kept." : eventsOff));
    } catch (error) { show(story, problem(error)); }
  }
  load();
  return { event: () => { if (live.events.at(-1)?.queue_id === id) load(true); } };
}

/** Each limit once, however many hosts it is of. */
function limitTable(list) {
  const subject = (l) => [l.group || l.name, l.group && l.name ? `by ${l.name}` : null, l.source ? `from ${l.source}` : null,
    l.sender_domain ? `of ${l.sender_domain}` : null].filter(Boolean).join(" ");
  const limits = new Map(list.flatMap((d) => d.limits || []).map((l) => [subject(l), l]));
  return table("Limits", [
    { title: "Limit of", text: true, cell: subject },
    { title: "At most", cell: (l) => [l.rate, l.connections ? `${count(l.connections)} connections` : null].filter(Boolean).join(", ") },
    { title: "Rests for", cell: (l) => (l.held_ms ? span(l.held_ms / 1000) : "") },
    { title: "Used", cell: (l) => (l.quotas || []).map((q) => `${count(q.used)} of ${q.rate}${q.opens_ms ? `, the next in ${span(q.opens_ms / 1000)}` : ""}`).join("; ") },
    { title: "Jobs waiting", number: true, cell: (l) => count(l.jobs_waiting) },
    { title: "Last minute", number: true, cell: (l) => count(l.last_minute) },
    { title: "What complained", text: true, cell: (l) => [l.rule, l.reason].filter(Boolean).join(": ") },
  ], [...limits.values()], "None.");
}

function destinations(main, name) {
  const list = el("div");
  let timer = null;
  if (name) {
    const give = (title, path) => el("button", { type: "button", click: () =>
      order(title, `destinations/${encodeURIComponent(name)}/${path}`, {}, path === "suspend" ? `Mail for ${name} will wait.` : `Mail for ${name} will be delivered again.`, () => load()) }, title);
    main.append(el("section", {}, el("h2", {}, "Destination ", el("span", { class: "code" }, name)),
      el("div", { class: "tools" }, el("a", { href: "#destinations" }, "All destinations"), give("Suspend", "suspend"), give("Resume", "resume")), list));
  } else {
    main.append(section("Destinations", list));
  }
  async function load(byItself = false) {
    const show = byItself ? redraw : draw;
    try {
      const found = await ask(name ? `destinations/${encodeURIComponent(name)}` : "destinations?limit=500");
      const all = found.destinations || [found];
      show(list, destinationTable(all, "The scheduler knows no destination yet."),
        ...(name ? all.map((d) => el("dl", {}, Object.entries(d).filter(([, v]) => v !== null && typeof v !== "object" && v !== "" && v !== 0)
          .map(([k, v]) => [el("dt", {}, k.replaceAll("_", " ")), el("dd", {}, String(v))]))) : []),
        ...(name && all.some((d) => d.limits?.length) ? [limitTable(all)] : []));
    } catch (error) { show(list, problem(error)); }
  }
  load();
  timer = setInterval(() => { if (!inUse(list)) load(true); }, 10000);
  return { end: () => clearInterval(timer) };
}

const eventsOff = "No events: programs tell penevents nothing yet. Set event_log_file (docs/events.md), then they are shown here.";
const eventTypes = ["received", "rejected", "delivered", "deferred", "bounced", "expired", "removed", "order", "auth_failed", "tls", "tls_failed", "returned", "feedback", "suppressed", "started", "stopped", "dropped", "lagging"];
const eventKind = { delivered: "good", received: "good", deferred: "warn", rejected: "warn", bounced: "bad", expired: "bad", auth_failed: "warn", tls_failed: "warn", dropped: "warn" };
function eventLine(e) {
  const where = e.relay || (e.client_address ? `${e.client_name || "unknown"}[${e.client_address}]` : "");
  const what = [e.from !== undefined ? `from <${e.from}>` : null, e.to ? `to <${e.to}>` : null, where || null,
    e.destination || null, e.dsn ? `dsn ${e.dsn}` : null, e.reply || e.reason || e.action || null, e.by ? `by ${e.by}` : null].filter(Boolean).join(", ");
  return [tag(eventKind[e.type] || "", e.type), " ", el("time", { class: "soft", datetime: e.time }, moment(Date.parse(e.time) / 1000)), " ",
    e.queue_id ? el("a", { class: "code", href: `#queue/${encodeURIComponent(e.queue_id)}` }, e.queue_id) : null, " ", what];
}
function events(main) {
  const types = el("select", {}, ["", ...eventTypes].map((t) => el("option", { value: t }, t || "all types")));
  const text = el("input", { type: "search", size: 24 });
  const list = el("div", { "aria-live": "off" });
  let soon = false;
  async function load(byItself = false) {
    const show = byItself ? redraw : draw;
    soon = false;
    try {
      const found = await ask(`events?${query({ types: types.value, text: text.value.trim(), limit: 200 })}`);
      show(list, found.events.length ? el("ul", { class: "story" }, found.events.reverse().map((e) => el("li", {}, eventLine(e))))
        : el("p", { class: "note" }, found.connected ? "No such event." : eventsOff));
    } catch (error) { show(list, problem(error)); }
  }
  main.append(section("Last events", el("form", { class: "tools", submit: (e) => { e.preventDefault(); load(); } },
    el("label", {}, "Type", types), el("label", {}, "Address, host or queue id", text), el("button", { class: "main" }, "Show")), list));
  types.addEventListener("change", () => load());
  load();
  return { event: () => { if (!soon) { soon = true; setTimeout(() => load(true), 1000); } } };
}

function system(main) {
  const services = el("section"), disks = el("section"), settings = el("section");
  main.append(el("div", { class: "pair" }, disks, services), settings);
  function show() {
    const o = live.overview;
    if (!o) return;
    redraw(disks, el("h2", {}, "Disks"), table("Disks", [{ title: "Of", cell: (d) => d.name }, { title: "Free", number: true, cell: (d) => bytes(d.free) },
      { title: "Used", cell: (d) => el("meter", { min: 0, max: 1, high: 0.9, optimum: 0.2, value: d.size ? 1 - d.free / d.size : 0, "aria-label": `used of the disk of ${d.name}` }) }], o.disks, "None."));
  }
  async function load() {
    show();
    try {
      const state = await ask("services");
      redraw(services, el("h2", {}, "Services"), table("Services", [{ title: "Service", cell: (s) => s.service }, { title: "Program", cell: (s) => s.program },
        { title: "State", cell: (s) => tag(s.state === "serving" || s.state === "on demand" ? "good" : "warn", s.state || "") }, { title: "Process", number: true, cell: (s) => (s.pid ? String(s.pid) : "") }], state.services || [], "None."));
    } catch (error) { redraw(services, el("h2", {}, "Services"), problem(error)); }
    try {
      const { settings: all } = await ask("settings");
      const idle = all.filter((s) => !s.acts);
      redraw(settings, el("h2", {}, "Settings ", el("small", {}, `${all.length} are set in main.cf`)),
        el("p", { class: "note" }, idle.length ? "These do not act:" : "All of them act."),
        table("Settings", [{ title: "Name", cell: (s) => el("code", {}, s.name) }, { title: "Value", text: true, cell: (s) => (s.hidden ? "hidden" : s.value) },
          { title: "Acts", cell: (s) => (s.acts ? "yes" : tag("warn", "no")) }], [...idle, ...all.filter((s) => s.acts)], "None."));
    } catch (error) { redraw(settings, el("h2", {}, "Settings"), problem(error)); }
  }
  load();
  return { overview: show };
}

const views = { overview, queue, destinations, events, system };
function go() {
  const [name, ...rest] = location.hash.slice(1).split("/");
  const chosen = views[name] ? name : "overview";
  view.end?.();
  const main = $("main");
  main.replaceChildren();
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === `#${chosen}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  let argument = "";
  try { argument = decodeURIComponent(rest.join("/")); } catch { /* a link that somebody has typed wrong shows the list */ }
  view = views[chosen](main, argument) || {};
}
window.addEventListener("hashchange", () => { go(); $("main").focus({ preventScroll: true }); });
$("token").addEventListener("click", () => askToken());
// Its address would be taken for a view's.
$("skip").addEventListener("click", (e) => { e.preventDefault(); $("main").focus(); });
go();
follow();
