"use strict";
const data = JSON.parse(document.getElementById("data").textContent), $ = id => document.getElementById(id);
const F = data.functions, P = data.parent, N = data.node, C = data.calls, S = data.own, count = N.length, total = data.total;
const num = n => n.toLocaleString("en-US"), part = n => (100 * n / Math.max(total, 1)).toFixed(2) + " %";
// Sums: parents come before their children.
const I = Float64Array.from(S), depth = new Uint32Array(count), first = new Int32Array(count + 1).fill(-1), next = new Int32Array(count).fill(-1);
for (let i = count - 1; i >= 0; i--) { const p = P[i]; if (p >= 0) I[p] += I[i]; const at = p < 0 ? count : p; next[i] = first[at]; first[at] = i; }
for (let i = 0; i < count; i++) depth[i] = P[i] < 0 ? 1 : depth[P[i]] + 1;
// Where each path begins, in instructions from the left: behind its caller's other callees, the larger ones first.
const X = new Float64Array(count);
function kids(i) { const list = []; for (let c = first[i < 0 ? count : i]; c >= 0; c = next[c]) list.push(c); return list.sort((a, b) => I[b] - I[a]); }
{ const open = [-1]; while (open.length) { const i = open.pop(); let x = i < 0 ? 0 : X[i]; for (const c of kids(i)) { X[c] = x; x += I[c]; open.push(c); } } }
const byDepth = [[]]; for (let i = 0; i < count; i++) (byDepth[depth[i]] ||= []).push(i);
for (const row of byDepth) row.sort((a, b) => X[a] - X[b]);
// Functions over all their paths; what one calls of itself counts once.
const fn = F.map((f, i) => ({ i, name: f[0], module: f[1], own: 0, all: 0, calls: 0 }));
{ const on = new Uint32Array(F.length), open = kids(-1).map(c => [c, true]);
  while (open.length) { const [i, enters] = open.pop(), f = N[i]; if (!enters) { on[f]--; continue; }
    fn[f].own += S[i]; fn[f].calls += C[i]; if (!on[f]) fn[f].all += I[i]; on[f]++; open.push([i, false]);
    for (let c = first[i]; c >= 0; c = next[c]) open.push([c, true]); } }
const short = m => m.split("/").pop(), hue = F.map(f => { let h = 5381; for (const c of f[0]) h = (Math.imul(h, 33) ^ c.codePointAt(0)) >>> 0; return h; });

const canvas = $("canvas"), draw2d = canvas.getContext("2d"), ROW = 18, MAX = 400;
let zoom = -1, found = null;
const left = () => zoom < 0 ? 0 : X[zoom], width = () => Math.max(zoom < 0 ? total : I[zoom], 1), top0 = () => zoom < 0 ? 0 : depth[zoom];
// The paths in a row that begin before `to` and end behind `from`, by halving: a row may have 100,000.
function from(row, x) { let a = 0, b = row.length; while (a < b) { const m = a + b >> 1; X[row[m]] + I[row[m]] <= x ? a = m + 1 : b = m; } return a; }
function rows() { return Math.min(byDepth.length - top0(), MAX); }
function draw() {
  const w = $("flame").clientWidth, ratio = devicePixelRatio || 1, n = rows(), style = getComputedStyle(document.body);
  canvas.width = w * ratio; canvas.height = n * ROW * ratio; canvas.style.height = n * ROW + "px";
  draw2d.setTransform(ratio, 0, 0, ratio, 0, 0); draw2d.clearRect(0, 0, w, n * ROW); draw2d.font = "12px system-ui, sans-serif"; draw2d.textBaseline = "middle";
  const x0 = left(), scale = w / width(), text = style.color;
  const box = (x, wide, y, fill, name) => { draw2d.fillStyle = fill; draw2d.fillRect(x, y, Math.max(wide - .5, .5), ROW - 1); if (wide < 24) return;
    draw2d.fillStyle = "#111"; const k = Math.floor((wide - 6) / 6.7); draw2d.fillText(name.length <= k ? name : name.slice(0, k - 1) + "…", x + 3, y + ROW / 2); };
  if (zoom < 0) { draw2d.fillStyle = text; draw2d.globalAlpha = .12; draw2d.fillRect(0, 0, w, ROW - 1); draw2d.globalAlpha = 1; draw2d.fillStyle = text; draw2d.fillText("all", 3, ROW / 2); }
  for (let r = zoom < 0 ? 1 : 0; r < n; r++) { const row = byDepth[top0() + r] || []; let last = -1;
    for (let k = from(row, x0); k < row.length; k++) { const i = row[k]; if (X[i] >= x0 + width()) break;
      const x = Math.max((X[i] - x0) * scale, 0), wide = Math.min(I[i], width()) * scale;
      // Of many in one pixel, one is drawn.
      if (wide < .4 && x - last < .5) { continue; } last = x;
      const h = hue[N[i]], hit = found && found.has(N[i]); box(x, wide, r * ROW, hit ? "#e879f9" : `hsl(${32 + h % 16} 90% ${66 + h % 22 / 2}%)`, F[N[i]][0]); } }
}
function at(e) { const box = canvas.getBoundingClientRect(), r = Math.floor((e.clientY - box.top) / ROW), row = byDepth[top0() + r];
  if (!row || r < 0) return -1; const x = left() + (e.clientX - box.left) / box.width * width(), k = from(row, x); return k < row.length && X[row[k]] <= x ? row[k] : -1; }
