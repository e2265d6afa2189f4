// Becomes static/vendor.js: what every view needs.
export { Component, Fragment, createContext, createRef, h, render } from "preact";
// Preact's own useEffect runs after the paint, on a busy machine long after: it would miss or overwrite what the user does
// in between, and end too late when a view has gone. So every effect here is one that runs before the paint.
export {
  useCallback, useContext, useErrorBoundary, useId, useLayoutEffect as useEffect, useMemo, useReducer, useRef, useState,
} from "preact/hooks";
export { html } from "htm/preact";
