// Worker threads that answer messages.
const { Worker, isMainThread, parentPort, workerData } = require("worker_threads");
if (isMainThread) {
  let left = 3, sum = 0;
  for (let i = 0; i < 3; i++) {
    const worker = new Worker(__filename, { workerData: i });
    worker.on("message", (value) => { sum += value; });
    worker.on("exit", () => { if (--left === 0) console.log(sum); });
  }
} else {
  let sum = 0;
  for (let i = 0; i < 20000; i++) sum += (i * (workerData + 1)) % 7;
  parentPort.postMessage(sum);
}
