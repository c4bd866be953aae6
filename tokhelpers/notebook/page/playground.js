// Compare tokenizers on a text. The work is done in a worker; this is the page.
(() => {
"use strict";
const MOST = 4; // tokenizers side by side
const MOST_CHARACTERS = 100_000; // of a text that are tokenized
const SHOWN = 2_000; // tokens of each tokenizer that are drawn at once
const IN_ADDRESS = 2_000; // characters of a text that the address holds
const EXAMPLES = {
  "Eight languages": `All human beings are born free and equal in dignity and rights.
Kõik inimesed sünnivad vabadena ja võrdsetena oma väärikuselt ja õigustelt.
Все люди рождаются свободными и равными в своем достоинстве и правах.
Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm và quyền lợi.
सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है।
모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.
人人生而自由，在尊严和权利上一律平等。
يولد جميع الناس أحرارًا متساوين في الكرامة والحقوق.`,
  Code: `def premium(tokens, tokens_in_english):
    """Return the ratio of two lengths."""
    if tokens_in_english == 0:
        raise ValueError("no tokens")
    return tokens / tokens_in_english\n`,
  Numbers: "7 42 365 2026 31415 1234567 3.14159 1,000,000 0x1F 10⁻⁶ ½ 12:45 +44 20 7946 0018",
  Emoji: "🙂 👍🏽 👩‍🔬 👨‍👩‍👧 🏳️‍🌈 🇪🇪 ❤️ ☕ 1️⃣ ✨",
};

const byId = id => document.getElementById(id);
const root = byId("playground"), area = byId("pg-text"), status = byId("pg-status");
const catalogue = JSON.parse(byId("playground-catalogue").textContent);
const entries = new Map(catalogue.tokenizers.map(entry => [entry.name, entry]));
const number = n => n.toLocaleString("en");
const state = {chosen: [], limit: SHOWN, note: ""};

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes))
    if (key in made && key !== "role") made[key] = value;
    else made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// --- the worker ----------------------------------------------------------------------------------
const waiting = new Map();
let worker, asked = 0;
function start() {
  const address = URL.createObjectURL(new Blob([PLAYGROUND_WORKER], {type: "text/javascript"}));
  worker = new Worker(address);
  worker.onmessage = ({data}) => {
    const {resolve, reject} = waiting.get(data.number);
    waiting.delete(data.number);
    if ("error" in data) reject(new Error(data.error));
    else resolve(data.answer);
  };
}
function ask(what, given) {
  return new Promise((resolve, reject) => {
    waiting.set(++asked, {resolve, reject});
    worker.postMessage({number: asked, ask: what, ...given});
  });
}

// --- tokenizers ----------------------------------------------------------------------------------
const loads = new Map(), times = {};
globalThis.playgroundData ??= {}; // filled by the scripts in which the site keeps its tokenizers

function packedData(entry) {
  const inside = [...document.querySelectorAll("script[data-tokenizer]")];
  const found = inside.find(script => script.dataset.tokenizer === entry.name);
  if (found) return found.textContent;
  return new Promise((resolve, reject) => {
    const script = element("script", {src: entry.src});
    script.onload = () => resolve(globalThis.playgroundData[entry.name]);
    script.onerror = () => reject(new Error(`The data of ${entry.name} could not be loaded.`));
    document.head.append(script);
  });
}

function load(name) {
  if (!loads.has(name)) {
    const entry = entries.get(name), check = entry.check && {text: catalogue.check, ids: entry.check};
    const loading = (async () => {
      const data = entry.text === undefined ? {packed: await packedData(entry)} : {text: entry.text};
      const begin = performance.now(), facts = await ask("load", {key: name, check, ...data});
      delete globalThis.playgroundData[name];
      times[name] = performance.now() - begin;
      Object.assign(entry, {tokens: facts.tokens, differs: !facts.isSame});
      return facts;
    })();
    loads.set(name, loading);
    loading.catch(() => loads.delete(name));
  }
  return loads.get(name);
}

