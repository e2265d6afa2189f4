// Compares the bundles of the console's modules with the modules, token by token: node bundles.mjs FILE. The file holds
// { modules, bundles }, texts by path. registry/ui/bundles.py reads modules by regular expressions; this is a parser.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { posix } from "node:path";
import { Linter } from "eslint";

const FRAME = "bundles/app.js";
const { modules, bundles } = JSON.parse(readFileSync(process.argv[2], "utf8"));

function parsed(text, path) {
  const linter = new Linter();
  const config = { languageOptions: { ecmaVersion: 2024, sourceType: "module" } };
  const fatal = linter.verify(text, config, path).find((each) => each.fatal);
  assert.equal(fatal, undefined, `${path}: ${fatal?.message} at line ${fatal?.line}`);
  return linter.getSourceCode().ast;
}

const within = ([begin, end], { range }) => range[0] >= begin && range[1] <= end;
const keyOf = (node) => node.name ?? node.value;

/** The names that a pattern binds. */
function bound(pattern) {
  if (pattern.type === "Identifier") return [pattern.name];
  assert.equal(pattern.type, "ArrayPattern");
  return pattern.elements.flatMap(bound);
}

/** What a module imports and exports, and its other tokens, with `import(…)` as a bundle has it. */
function ofModule(path, { body, tokens }) {
  const resolve = (target) => posix.join(posix.dirname(path), target);
  const imports = [];
  const exports = {};
  const left = []; // ranges of what is not copied
  for (const node of body) {
    if (node.type === "ImportDeclaration") {
      const names = node.specifiers.map(({ type, imported, local }) =>
        [type === "ImportNamespaceSpecifier" ? "*" : keyOf(imported ?? { name: "default" }), local.name]);
      imports.push([resolve(node.source.value), ...names]);
      left.push(node.range);
    } else if (node.type === "ExportDefaultDeclaration") {
      exports.default = node.declaration.id.name;
      left.push([node.range[0], node.declaration.range[0]]);
    } else if (node.type === "ExportNamedDeclaration" && node.declaration) {
      const { id, declarations } = node.declaration;
      for (const name of id ? [id.name] : declarations.flatMap((each) => bound(each.id))) exports[name] = name;
      left.push([node.range[0], node.declaration.range[0]]);
    } else if (node.type === "ExportNamedDeclaration") {
      for (const { exported, local } of node.specifiers) exports[keyOf(exported)] = keyOf(local);
      left.push(node.range);
    } else {
      assert.ok(!node.type.startsWith("Export"), `${path}: ${node.type}`);
    }
  }
  const kept = tokens.filter((token) => !left.some((range) => within(range, token))).map(({ value }) => value);
  for (const [at, value] of kept.entries()) {
    assert.ok(value !== "import" || kept[at + 1] === "(", `${path}: import.meta means another file in a bundle`);
    if (value === "import") kept.splice(at, 3, "$load", "(", JSON.stringify(resolve(JSON.parse(kept[at + 2]))));
  }
  return { imports: imports.filter((each) => each.length > 1 || each[0].endsWith(".js")), exports, kept };
}

/** The same of a call of `define`. */
function ofDefinition({ arguments: [path, { body: block }] }, tokens) {
  const imports = [];
  const left = [];
  const result = block.body.at(-1);
  assert.equal(result.type, "ReturnStatement");
  left.push(result.range);
  const exports = Object.fromEntries(result.argument.properties.map(({ key, value }) => [keyOf(key), value.name]));
  for (const node of block.body) {
    const [declared] = node.type === "VariableDeclaration" ? node.declarations : [];
    if (declared?.init?.callee?.name !== "$from") continue;
    const names = declared.id.type === "Identifier" ? [["*", declared.id.name]]
      : declared.id.properties.map(({ key, value }) => [keyOf(key), value.name]);
    imports.push([declared.init.arguments[0].value, ...names]);
    left.push(node.range);
  }
  const inner = [block.range[0] + 1, block.range[1] - 1];
  const kept = tokens.filter((token) => within(inner, token) && !left.some((range) => within(range, token)));
  return { path: path.value, imports, exports, kept: kept.map(({ value }) => value) };
}

const frame = new Set();
const seen = new Set();
for (const [name, text] of Object.entries(bundles).sort(([one]) => (one === FRAME ? -1 : 1))) {
  const ast = parsed(text, name);
  const known = new Set(frame);
  for (const { type, expression } of ast.body) {
    if (type !== "ExpressionStatement" || expression.callee?.name !== "define") continue;
    const { path, ...found } = ofDefinition(expression, ast.tokens);
    const { imports, ...wanted } = ofModule(path, parsed(modules[path], path));
    // An import without names only runs its module, which a bundle does anyway.
    assert.deepEqual({ imports: found.imports, ...found }, { imports: imports.filter(([, ...names]) => names.length),
      ...wanted }, path);
    for (const [target] of imports) assert.ok(known.has(target), `${name}: ${path} comes before ${target}`);
    assert.ok(!known.has(path), `${name} holds ${path} twice`);
    known.add(path);
    seen.add(path);
    if (name === FRAME) frame.add(path);
  }
}
const alone = Object.keys(modules).filter((path) => !seen.has(path));
process.stdout.write(JSON.stringify({ compared: seen.size, alone }));
