// Bundles the libraries of the console into ../static, and gathers their licenses: node registry/ui/bundle/build.mjs
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
const packages = join(here, "..", "node_modules");
const bundled = new Set();

for (const name of ["vendor.js", "vendor-editor.js"]) {
  const made = await build({
    absWorkingDir: here,
    entryPoints: [name],
    outfile: join(here, "..", "static", name),
    bundle: true,
    format: "esm",
    target: "es2022",
    minify: true,
    legalComments: "none", // the licenses are in a file of their own
    banner: { js: "// @ts-nocheck" }, // only our own scripts are checked
    metafile: true,
    logLevel: "warning",
  });
  for (const input of Object.keys(made.metafile.inputs)) {
    const found = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input);
    if (found) bundled.add(found[1]);
  }
}

const texts = [...bundled].sort().map((name) => {
  const folder = join(packages, name);
  const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
  if (!file || !existsSync(join(folder, file))) throw new Error(`${name} has no license file`);
  const text = readFileSync(join(folder, file), "utf8").trim();
  return `${name} ${version} (${license})\n\n${text}\n`;
});
writeFileSync(join(here, "..", "static", "vendor.LICENSES.txt"), texts.join(`\n${"-".repeat(80)}\n\n`));
