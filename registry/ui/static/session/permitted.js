// What the user may do. The registry decides in any case; this only turns off what it would refuse.
import { get } from "../api.js";
import { useResource } from "../live/resources.js";
import { resource } from "../live/store.js";
import { plain } from "../names.js";
import { useSession } from "./session.js";

// Rules are files of the server, so no event says that they have changed.
const PERMITTED = resource("permitted",
  (signal, subject) => get("/me", { query: { subject: subject || ":.:" }, signal }), () => false);

/**
 * Returns `refusal(operation)`: why the user may not do it to a subject or a context (":.ctx:", empty: the top level),
 * or without one to everything. It is empty if that is permitted, and null while it is not known. What it names is made
 * visible already, see `plain`.
 */
export function usePermitted(subject) {
  const { me } = useSession();
  // What is permitted nowhere but everywhere does not depend on the subject.
  const asked = me !== null && subject !== undefined
    && me.operations.somewhere.some((each) => !me.operations.everywhere.includes(each));
  const known = asked && me.about !== undefined && me.about === subject;
  const found = useResource(asked && !known ? PERMITTED : null, subject, me?.principal);
  const { value, error } = known ? { value: me } : found;
  return (operation) => {
    if (me === null) return null;
    if (me.operations.everywhere.includes(operation)) return "";
    if (asked && !value) return error ? "" : null; // the registry will say it when asked to do it
    if (asked && value.operations.subject.includes(operation)) return "";
    return refused(me, operation, subject === undefined ? "on everything" : "here");
  };
}

/** Returns `refusal(operation)` for what is permitted on some subjects: the registry decides about each. */
export function useSomewhere() {
  const { me } = useSession();
  return (operation) => {
    if (me === null) return null;
    return me.operations.somewhere.includes(operation) ? "" : refused(me, operation, "somewhere");
  };
}

function refused({ principal }, operation, where) {
  return principal === null
    ? "Sign in to do this." : `${plain(principal)} lacks permission: this requires ${operation} ${where}.`;
}
