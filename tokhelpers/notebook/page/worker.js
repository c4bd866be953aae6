// In a worker: unpack tokenizers, encode texts, and describe the tokens.
const {Tokenizer} = module.exports;
const tokenizers = new Map(); // by key: {tokenizer, notation, isByteFallback, added, ids}

const WHITESPACE = {" ": "␣", "\n": "↵", "\t": "⇥"};
const SIGNS = "␣↵⇥⟦⟧⟪⟫⟨⟩◌";
const UNSEEN = /[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\u2800]/u, MARK = /\p{M}/u;
const BYTE_TOKEN = /^<0x([0-9A-F]{2})>$/;
const DECODER = new TextDecoder("utf-8", {fatal: true, ignoreBOM: true}), ENCODER = new TextEncoder();

// The byte alphabet of byte-level BPE: each byte as a visible character.
const BYTE_OF = new Map();
for (let byte = 0, next = 256; byte < 256; byte++) {
  const isVisible = (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
  BYTE_OF.set(String.fromCharCode(isVisible ? byte : next++), byte);
}

async function unpacked(packed) {
  const characters = atob(packed), bytes = new Uint8Array(characters.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = characters.charCodeAt(i); // Uint8Array.from takes a second
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

const FOREIGN = "This file is not a tokenizer.json of the tokenizers library.";

// Read a tokenizer.json; an error's message is one sentence for the reader.
function parsed(text) {
  let settings;
  try {
    settings = JSON.parse(text.replace(/^\uFEFF/, ""));
  } catch {
    throw new Error("This file is damaged, or it is not JSON.");
  }
  if (!settings?.model || typeof settings.model !== "object" || !settings.model.vocab) throw new Error(FOREIGN);
  const kind = settings.model.type ?? (settings.model.merges ? "BPE" : "none");
  if (!["BPE", "WordPiece", "Unigram"].includes(kind))
    throw new Error(`This tokenizer.json has a model of type ${String(kind).slice(0, 40)}, which cannot be used in the browser.`);
  for (const part of ["normalizer", "pre_tokenizer", "post_processor", "decoder"]) settings[part] ??= null;
  settings.added_tokens ??= [];
  settings.pre_tokenizer = withAllDigits(settings.pre_tokenizer);
  try {
    return [settings, kind === "BPE" ? bpe(settings) : new Tokenizer(settings, {})];
  } catch (error) {
    throw new Error(`This tokenizer.json cannot be used in the browser (${String(error.message).slice(0, 120)}).`);
  }
}

// The library's Digits splits at 0 to 9; the one of Rust, at every character that is a number, such as ½.
function withAllDigits(step) {
  if (step?.type === "Sequence") return {...step, pretokenizers: step.pretokenizers.map(withAllDigits)};
  if (step?.type !== "Digits") return step;
  const pattern = {Regex: step.individual_digits ? "\\p{N}" : "\\p{N}+"};
  return {type: "Split", pattern, behavior: "Isolated", invert: false};
}

// A BPE tokenizer. The library's constructor takes seconds for 200,000 tokens, as it keys each merge by the
// JSON of its parts: it gets an empty model, which is then filled. Our pages have the tokens as a list by ID,
// and merges as the IDs of their parts, one after another; tokenizer.json has an object, and strings or lists.
function bpe(settings) {
  const {vocab, merges = []} = settings.model;
  const tokenizer = new Tokenizer({...settings, model: {...settings.model, type: "BPE", vocab: {}, merges: []}}, {});
  const model = tokenizer.model, ids = model.tokens_to_ids;
  const listed = Array.isArray(vocab) ? vocab.map((token, id) => [token, id]) : Object.entries(vocab);
  for (const [token, id] of listed) {
    if (token === null) continue;
    ids.set(token, id);
    model.vocab[id] = token;
  }
  for (const {content, id} of settings.added_tokens) ids.set(content, id);
  model.unk_token_id = ids.get(model.unk_token);
  const ranks = ranked(typeof merges[0] === "number" ? merges : merges.flatMap(merge => {
    const pair = (Array.isArray(merge) ? merge : merge.split(" ", 2)).map(part => ids.get(part));
    if (pair.length < 2 || pair.includes(undefined)) throw new Error("a merge names a token that the vocabulary lacks");
    return pair;
  }));
  model.rankOf = (a, b) => ranks(ids.get(a), ids.get(b));
  model.add_node = (queue, node) => {
    const rank = model.rankOf(node.token, node.next.token);
    if (rank < 0) return;
    node.score = rank + node.bias;
    queue.push(node);
  };
  return tokenizer;
}

// A function from two IDs to the rank of their merge, or -1: a hash table in one array.
function ranked(pairs) {
  const size = 2 ** Math.ceil(Math.log2(pairs.length + 2)), table = new Int32Array(3 * size).fill(-1);
  const place = (a, b) => {
    let at = (Math.imul(a, 0x9e3779b1) ^ Math.imul(b, 0x85ebca6b)) >>> 0;
    at = (at ^ (at >>> 15)) & (size - 1);
    while (table[3 * at + 2] >= 0 && (table[3 * at] !== a || table[3 * at + 1] !== b)) at = (at + 1) & (size - 1);
    return 3 * at;
  };
  for (let i = 0; i < pairs.length; i += 2) {
    const at = place(pairs[i], pairs[i + 1]);
    [table[at], table[at + 1], table[at + 2]] = [pairs[i], pairs[i + 1], i / 2];
  }
  return (a, b) => a === undefined || b === undefined ? -1 : table[place(a, b) + 2];
}

function load(key, text, check) {
  const [settings, tokenizer] = parsed(text);
  const pipeline = JSON.stringify([settings.normalizer, settings.pre_tokenizer, settings.decoder]);
  const notation = pipeline.includes("ByteLevel") ? "bytes" : /▁|Metaspace/.test(pipeline) ? "▁" : "text";
  const added = new Map(settings.added_tokens.map(token => [token.id, token]));
  const prefix = settings.model.continuing_subword_prefix ?? (settings.model.type === "WordPiece" ? "##" : "");
  const loaded = {
    tokenizer, notation, added, prefix, isByteFallback: Boolean(settings.model.byte_fallback),
    ids: tokenizer.model.tokens_to_ids, isBPE: Boolean(tokenizer.model.rankOf),
  };
  tokenizers.set(key, loaded);
  const same = !check || String(idsOf(loaded, check.text)) === String(check.ids);
  return {tokens: loaded.ids.size, isChecked: Boolean(check), isSame: same};
}

const idsOf = ({tokenizer}, text) => text ? tokenizer.encode(text, {add_special_tokens: false}).ids : [];

// The bytes of a token, from its string.
function bytesOf(loaded, id, string) {
  if (loaded.added.has(id)) return ENCODER.encode(string);
  if (loaded.notation === "bytes") {
    const bytes = Array.from(string, c => BYTE_OF.get(c));
    return bytes.includes(undefined) ? ENCODER.encode(string) : Uint8Array.from(bytes);
  }
  const byte = loaded.isByteFallback && BYTE_TOKEN.exec(string);
  if (byte) return Uint8Array.of(parseInt(byte[1], 16));
  return ENCODER.encode(loaded.notation === "▁" ? string.replaceAll("▁", " ") : string);
}

const hex = bytes => Array.from(bytes, b => b.toString(16).toUpperCase().padStart(2, "0")).join(" ");

// Parts of a token: characters, and runs of bytes that are not UTF-8.
function* parts(bytes) {
  let run = [];
  for (let i = 0; i < bytes.length;) {
    const lead = bytes[i], length = lead < 0x80 ? 1 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    try {
      if (i + length > bytes.length) throw 0;
      const character = DECODER.decode(bytes.subarray(i, i + length));
      if (run.length) yield {bytes: run};
      run = [];
      yield {character};
      i += length;
    } catch {
      run.push(bytes[i++]);
    }
  }
  if (run.length) yield {bytes: run};
}

// A token with a visible sign for every character or byte that has none, as th.show_tokens has it.
function readable(bytes) {
  let text = "", isPlain = false, marks = 0;
  for (const part of parts(bytes)) {
    const c = part.character;
    if (c !== undefined && MARK.test(c)) {
      text += isPlain || (marks && marks % 2) ? c : `◌${c}`;
      marks++;
      isPlain = false;
      continue;
    }
    marks = 0;
    isPlain = false;
    if (c === undefined) text += `⟨${hex(part.bytes)}⟩`;
    else if (WHITESPACE[c]) text += WHITESPACE[c];
    else if (UNSEEN.test(c) || SIGNS.includes(c))
      text += `⟨U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`;
    else {
      text += c;
      isPlain = true;
    }
  }
  return text;
}

// The two tokens that the last merge of a token joins; null for one that merges do not reach.
function mergedFrom({tokenizer: {model}}, string) {
  const symbols = Array.from(string);
  let last = null;
  while (symbols.length > 1) {
    let best = Infinity, at = -1;
    for (let i = 0; i + 1 < symbols.length; i++) {
      const rank = model.rankOf(symbols[i], symbols[i + 1]);
      if (rank >= 0 && rank < best) [best, at] = [rank, i];
    }
    if (at < 0) return null;
    last = [symbols[at], symbols[at + 1]];
    symbols.splice(at, 2, last[0] + last[1]);
  }
  return last;
}

function described(loaded, id) {
  const string = loaded.tokenizer.model.vocab[id] ?? "", token = loaded.added.get(id);
  const bytes = bytesOf(loaded, id, string);
  const isByte = loaded.isByteFallback && !token && BYTE_TOKEN.test(string);
  const single = Array.from(string).length === 1 || isByte;
  return {
    string, isBreak: bytes.includes(10), bytes: hex(bytes.subarray(0, 32)) + (bytes.length > 32 ? " …" : ""),
    text: isByte ? `⟨${hex(bytes)}⟩` : readable(bytes), isAdded: Boolean(token), isBPE: loaded.isBPE,
    isSingle: single, merged: loaded.isBPE && !token && !single ? mergedFrom(loaded, string) : null,
  };
}

// Whether a tokenizer has another's whole vocabulary, with the same IDs, and more.
function extendsOther(loaded, other) {
  if (loaded.ids.size <= other.ids.size) return false;
  for (const [token, id] of other.ids) if (loaded.ids.get(token) !== id) return false;
  return true;
}
const extensions = new Map();
function baseOf(key, others) {
  const known = other => {
    const pair = JSON.stringify([key, other]);
    if (!extensions.has(pair)) extensions.set(pair, extendsOther(tokenizers.get(key), tokenizers.get(other)));
    return extensions.get(pair);
  };
  const bases = others.filter(other => other !== key && known(other));
  const size = other => tokenizers.get(other).ids.size;
  return bases.sort((a, b) => size(b) - size(a))[0];
}

function row(key, keys, text, limit) {
  const loaded = tokenizers.get(key), ids = idsOf(loaded, text), base = baseOf(key, keys);
  const shown = ids.slice(0, limit), tokens = {};
  for (const id of shown) {
    if (id in tokens) continue;
    const token = (tokens[id] = described(loaded, id));
    token.isNew = Boolean(base) && !tokenizers.get(base).ids.has(token.string);
  }
  return {key, base, count: ids.length, ids: shown, tokens};
}

const answers = {
  async load({key, packed, text, check}) {
    const start = performance.now();
    const facts = load(key, text ?? (await unpacked(packed)), check);
    return {...facts, milliseconds: performance.now() - start};
  },
  encode: ({key, texts}) => texts.map(text => idsOf(tokenizers.get(key), text)),
  show({keys, text, limit}) {
    return {
      rows: keys.map(key => row(key, keys, text, limit)), bytes: ENCODER.encode(text).length,
      words: text.match(/\S+/gu)?.length ?? 0,
    };
  },
};

onmessage = async ({data: {number, ask, ...given}}) => {
  try {
    postMessage({number, answer: await answers[ask](given)});
  } catch (error) {
    postMessage({number, error: error instanceof Error ? error.message : String(error)});
  }
};