async function openFile(file) {
  let name = file.name.replace(/\.json$/, "") || "file";
  for (let n = 2; entries.has(name); n++) name = `${file.name.replace(/\.json$/, "")} (${n})`;
  if (file.size > 100e6) return say(`${file.name} has more than 100 MB: too large for a tokenizer.json.`);
  entries.set(name, {name, text: await file.text(), licence: ""});
  say(`Opening ${file.name} …`);
  try {
    await load(name);
  } catch (error) {
    entries.delete(name);
    return say(`${file.name}: ${error.message}`);
  }
  delete entries.get(name).text;
  if (state.chosen.length === MOST) state.chosen.pop();
  state.chosen.push(name);
  drawChoice();
  update();
}

// --- what is chosen ------------------------------------------------------------------------------
function drawChoice() {
  const active = document.activeElement?.dataset?.name;
  const chips = [...entries.values()].map(({name, tokens, licence, megabytes}) => {
    const isChosen = state.chosen.includes(name);
    const box = element("input", {
      type: "checkbox", checked: isChosen, disabled: !isChosen && state.chosen.length === MOST, "data-name": name,
    });
    box.addEventListener("change", () => {
      if (box.checked) state.chosen.push(name);
      else state.chosen.splice(state.chosen.indexOf(name), 1);
      state.note = "";
      drawChoice();
      update();
    });
    const facts = [tokens && `${number(tokens)} tokens`, !(name in times) && megabytes && `${megabytes} MB`, licence].filter(Boolean).join(", ");
    return element("label", {className: "pg-chip"}, box,
      element("span", {}, element("b", {}, name), element("small", {}, facts)));
  });
  byId("pg-tokenizers").replaceChildren(...chips);
  chips.map(chip => chip.firstChild).find(box => active && box.dataset.name === active)?.focus();
}

function say(text) {
  if (status.textContent !== text) status.textContent = text;
}

// --- the state in the address --------------------------------------------------------------------
function writeAddress() {
  const names = state.chosen.map(encodeURIComponent).join(",");
  const isShort = area.value.length <= IN_ADDRESS;
  const text = isShort && area.value ? `&x=${encodeURIComponent(area.value.toWellFormed())}` : "";
  history.replaceState(null, "", `#t=${names}${text}`);
}

function readAddress() {
  const given = new Map(location.hash.slice(1).split("&").map(part => part.split("=", 2)));
  try {
    const names = given.get("t")?.split(",").map(decodeURIComponent).filter(name => entries.has(name));
    if (names?.length) state.chosen = [...new Set(names)].slice(0, MOST);
    if (given.has("x")) area.value = decodeURIComponent(given.get("x"));
    return given.has("t") || given.has("x");
  } catch {
    return false; // a damaged address
  }
}

// --- the result ----------------------------------------------------------------------------------
function characters(text) { // the first MOST_CHARACTERS of a text, and whether it has more
  const some = Array.from(text.slice(0, 2 * MOST_CHARACTERS + 2).toWellFormed());
  return [some.slice(0, MOST_CHARACTERS).join(""), some.length > MOST_CHARACTERS];
}

let isRunning = false, isStale = false;
async function update() {
  root.dataset.state = "busy";
  writeAddress();
  if (isRunning) return void (isStale = true);
  isRunning = true;
  do {
    isStale = false;
    await run();
  } while (isStale);
  isRunning = false;
  root.dataset.state = "ready";
}

