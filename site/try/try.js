// The boxes of a page: their code runs in one worker that all of them share.
(() => {
  const here = document.currentScript.src;
  const boxes = document.querySelectorAll(".try-box");
  let worker = null; // made at the first run, and again after a stop
  let ready = false; // Python is loaded
  let running = null; // the box that runs

  // What checks keep for later lessons, the file mytok.py; a browser may refuse to store it.
  let mytok = "";
  try {
    mytok = localStorage.getItem("tokhelpers.mytok") ?? "";
  } catch {}
  function keep(text) {
    mytok = text;
    try {
      localStorage.setItem("tokhelpers.mytok", text);
    } catch {}
  }

  const part = (box, name) => box.querySelector(`.try-${name}`);
  const say = (box, text) => (part(box, "status").textContent = text);

  // Output is gathered and shown once a frame: a loop may print thousands of lines.
  let waiting = [];
  function show() {
    for (const { text, kind } of waiting) {
      const output = part(running, "output");
      let span = output.lastChild;
      if (span?.className !== `try-${kind}`) {
        span = output.appendChild(document.createElement("span"));
        span.className = `try-${kind}`;
      }
      span.append(text);
      output.hidden = false;
    }
    waiting = [];
  }
  function add(text, kind) {
    if (!waiting.length) requestAnimationFrame(show);
    const last = waiting.at(-1);
    if (last?.kind === kind) last.text += text;
    else waiting.push({ text, kind });
  }

  function end(status) {
    show();
    const box = running;
    running = null;
    say(box, status);
    if (document.activeElement === part(box, "stop")) part(box, "run").focus();
    part(box, "stop").hidden = true;
  }

  // Chromium lets a busy worker go on for two seconds after terminate(). What it sends meanwhile,
  // such as an error of Pyodide's clean-up, must not end the next run.
  function drop() {
    worker.onmessage = worker.onerror = null;
    worker.terminate();
    worker = null;
    ready = false;
  }

  function fail(status) {
    drop();
    if (running) end(status);
  }

  function load() {
    worker = new Worker(new URL("worker.js", here), { type: "module" });
    worker.onmessage = ({ data }) => {
      if (data.ready) {
        ready = true;
        say(running, "Running");
      } else if (data.text) {
        add(data.text, data.kind);
      } else if (data.mytok !== undefined) {
        keep(data.mytok);
      } else if (data.done) {
        const seconds = (performance.now() - running.began) / 1000;
        end(`Done in ${seconds.toFixed(2)} s`);
      } else {
        fail(`Python broke off: ${data.crash}`);
      }
    };
    worker.onerror = ({ message }) => {
      const lacking = "the page's files are incomplete, or the browser is too old.";
      fail(ready ? `Python broke off: ${message}` : `Python could not be loaded: ${lacking}`);
    };
  }

  function run(box) {
    if (running) {
      say(box, `“${running.getAttribute("aria-label")}” is still running: stop it first.`);
      return;
    }
    if (!worker) load();
    running = box;
    box.began = performance.now();
    part(box, "output").replaceChildren();
    part(box, "stop").hidden = false;
    say(box, ready ? "Running" : "Loading Python");
    worker.postMessage({ code: part(box, "code").value, mytok });
  }

  function stop() {
    drop();
    end("Stopped");
  }

  function reset(box) {
    const code = part(box, "code");
    code.value = code.defaultValue;
    say(box, "The code is as it was");
  }

  for (const box of boxes) {
    if (location.protocol === "file:") {
      say(box, "To run this, open the page from a web server: a browser runs no Python from a file.");
      continue;
    }
    for (const name of ["run", "reset"]) part(box, name).disabled = false;
    part(box, "run").onclick = () => run(box);
    part(box, "stop").onclick = stop;
    part(box, "reset").onclick = () => reset(box);
    part(box, "code").onkeydown = (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        run(box);
      }
    };
  }
})();
