// Archives in the format of ZIP (PKWARE's APPNOTE 6.3.3), as far as it takes to write and read folders of schemas:
// compressed or stored, without ZIP64.

const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let sum = byte;
  for (let bit = 0; bit < 8; bit += 1) sum = sum & 1 ? 0xedb88320 ^ (sum >>> 1) : sum >>> 1;
  return sum;
});
const [LOCAL, CENTRAL, END] = [0x04034b50, 0x02014b50, 0x06054b50];
const [STORED, DEFLATED] = [0, 8];
const UTF8 = 0x0800; // names are in UTF-8
const FILES_MAX = 65_000;
const DATE = 0x5c21; // 2026-01-01: the same contents give the same archive
const [LOCAL_BYTES, CENTRAL_BYTES, END_BYTES] = [30, 46, 22];
const COMMENT_MAX = 65_535;
const STORED_BELOW = 128; // bytes of a file that does not get smaller
const REPORT_EVERY = 500; // files

function checksum(bytes) {
  let sum = 0xffffffff;
  for (const byte of bytes) sum = TABLE[(sum ^ byte) & 0xff] ^ (sum >>> 8);
  return (sum ^ 0xffffffff) >>> 0;
}

/**
 * Returns a Blob with these files: a Map from their paths to texts. Throws an Error if there are too many. signal:
 * aborts it; report(count): how many files are in it so far.
 *
 * @param {Map<string, string>} files
 * @param {{ signal?: AbortSignal, report?: (count: number) => void }} [options]
 */
export async function zipped(files, { signal, report } = {}) {
  if (files.size > FILES_MAX) throw new Error(`An archive holds at most ${FILES_MAX} files`);
  const [parts, directory] = [[], []];
  const encoder = new TextEncoder();
  let [offset, done] = [0, 0];
  for (const [path, text] of files) {
    if (done % REPORT_EVERY === 0) report?.(done);
    signal?.throwIfAborted();
    done += 1;
    const [name, bytes] = [path, text].map((each) => encoder.encode(each));
    const method = bytes.length < STORED_BELOW ? STORED : DEFLATED;
    const packed = method === STORED ? bytes : await through(bytes, new CompressionStream("deflate-raw"));
    const fields = [20, UTF8, method, 0, DATE, checksum(bytes), packed.length, bytes.length, name.length, 0];
    const sizes = [2, 2, 2, 2, 2, 4, 4, 4, 2, 2];
    parts.push(record([LOCAL, ...fields], [4, ...sizes]), name, packed);
    directory.push(record([CENTRAL, 20, ...fields, 0, 0, 0, 0, offset], [4, 2, ...sizes, 2, 2, 2, 4, 4]), name);
    offset += LOCAL_BYTES + name.length + packed.length;
  }
  const size = directory.reduce((sum, each) => sum + each.length, 0);
  const end = record([END, 0, 0, files.size, files.size, size, offset, 0], [4, 2, 2, 2, 2, 4, 4, 2]);
  return new Blob([...parts, ...directory, end], { type: "application/zip" });
}

function record(values, sizes) {
  const view = new DataView(new ArrayBuffer(sizes.reduce((sum, each) => sum + each, 0)));
  let at = 0;
  for (const [index, size] of sizes.entries()) {
    if (size === 2) view.setUint16(at, values[index], true);
    else view.setUint32(at, values[index], true);
    at += size;
  }
  return new Uint8Array(view.buffer);
}

async function through(bytes, { readable, writable }) {
  const writer = writable.getWriter();
  const written = Promise.all([writer.write(bytes), writer.close()]);
  const packed = new Uint8Array(await new Response(readable).arrayBuffer());
  await written;
  return packed;
}

/**
 * Returns the files of an archive whose paths satisfy wants(path), as a Map from paths to texts. Throws an Error if it
 * is none, or if its files have more than `max` bytes.
 */
export async function unzipped(blob, max, wants) {
  const bytes = new Uint8Array(await blob.arrayBuffer());
  const view = new DataView(bytes.buffer);
  const files = new Map();
  let [at, left] = directoryOf(view);
  for (let total = 0; left > 0; left -= 1) {
    if (at + CENTRAL_BYTES > view.byteLength || view.getUint32(at, true) !== CENTRAL) throw damaged();
    const method = view.getUint16(at + 10, true);
    const [packed, size] = [view.getUint32(at + 20, true), view.getUint32(at + 24, true)];
    const [name, extra, comment] = [28, 30, 32].map((place) => view.getUint16(at + place, true));
    const path = new TextDecoder().decode(bytes.subarray(at + CENTRAL_BYTES, at + CENTRAL_BYTES + name));
    const begin = view.getUint32(at + 42, true);
    at += CENTRAL_BYTES + name + extra + comment;
    if (!wants(path)) continue;
    total += size;
    if (total > max) throw new Error("The archive is too large");
    files.set(path, await contentOf(view, begin, method, packed, size, view.getUint32(at - name - extra - comment
      - CENTRAL_BYTES + 16, true)));
  }
  return files;
}

function directoryOf(view) {
  for (let at = view.byteLength - END_BYTES; at >= Math.max(0, view.byteLength - END_BYTES - COMMENT_MAX); at -= 1) {
    if (view.getUint32(at, true) === END) return [view.getUint32(at + 16, true), view.getUint16(at + 10, true)];
  }
  throw damaged();
}

async function contentOf(view, begin, method, packed, size, sum) {
  if (begin + LOCAL_BYTES > view.byteLength || view.getUint32(begin, true) !== LOCAL) throw damaged();
  const from = begin + LOCAL_BYTES + view.getUint16(begin + 26, true) + view.getUint16(begin + 28, true);
  if (from + packed > view.byteLength || ![STORED, DEFLATED].includes(method)) throw damaged();
  const part = new Uint8Array(view.buffer, from, packed);
  const bytes = method === STORED ? part : await inflated(part, size);
  if (bytes.length !== size || checksum(bytes) !== sum) throw damaged();
  return new TextDecoder().decode(bytes);
}

// The size in the archive may be wrong, so no more than that is read.
async function inflated(bytes, size) {
  const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw")).getReader();
  const found = new Uint8Array(size);
  let at = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return found.subarray(0, at);
      if (at + value.length > size) throw damaged();
      found.set(value, at);
      at += value.length;
    }
  } catch (error) {
    throw damaged(error);
  }
}

function damaged(cause) {
  return new Error("This is no archive, or it is damaged", { cause });
}
