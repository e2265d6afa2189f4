// A rule for the console: what others have named is shown by <Name>, or by plain() where only text has a place.

const CHOSEN = new Set([
  "subject", "principal", "alias", "context", "topic", "tag", "owner", "resourceName", "scope", "group", "user", "who",
  // Texts that quote such names.
  "message", "reason", "fix",
]);
const TEXTS = new Set(["title", "label", "aria-label", "aria-description", "caption", "placeholder", "alt", "what"]);
const CLASS = /\bclass="name\b/;

/** True if an expression may be such a name, or holds one as it is. */
function isChosen(node) {
  switch (node.type) {
    case "Identifier": return CHOSEN.has(node.name);
    case "MemberExpression": return !node.computed && CHOSEN.has(node.property.name);
    case "ConditionalExpression": return isChosen(node.consequent) || isChosen(node.alternate);
    case "LogicalExpression": return isChosen(node.right) || (node.operator !== "&&" && isChosen(node.left));
    case "TemplateLiteral": return node.expressions.some(isChosen);
    case "BinaryExpression": return node.operator === "+" && (isChosen(node.left) || isChosen(node.right));
    default: return false;
  }
}

/** The attribute of a template's expression, and whether it is a component's; null: it is content. */
function attributeOf(template, index) {
  const before = template.quasis.slice(0, index + 1).map(({ value }) => value.raw).join("\u0000");
  const start = before.lastIndexOf("<");
  if (start <= before.lastIndexOf(">")) return null;
  return /([\w-]+)=$/.exec(before)?.[1] ?? "";
}

export default {
  meta: { type: "problem", schema: [], messages: { raw: "Show this name by <Name>, or by plain() in a text." } },
  create(context) {
    const report = (node) => context.report({ node, messageId: "raw" });
    return {
      TemplateLiteral(node) {
        const tag = node.parent.type === "TaggedTemplateExpression" ? node.parent.tag.name : null;
        if (tag === "html") {
          for (const quasi of node.quasis) if (CLASS.test(quasi.value.raw)) report(quasi);
          for (const [index, each] of node.expressions.entries()) {
            const attribute = attributeOf(node, index);
            if ((attribute === null || TEXTS.has(attribute)) && isChosen(each)) report(each);
          }
        } else if (tag === null && node.quasis.some(({ value }) => /[A-Za-z]{2}.*\s|\s.*[A-Za-z]{2}/.test(value.raw))) {
          if (isKey(node) || isOfError(node)) return;
          for (const each of node.expressions) if (isChosen(each)) report(each);
        }
      },
    };
  },
};

/** True for the message of an error, which is made visible as a whole where it is shown. */
function isOfError({ parent }) {
  return parent.type === "NewExpression" && parent.callee.name?.endsWith("Error");
}

/** True for the text of a key, which nobody sees. */
function isKey(node) {
  const { parent } = node;
  if (parent.type !== "TemplateLiteral" || parent.parent.tag?.name !== "html") return false;
  return attributeOf(parent, parent.expressions.indexOf(node)) === "key";
}
