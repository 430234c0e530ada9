# needs: node
# bound: 2.0
exec node -e '
function sieve(n) { const a = new Uint8Array(n + 1); let c = 0; for (let i = 2; i <= n; i++) { if (a[i]) continue; c++; for (let j = i * 2; j <= n; j += i) a[j] = 1; } return c; }
let t = 0; for (let k = 0; k < 40; k++) t += sieve(3000000);
const m = new Map(); for (let i = 0; i < 9000000; i++) m.set(i % 7919, (m.get(i % 7919) || 0) + i);
let s = 0; for (let i = 0; i < 2500000; i++) s += ("x" + i).replace(/[13579]/g, "").length;
console.log(t, m.size, s);'