async function run() {
  const keys = [...state.chosen], [text, isCut] = characters(area.value), failures = [];
  if (keys.some(key => !(key in times))) say(`Loading ${keys.filter(key => !(key in times)).join(", ")} …`);
  for (const key of keys) await load(key).catch(error => failures.push(`${key}: ${error.message}`));
  if (failures.length) {
    state.chosen = state.chosen.filter(key => key in times);
    drawChoice();
    isStale = true;
    state.note = failures[0];
    return;
  }
  if (isStale) return; // something else is chosen or typed meanwhile
  let shown;
  try {
    shown = await ask("show", {keys, text, limit: state.limit});
  } catch (error) {
    return say(`The text could not be tokenized: ${error.message}`);
  }
  drawTable(shown);
  byId("pg-rows").replaceChildren(...shown.rows.map(drawRow));
  drawLegend(shown);
  const differing = keys.filter(key => entries.get(key).differs);
  say([
    state.note, isCut && `Only the first ${number(MOST_CHARACTERS)} characters are tokenized.`,
    area.value.length > IN_ADDRESS && `The text is too long for the address: only the tokenizers stand there.`,
    differing.length && `${differing.join(", ")}: the IDs of a test text differ from Python's, so do not rely on them.`,
    !keys.length && "Choose a tokenizer.",
  ].filter(Boolean).join(" "));
  state.note = "";
}

function drawTable({rows, bytes, words}) {
  const fixed = (value, digits) => Number.isFinite(value) ? value.toFixed(digits) : "–";
  const heads = ["tokenizer", "tokens", "bytes per token", "tokens per word", "ratio to the first"];
  const lines = rows.map(({key, count}) => element("tr", {}, element("th", {scope: "row"}, key),
    ...[number(count), fixed(bytes / count, 2), fixed(count / words, 2), fixed(count / rows[0].count, 2)]
      .map(value => element("td", {}, value))));
  const table = element("table", {className: "pg-measures"},
    element("caption", {}, `The text: ${number(words)} words between white space, ${number(bytes)} bytes`),
    element("thead", {}, element("tr", {}, ...heads.map(head => element("th", {scope: "col"}, head)))),
    element("tbody", {}, ...lines));
  byId("pg-table").replaceChildren(...(rows.length ? [table] : []));
}

const HINT = "Point at a token, or move through the tokens with the arrow keys.";

