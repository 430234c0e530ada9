// A JavaScript benchmark that gets compiled at run time, with workers.
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');

function sieve(n) {
  const a = new Uint8Array(n + 1);
  let count = 0;
  for (let i = 2; i <= n; i++) {
    if (a[i]) continue;
    count++;
    for (let j = i * 2; j <= n; j += i) a[j] = 1;
  }
  return count;
}

function nbody(steps) {
  const b = [[0, 0, 0, 0, 1], [1, 0, 0, 1, 0.001], [2, 0.1, 0.7, 0, 0.002]];
  for (let s = 0; s < steps; s++) {
    for (const p of b) for (const q of b) if (p !== q) {
      const dx = q[0] - p[0], dy = q[1] - p[1], d = Math.sqrt(dx * dx + dy * dy + 0.01);
      p[2] += dx * q[4] / (d * d * d) * 0.001; p[3] += dy * q[4] / (d * d * d) * 0.001;
    }
    for (const p of b) { p[0] += p[2] * 0.001; p[1] += p[3] * 0.001; }
  }
  return b.map(p => p[0].toFixed(9)).join(' ');
}

function shapes(n) {
  let s = 0;
  for (let i = 0; i < n; i++) {
    const o = i % 3 === 0 ? { x: i } : i % 3 === 1 ? { y: 1, x: i } : { x: i + 0.5, z: 'a' };
    s += o.x;
    if (i === n - 5) o.toString = null;
  }
  return s;
}

if (isMainThread) {
  console.log(sieve(2000000), nbody(200000), shapes(2000000));
  const text = JSON.stringify(Array.from({ length: 20000 }, (_, i) => ({ i, s: 'v' + i * 7 })));
  console.log(JSON.parse(text).filter(o => /7$/.test(o.s)).length);
  let thrown = 0;
  for (let i = 0; i < 1000; i++) try { null.x; } catch (e) { thrown++; }
  console.log(thrown);
  const answers = [];
  let left = 3;
  for (let i = 0; i < 3; i++) {
    const w = new Worker(__filename, { workerData: i });
    w.on('message', m => { answers[i] = m; });
    w.on('exit', () => { if (--left === 0) console.log(answers.join(' ')); });
  }
} else {
  parentPort.postMessage(sieve(300000 * (workerData + 1)));
}
