// Words that run together: htm drops a line break between a text and an element. ${" "} keeps the space.
const INLINE = "a|b|code|em|i|kbd|span|strong|time|\\$Name|\\$Time|\\$VersionLink";
const TEXT_THEN_ELEMENT = new RegExp(`[^\\s>}]\\s*\\n\\s*<(${INLINE})[\\s>]`);
const ELEMENT_THEN_TEXT = new RegExp(`</(${INLINE})>\\s*\\n\\s*[\\w(]`);

/** Return the template's text; the name of a component is $Name, any other expression "${}". */
function textOf({ quasis, expressions }) {
  return quasis.map(({ value }, index) => {
    const expression = expressions[index];
    if (!expression) return value.raw;
    const component = /<\/?$/.test(value.raw) && expression.type === "Identifier";
    return value.raw + (component ? `$${expression.name}` : "${}");
  }).join("");
}

export default {
  meta: {
    type: "problem", schema: [],
    messages: { joined: "A line break between a text and an element is no space: write ${\" \"}." },
  },
  create: (context) => ({
    TaggedTemplateExpression(node) {
      if (node.tag.name !== "html") return;
      const text = textOf(node.quasi);
      if (TEXT_THEN_ELEMENT.test(text) || ELEMENT_THEN_TEXT.test(text)) context.report({ node, messageId: "joined" });
    },
  }),
};