function drawRow({key, base, count, ids, tokens}) {
  const heading = element("h2", {className: "pg-name"}, key);
  const detail = element("p", {className: "pg-detail", "aria-live": "polite"}, HINT);
  const list = element("div", {
    className: "pg-tokens", role: "listbox", "aria-label": `Tokens of ${key}`, "aria-orientation": "horizontal",
  });
  ids.forEach((id, n) => list.append(...drawToken(tokens[id], id, n)));
  const options = list.getElementsByClassName("pg-token");
  const told = option => {
    for (const other of list.querySelectorAll("[aria-selected=true]")) other.setAttribute("aria-selected", "false");
    option.setAttribute("aria-selected", "true");
    detail.replaceChildren(...details(tokens[option.dataset.id], option.dataset.id, base));
    detail.style.minHeight = `${detail.offsetHeight}px`; // never shrinks, or tokens would move away from the pointer
  };
  list.addEventListener("mouseover", event => {
    const option = event.target.closest(".pg-token");
    if (option) told(option);
  });
  list.addEventListener("click", event => event.target.closest(".pg-token")?.focus());
  list.addEventListener("focusin", event => told(event.target));
  list.addEventListener("keydown", event => {
    const at = Number(event.target.dataset.n), last = options.length - 1;
    const to = {ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: last}[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = options[Math.max(0, Math.min(last, to))];
    event.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
  const parts = [heading, detail];
  parts.push(ids.length ? list : element("p", {className: "pg-empty"}, "No tokens."));
  if (ids.length < count) {
    const more = element("button", {type: "button"}, "Show more");
    more.addEventListener("click", () => {
      state.limit += SHOWN;
      update();
    });
    parts.push(element("p", {className: "pg-more"},
      `The first ${number(ids.length)} of ${number(count)} tokens are shown; all are counted. `, more));
  }
  return element("section", {className: "pg-row"}, ...parts);
}

function drawToken(token, id, n) {
  const kind = token.isNew ? " pg-new" : token.isAdded ? " pg-added" : "";
  const option = element("span", {
    className: `pg-token pg-${n % 4}${kind}`, role: "option", "aria-selected": "false", tabIndex: n ? -1 : 0,
  });
  option.dataset.id = id;
  option.dataset.n = n;
  if (token.isNew) option.setAttribute("aria-label", `${token.text}, new`);
  const text = element("bdi");
  for (const part of token.text.split(/(⟨[^⟩]*⟩|[␣↵⇥]+)/)) {
    if (!part) continue;
    text.append("⟨␣↵⇥".includes(part[0]) ? element("small", {}, part) : part);
  }
  option.append(text);
  const before = /^[␣⇥]/.test(token.text) ? [element("wbr")] : [];
  return [...before, option, element(token.isBreak ? "br" : "wbr")];
}

function details(token, id, base) {
  const code = text => element("code", {}, element("bdi", {}, text));
  const facts = [["ID", id], ["token string", code(token.string)], ["bytes", code(token.bytes)]];
  if (token.merged) facts.push(["merged from", [code(token.merged[0]), " + ", code(token.merged[1])]]);
  else if (token.isAdded) facts.push(["kind", "added token, found before the merges"]);
  else if (token.isBPE && !token.isSingle) facts.push(["merged from", "no merge: a whole pre-token that is in the vocabulary"]);
  if (token.isNew) facts.push(["new", `not in the vocabulary of ${base}`]);
  return facts.map(([name, value]) =>
    element("span", {className: "pg-fact"}, element("span", {className: "pg-key"}, `${name} `), ...[value].flat()));
}

function drawLegend({rows}) {
  const tokens = rows.flatMap(row => Object.values(row.tokens)), text = tokens.map(token => token.text).join("");
  const based = rows.filter(row => row.base && Object.values(row.tokens).some(token => token.isNew));
  const notes = [
    /[␣↵⇥]/.test(text) && "␣ space, ↵ line break, ⇥ tab",
    /⟨[0-9A-F]{2}[ ⟩]/.test(text) && "⟨E2 96⟩ bytes of an incomplete UTF-8 sequence",
    text.includes("⟨U+") && "⟨U+200D⟩ an invisible character",
    text.includes("◌") && "◌ carries a combining mark",
    ...based.map(row => `bold frame: tokens of ${row.key} that ${row.base} lacks`),
    tokens.some(token => token.isAdded && !token.isNew) && "dashed frame: added tokens",
  ];
  byId("pg-legend").textContent = notes.filter(Boolean).join("; ");
}

// --- events --------------------------------------------------------------------------------------
let timer;
area.addEventListener("input", () => {
  root.dataset.state = "busy";
  clearTimeout(timer);
  state.limit = SHOWN;
  timer = setTimeout(update, 150);
});
byId("pg-file").addEventListener("change", event => {
  const [file] = event.target.files;
  event.target.value = "";
  if (file) openFile(file);
});
addEventListener("dragover", event => {
  if (![...event.dataTransfer.types].includes("Files")) return;
  event.preventDefault();
  root.classList.add("pg-dropping");
});
addEventListener("dragleave", event => event.relatedTarget ?? root.classList.remove("pg-dropping"));
addEventListener("drop", event => {
  root.classList.remove("pg-dropping");
  if (!event.dataTransfer.files.length) return;
  event.preventDefault();
  openFile(event.dataTransfer.files[0]);
});
addEventListener("hashchange", () => {
  if (!readAddress()) return;
  drawChoice();
  update();
});

for (const [name, text] of Object.entries(EXAMPLES)) {
  const button = element("button", {type: "button"}, name);
  button.addEventListener("click", () => {
    area.value = text;
    state.limit = SHOWN;
    update();
  });
  byId("pg-examples").append(button);
}

area.value = EXAMPLES["Eight languages"];
const initial = [...entries.values()].filter(entry => entry.chosen).map(entry => entry.name);
state.chosen = (initial.length ? initial : [...entries.keys()]).slice(0, MOST);
readAddress();
start();
drawChoice();
update();

// For the console, and for tests: the IDs of texts, and how long each tokenizer took to load.
globalThis.playground = {
  times,
  encode: async (name, texts) => (await load(name), ask("encode", {key: name, texts})),
};
})();
