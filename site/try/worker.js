// Python in a worker of its own, so that an endless loop leaves the page alone. The page sends
// {code}; back come {ready}, {text, kind} for what is printed, and {done} or {crash}.
import { loadPyodide } from "./pyodide/pyodide.mjs";

const LIMIT = 20_000; // characters shown of each stream

// What Python writes to a stream goes to the page, up to the limit.
function stream(kind) {
  const decoder = new TextDecoder();
  let left = LIMIT;
  const post = (text, as) => text && postMessage({ text, kind: as });
  return {
    restart: () => (left = LIMIT),
    write(bytes) {
      const chars = Array.from(decoder.decode(bytes, { stream: true }));
      if (left >= 0) {
        post(chars.slice(0, left).join(""), kind);
        left -= chars.length;
        if (left < 0) post(`\nOutput cut at ${LIMIT.toLocaleString("en")} characters.\n`, "note");
      }
      return bytes.length;
    },
  };
}

async function fetched(name) {
  const answer = await fetch(new URL(name, import.meta.url));
  if (!answer.ok) throw new Error(`${name} is not served (status ${answer.status})`);
  return answer.text();
}

const streams = [stream("plain"), stream("error")];

async function start() {
  const names = ["textbook.py", "checks.py", "runner.py", "learned.txt"];
  const [python, ...sources] = await Promise.all([
    loadPyodide({ env: { PYTHONHASHSEED: "0" } }),
    ...names.map(fetched),
  ]);
  names.forEach((name, i) => python.FS.writeFile(name, sources[i]));
  python.setStdin({ error: false, stdin: () => null }); // input() meets the end of the file
  python.setStdout(streams[0]);
  python.setStderr(streams[1]);
  python.runPython("import sys; sys.stdout.reconfigure(line_buffering=True)");
  postMessage({ ready: true });
  return python.pyimport("runner").run;
}

const started = start();

onmessage = async ({ data }) => {
  try {
    const run = await started;
    streams.forEach((some) => some.restart());
    run(data.code);
    postMessage({ done: true });
  } catch (error) {
    const lines = String(error).trim().split("\n"); // of a traceback the last line says what it is
    postMessage({ crash: error.name === "PythonError" ? lines.at(-1) : lines[0] });
  }
};
