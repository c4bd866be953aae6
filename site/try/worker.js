// Python in a worker of its own, so that an endless loop leaves the page alone. The page sends
// {code, mytok}; back come {ready}, {text, kind} for what is printed, {mytok} if a check has kept a
// function, and {done} or {crash}. mytok is the text of the file mytok.py.
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
  return { run: python.pyimport("runner").run, files: python.FS };
}

const started = start();

onmessage = async ({ data }) => {
  try {
    const { run, files } = await started;
    streams.forEach((some) => some.restart());
    files.writeFile("mytok.py", data.mytok);
    run(data.code);
    const mytok = files.readFile("mytok.py", { encoding: "utf8" });
    if (mytok !== data.mytok) postMessage({ mytok });
    postMessage({ done: true });
  } catch (error) {
    const lines = String(error).trim().split("\n"); // of a traceback the last line says what it is
    postMessage({ crash: error.name === "PythonError" ? lines.at(-1) : lines[0] });
  }
};
