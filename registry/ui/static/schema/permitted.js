// What the principal may do to a subject. The registry decides in any case; this only hides what it would refuse.
import { get } from "../api.js";
import { useLoaded } from "./loading.js";

/** Returns a function that says if an operation ("write", "delete", "config", "mode") is permitted; true while unknown. */
export function usePermitted(subject) {
  const { value } = useLoaded((signal) => get("/me", { query: { subject: subject || ":.:" }, signal }), [subject]);
  const operations = value?.operations?.subject;
  return (operation) => !operations || operations.includes(operation);
}
