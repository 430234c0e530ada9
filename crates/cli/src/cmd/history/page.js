"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const by = (id) => document.getElementById(id);
  const { commits, series } = data;
  const canvas = by("plot"), list = by("list"), read = by("read"), count = commits.length;
  let chosen = 0, from = 0, to = Math.max(1, count - 1), cursor = -1, drag = null;

  const make = (tag, text, parent) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (parent) parent.append(element);
    return element;
  };
  const short = (hash) => hash.slice(0, 12);
  const link = (at, parent) => {
    const hash = commits[at][0];
    if (!data.link) return make("code", short(hash), parent);
    const anchor = make("a", undefined, parent);
    anchor.href = data.link + encodeURIComponent(hash);
    make("code", short(hash), anchor);
    return anchor;
  };
  const digits = (value) => Number(value.toPrecision(6)).toLocaleString("en");
  const steps = (value, unit, sizes) => {
    for (const [size, name] of sizes) if (Math.abs(value) >= size) return digits(value / size) + " " + name;
    return digits(value) + " " + unit;
  };
  const shown = (value, unit) => {
    if (unit === "ns") return steps(value, "ns", [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]]);
    if (unit === "bytes") return steps(value, "B", [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]);
    if (unit === "count" || unit === "") return value.toLocaleString("en", { maximumFractionDigits: 6 });
    return digits(value) + " " + unit;
  };
  const percent = (ratio) => {
    const change = (ratio - 1) * 100, sign = change > 0 ? "+" : "";
    return sign + Number(change.toPrecision(3)) + " %";
  };
  const day = (time) => (time ? new Date(time * 1000).toISOString().slice(0, 10) : "");
  const name = (s) => (s.suite ? s.suite + "/" : "") + s.benchmark + (s.parameters ? " " + s.parameters : "");

  // The first point whose commit is not before this one.
  const first = (points, at) => {
    let low = 0, high = points.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (points[middle] < at) low = middle + 1; else high = middle;
    }
    return low;
  };

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  let frame = 0;
  const redraw = () => { if (!frame) frame = requestAnimationFrame(draw); };
  const margin = { left: 84, right: 14, top: 14, bottom: 30 };
  const place = () => {
    const box = canvas.getBoundingClientRect();
    const wide = Math.max(1, box.width - margin.left - margin.right);
    const high = Math.max(1, box.height - margin.top - margin.bottom);
    return { box, wide, high, x: (at) => margin.left + ((at - from) / Math.max(1e-9, to - from)) * wide };
  };

  function draw() {
    frame = 0;
    const s = series[chosen], dpr = devicePixelRatio || 1, { box, wide, high, x } = place();
    canvas.width = Math.round(box.width * dpr);
    canvas.height = Math.round(box.height * dpr);
    const c = canvas.getContext("2d");
    c.scale(dpr, dpr);
    if (!s) return;
    const begin = Math.max(0, first(s.at, from) - 1), end = Math.min(s.at.length, first(s.at, to + 1e-9) + 1);
    let low = Infinity, top = -Infinity;
    for (let i = begin; i < end; i++) {
      low = Math.min(low, s.low ? s.low[i] : s.value[i]);
      top = Math.max(top, s.high ? s.high[i] : s.value[i]);
    }
    if (low > top) return;
    const room = top === low ? Math.max(1, Math.abs(top) * 0.001) : (top - low) * 0.08;
    low -= room; top += room;
    const y = (value) => margin.top + (1 - (value - low) / (top - low)) * high;
    c.font = "12px system-ui, sans-serif";
    c.textBaseline = "middle";
    const raw = (top - low) / 5, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((f) => f * power).find((f) => f >= raw);
    c.textAlign = "right";
    for (let tick = Math.ceil(low / step) * step; tick <= top; tick += step) {
      c.strokeStyle = colour("line"); c.beginPath();
      c.moveTo(margin.left, y(tick)); c.lineTo(margin.left + wide, y(tick)); c.stroke();
      c.fillStyle = colour("dim"); c.fillText(shown(tick, s.unit), margin.left - 6, y(tick), margin.left - 8);
    }
    const labels = Math.max(1, Math.floor(wide / 110));
    c.textAlign = "center";
    for (let i = 0; i <= labels; i++) {
      const at = Math.round(from + ((to - from) * i) / labels), commit = commits[at];
      if (!commit) continue;
      const left = Math.min(Math.max(x(at), margin.left + 30), margin.left + wide - 34);
      c.fillStyle = colour("dim"); c.fillText(day(commit[1]) || short(commit[0]), left, margin.top + high + 16);
    }
    c.save();
    c.beginPath(); c.rect(margin.left, 0, wide, box.height); c.clip();
    // One stroke a column of pixels, however many commits there are.
    const column = new Map();
    for (let i = begin; i < end; i++) {
      const pixel = Math.round(x(s.at[i]));
      const a = s.low ? s.low[i] : s.value[i], b = s.high ? s.high[i] : s.value[i];
      const old = column.get(pixel);
      if (old) { old[0] = Math.min(old[0], a); old[1] = Math.max(old[1], b); } else column.set(pixel, [a, b]);
    }
    c.globalAlpha = 0.35; c.strokeStyle = colour("s0"); c.beginPath();
    for (const [pixel, [a, b]] of column) if (a !== b) { c.moveTo(pixel, y(a)); c.lineTo(pixel, y(b)); }
    c.stroke();
    c.globalAlpha = 1; c.lineWidth = 1.5; c.beginPath();
    let last = null;
    for (let i = begin; i < end; i++) {
      const px = x(s.at[i]), py = y(s.value[i]);
      if (last === null) c.moveTo(px, py);
      else { if (s.exact) c.lineTo(px, last); c.lineTo(px, py); }
      last = py;
    }
    c.stroke();
    if (end - begin < wide / 6) {
      c.fillStyle = colour("s0");
      for (let i = begin; i < end; i++) { c.beginPath(); c.arc(x(s.at[i]), y(s.value[i]), 2.5, 0, 7); c.fill(); }
    }
    for (const change of s.changes) {
      if (change.at < from || change.at > to) continue;
      const px = x(change.at), worse = change.regression;
      c.strokeStyle = c.fillStyle = colour(worse === true ? "bad" : worse === false ? "good" : "dim");
      c.setLineDash([4, 3]); c.lineWidth = 1;
      c.beginPath(); c.moveTo(px, margin.top + 8); c.lineTo(px, margin.top + high); c.stroke();
      c.setLineDash([]);
      // Shape says it too: upwards for more, downwards for less.
      const up = change.to > change.from ? 1 : -1, base = margin.top + 4;
      c.beginPath(); c.moveTo(px - 5, base + 4 * up); c.lineTo(px + 5, base + 4 * up); c.lineTo(px, base - 4 * up); c.fill();
    }
    if (cursor >= 0 && cursor < s.at.length) {
      const px = x(s.at[cursor]);
      c.strokeStyle = colour("text"); c.beginPath(); c.moveTo(px, margin.top); c.lineTo(px, margin.top + high); c.stroke();
      c.fillStyle = colour("text"); c.beginPath(); c.arc(px, y(s.value[cursor]), 4, 0, 7); c.fill();
    }
    if (drag && drag.now !== drag.start) {
      c.globalAlpha = 0.15; c.fillStyle = colour("s0");
      c.fillRect(Math.min(drag.start, drag.now), margin.top, Math.abs(drag.now - drag.start), high);
    }
    c.restore();
  }

  function point(index) {
    const s = series[chosen];
    if (!s) return;
    cursor = Math.max(-1, Math.min(s.at.length - 1, index));
    read.replaceChildren();
    if (cursor >= 0) {
      const at = s.at[cursor], [, time, subject] = commits[at];
      if (at < from || at > to) range(at - (to - from) / 2, at + (to - from) / 2);
      make("b", shown(s.value[cursor], s.unit), read);
      if (s.low && s.low[cursor] !== s.high[cursor])
        make("span", ` (${shown(s.low[cursor], s.unit)} to ${shown(s.high[cursor], s.unit)})`, read);
      make("br", undefined, read);
      link(at, read);
      make("span", ` ${day(time)} ${subject}`, read);
    }
    redraw();
  }

  function range(a, b) {
    const most = Math.max(1, count - 1), wide = Math.min(most, Math.max(2, b - a));
    from = Math.max(0, Math.min(a, most - wide));
    to = from + wide;
    by("shown").textContent = `${Math.round(to - from) + 1} of ${count} commits`;
    remember();
    redraw();
  }
  const zoom = (factor, middle = (from + to) / 2) =>
    range(middle - (middle - from) * factor, middle + (to - middle) * factor);

  let timer = 0;
  const remember = () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      const state = `#${chosen},${Math.round(from)},${Math.round(to)}`;
      try { history.replaceState(null, "", state); } catch { /* a page from a file may not have one */ }
    }, 200);
  };

  function choose(index) {
    chosen = index;
    const s = series[chosen];
    for (const button of list.children)
      button.setAttribute("aria-current", String(Number(button.dataset.index) === chosen));
    if (!s) return;
    by("title").textContent = `${name(s)} · ${s.metric}`;
    by("facts").textContent = [s.machine, s.source, s.exact ? "exact counts" : "varies", `${s.at.length} values`].filter(Boolean).join(" · ");
    canvas.setAttribute("aria-label", `${name(s)} ${s.metric}: ${s.at.length} values, ${s.changes.length} changes; the table below lists them`);
    const body = by("rows");
    body.replaceChildren();
    by("none").hidden = s.changes.length > 0;
    by("table").hidden = s.changes.length === 0;
    for (const change of [...s.changes].reverse()) {
      const row = make("tr", undefined, body), where = make("td", undefined, row);
      link(change.at, where);
      make("span", ` ${day(commits[change.at][1])} ${commits[change.at][2]}`, where);
      if (change.unmeasured) make("div", `or one of the ${change.unmeasured} before it without a record`, where).className = "dim";
      if (change.blessed) make("div", `accepted: ${change.blessed}`, where).className = "dim";
      if (change.moved && change.moved.length) {
        const moved = make("ul", undefined, where);
        for (const line of change.moved) make("li", line, moved);
      }
      const how = make("td", change.ratio === null ? "from 0" : percent(change.ratio), row);
      how.className = change.regression === true ? "bad" : change.regression === false ? "good" : "";
      make("td", `${shown(change.from, s.unit)} → ${shown(change.to, s.unit)}`, row);
      const look = make("button", "Show", make("td", undefined, row));
      look.addEventListener("click", () => {
        range(change.at - 25, change.at + 25);
        point(first(s.at, change.at));
        canvas.focus();
      });
    }
    point(-1);
    remember();
  }

  const latest = (s) => (s.changes.length ? s.changes[s.changes.length - 1].at : -1);
  const order = series.map((_, index) => index).sort((a, b) => latest(series[b]) - latest(series[a]));
  const fill = () => {
    const words = by("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    list.replaceChildren();
    for (const index of order) {
      const s = series[index], text = `${name(s)} ${s.metric} ${s.machine}`;
      if (!words.every((word) => text.toLowerCase().includes(word))) continue;
      const button = make("button", name(s), list);
      button.dataset.index = index;
      button.setAttribute("aria-current", String(index === chosen));
      const n = s.changes.length;
      make("small", `${s.metric} · ${n === 0 ? "no change" : n === 1 ? "1 change" : n + " changes"}`, button);
      button.addEventListener("click", () => choose(index));
    }
    if (!list.children.length) make("p", "Nothing has this name.", list);
  };
  by("search").addEventListener("input", fill);
  by("in").addEventListener("click", () => zoom(0.5));
  by("out").addEventListener("click", () => zoom(2));
  by("all").addEventListener("click", () => range(0, count - 1));

  const under = (event) => {
    const { box, wide } = place();
    const px = Math.max(margin.left, Math.min(margin.left + wide, event.clientX - box.left));
    return { px, at: from + ((px - margin.left) / wide) * (to - from) };
  };
  const nearest = (at) => {
    const s = series[chosen], right = first(s.at, at);
    return right > 0 && (right >= s.at.length || at - s.at[right - 1] < s.at[right] - at) ? right - 1 : right;
  };
  canvas.addEventListener("pointerdown", (event) => {
    const { px, at } = under(event);
    drag = { start: px, now: px, at };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!series[chosen]) return;
    const { px, at } = under(event);
    if (drag) { drag.now = px; redraw(); } else point(nearest(at));
  });
  canvas.addEventListener("pointerup", (event) => {
    if (!drag || !series[chosen]) return;
    const { px, at } = under(event), begun = drag;
    drag = null;
    if (Math.abs(px - begun.start) > 6) range(Math.min(at, begun.at), Math.max(at, begun.at)); else point(nearest(at));
  });
  canvas.addEventListener("pointercancel", () => { drag = null; redraw(); });
  canvas.addEventListener("dblclick", () => range(0, count - 1));
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, under(event).at);
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const s = series[chosen];
    if (!s || event.ctrlKey || event.altKey || event.metaKey) return;
    const jump = event.shiftKey ? 10 : 1;
    const here = cursor < 0 ? nearest((from + to) / 2) : cursor;
    const keys = {
      ArrowLeft: () => point(Math.max(0, here - jump)), ArrowRight: () => point(here + jump),
      Home: () => point(0), End: () => point(s.at.length - 1),
      "+": () => zoom(0.5, s.at[here]), "=": () => zoom(0.5, s.at[here]), "-": () => zoom(2, s.at[here]),
      Escape: () => range(0, count - 1),
      Enter: () => { const anchor = read.querySelector("a"); if (anchor) anchor.click(); },
    };
    if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
  });
  new ResizeObserver(redraw).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

  const state = location.hash.slice(1).split(",").map(Number);
  const given = state.length === 3 && state.every(Number.isFinite) && series[state[0]];
  chosen = given ? state[0] : order[0] ?? 0;
  fill();
  choose(chosen);
  if (given) range(state[1], state[2]); else range(0, count - 1);
})();