const says = i => `${F[N[i]][0]} — inclusive ${num(I[i])} (${part(I[i])}), self ${num(S[i])}, calls ${num(C[i])}${F[N[i]][1] ? ", " + short(F[N[i]][1]) : ""}`;
const rest = () => $("tip").textContent = found ? foundSays() : zoom >= 0 ? "Zoomed: " + says(zoom) : "A click zooms, and shows the function below; the first box leads back.";
canvas.addEventListener("mousemove", e => { const i = at(e); i < 0 ? rest() : $("tip").textContent = says(i); });
canvas.addEventListener("mouseleave", rest);
canvas.addEventListener("click", e => { const i = at(e); if (i < 0 || i === zoom) { zoom = zoom < 0 ? -1 : P[zoom]; } else { zoom = i; show(N[i], false); } draw(); rest(); });
$("out").addEventListener("click", () => { zoom = -1; draw(); rest(); });
function foundSays() { let sum = 0, calls = 0; const open = kids(-1);
  while (open.length) { const i = open.pop(); if (found.has(N[i])) { sum += I[i]; calls += C[i]; } else for (let c = first[i]; c >= 0; c = next[c]) open.push(c); }
  return `${found.size} function${found.size === 1 ? "" : "s"} found: ${part(sum)} of all, ${num(sum)} inclusive`; }
$("search").addEventListener("input", () => { const q = $("search").value.toLowerCase();
  found = q ? new Set(fn.filter(f => f.name.toLowerCase().includes(q)).map(f => f.i)) : null; shown = 40; draw(); rest(); table(); });

let key = "all", shown = 40;
const esc = s => String(s).replace(/[&<>"]/g, c => "&#" + c.charCodeAt(0) + ";");
const cells = f => `<td class="r">${num(f.all)}</td><td class="r">${part(f.all)}</td><td class="r">${num(f.own)}</td><td class="r spare">${num(f.calls)}</td><td>${esc(f.name)}<span class="dim spare"> ${esc(short(f.module))}</span></td>`;
function table() { const list = fn.filter(f => f.module && (!found || found.has(f.i))).sort((a, b) => b[key] - a[key] || a.i - b.i);
  $("functions").innerHTML = list.slice(0, shown).map(f => `<tr class="f" tabindex="0" data-f="${f.i}">${cells(f)}</tr>`).join("");
  $("more").hidden = list.length <= shown; $("more").textContent = `${num(Math.max(list.length - shown, 0))} more`;
  for (const b of document.querySelectorAll("th button")) b.dataset.key === key ? b.setAttribute("aria-sort", "descending") : b.removeAttribute("aria-sort"); }
for (const b of document.querySelectorAll("th button")) b.addEventListener("click", () => { key = b.dataset.key; table(); });
$("more").addEventListener("click", () => { shown += 400; table(); });
const pick = e => { const row = e.target.closest("[data-f]"); if (row && (e.type === "click" || e.key === "Enter")) show(+row.dataset.f, true); };
for (const type of ["click", "keydown"]) document.addEventListener(type, pick);

// Who calls a function and what it calls, over all paths; and its code.
function show(f, scroll) { const callers = new Map(), callees = new Map(), add = (map, k, all, calls) => { const v = map.get(k) || { all: 0, calls: 0 }; v.all += all; v.calls += calls; map.set(k, v); };
  for (let i = 0; i < count; i++) { if (N[i] === f && P[i] >= 0) add(callers, N[P[i]], I[i], C[i]); if (P[i] >= 0 && N[P[i]] === f) add(callees, N[i], I[i], C[i]); }
  const rows = map => [...map].sort((a, b) => b[1].all - a[1].all).slice(0, 60).map(([k, v]) => `<tr class="f" tabindex="0" data-f="${k}"><td class="r">${num(v.all)}</td><td class="r">${num(v.calls)}</td><td>${esc(F[k][0])}</td></tr>`).join("");
  const head = '<thead><tr><th class="r">inclusive</th><th class="r">calls</th><th>function</th></tr></thead>', one = (title, map) => `<div><h3>${title}</h3>${map.size ? `<div class="wide"><table>${head}<tbody>${rows(map)}</tbody></table></div>` : '<p class="dim">none</p>'}</div>`;
  const g = fn[f], code = data.code[g.name + "\0" + g.module];
  const line = (n, at, text) => `<tr><td class="r${n ? "" : " zero"}">${n ? num(n) : "·"}</td><td class="r dim">${esc(at)}</td><td${n ? "" : ' class="zero"'}>${esc(text)}</td></tr>`;
  let html = `<h2>${esc(g.name)}</h2><p class="dim">${esc(g.module)} — inclusive ${num(g.all)} (${part(g.all)}), self ${num(g.own)}, calls ${num(g.calls)}</p><div class="two">${one("Callers", callers)}${one("Callees", callees)}</div>`;
  if (code) { for (const s of code.sources) html += `<h3>${esc(s.file)}</h3><div class="code"><table>${s.lines.map(l => line(l[1], l[0], l[2])).join("")}</table></div>`;
    if (code.instructions.length) html += `<h3>Instructions, by their place in the file</h3><div class="code"><table>${code.instructions.map(l => line(l[1], l[0], l[2])).join("")}</table></div>`; }
  else html += '<p class="dim">Its code is not in this page: the functions with the largest own costs have theirs.</p>';
  $("function").innerHTML = html; if (scroll) $("function").scrollIntoView({ behavior: "smooth" }); }
addEventListener("resize", draw); matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
draw(); rest(); table(); { const largest = fn.filter(f => f.module).sort((a, b) => b.own - a.own)[0]; if (largest) show(largest.i, false); }
