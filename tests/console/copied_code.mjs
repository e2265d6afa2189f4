// Prints the texts that the console offers to copy, as JSON: node copied_code.mjs WHAT REGISTRY.
import { textsOf } from "../../registry/ui/static/copy-as/texts.js";

const [what, registry] = process.argv.slice(2);
process.stdout.write(JSON.stringify(textsOf(JSON.parse(what), registry)));
