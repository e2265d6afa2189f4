'use strict';
// Lets the tests call a JavaScript client: one JSON request a line on standard input, one JSON reply a line on
// standard output. A request is {"call": name, "arguments": [...]}; a reply has "result" or "error". Bytes travel
// as {"base64": text} both ways.

const fs = require('node:fs');
const https = require('node:https');
const readline = require('node:readline');

function fromJson(key, value) {
  return value !== null && typeof value === 'object' && typeof value.base64 === 'string'
    ? Buffer.from(value.base64, 'base64')
    : value;
}

function toJson(value) {
  return Buffer.isBuffer(value) ? { base64: value.toString('base64') } : value;
}

// Serves `calls`, an object of async functions, until standard input ends.
module.exports = async function serve(calls) {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const request = JSON.parse(line, fromJson);
    let reply;
    try {
      reply = { result: toJson(await calls[request.call](...request.arguments)) ?? null };
    } catch (error) {
      const { name, message, status, code, errorCode } = error;
      reply = { error: { name, message, status, code: errorCode ?? code } };
    }
    process.stdout.write(JSON.stringify(reply) + '\n');
  }
};

// Returns the client's configuration, the second argument. Its `tls` names the files for an agent.
module.exports.config = function config() {
  const { tls, ...config } = JSON.parse(process.argv[3]);
  if (!tls) return { config };
  const files = Object.entries(tls).map(([name, path]) => [name, fs.readFileSync(path)]);
  return { config, agent: new https.Agent(Object.fromEntries(files)) };
};
