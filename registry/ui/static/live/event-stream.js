// Server-sent events (the WHATWG's HTML standard, 9.2), as far as the feed uses them.

/**
 * A function that takes pieces of a stream and returns what they complete: { events, position: the last id or null }.
 */
export function parser() {
  let rest = "";
  let data = [];
  return (piece) => {
    const lines = (rest + piece).split("\n");
    rest = lines.pop();
    const events = [];
    let position = null;
    for (const line of lines) {
      if (line === "") {
        if (data.length) events.push(JSON.parse(data.join("\n")));
        data = [];
      } else if (line.startsWith("data:")) {
        data.push(line.slice(5).trimStart());
      } else if (line.startsWith("id:")) {
        position = Number(line.slice(3));
      }
    }
    return { events, position };
  };
}
