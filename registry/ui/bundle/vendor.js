// Becomes static/vendor.js: what every view needs.
export { Component, Fragment, createContext, createRef, h, render } from "preact";
export {
  useCallback, useContext, useEffect, useErrorBoundary, useId, useLayoutEffect, useMemo, useReducer, useRef, useState,
} from "preact/hooks";
export { html } from "htm/preact";
