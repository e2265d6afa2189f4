// The routes table: every page of the console. The first match counts, so fixed segments come before parameters.
//
// path: what follows the "#"; ":name" is a parameter. view: loads a module whose default export is the component, which
// gets { params, query }. title: of the page, a text or a function of params. nav: its name in the navigation, if it
// has a place there; key: the letter that opens it after "g".
import { plain } from "./names.js";

export const ROUTES = [
  { path: "/home", view: () => import("./home/view.js"), title: "Home", nav: "Home", key: "h" },
  { path: "/subjects", view: () => import("./subjects/view.js"), title: "Subjects",
    nav: "Subjects", key: "s" },
  { path: "/try", view: () => import("./editor/view.js"), title: "Try a schema", nav: "Try", key: "t" },
  { path: "/config", view: () => import("./schema/config-view.js"), title: "Config and mode", nav: "Config", key: "c" },
  { path: "/config/members", view: () => import("./config/view.js"), title: "Members of a config" },
  { path: "/contexts", view: () => import("./contexts/view.js"), title: "Contexts" },
  { path: "/lookup", view: () => import("./lookup/view.js"), title: "Look up an id",
    nav: "Lookup", key: "l" },
  { path: "/subjects/:subject", view: () => import("./schema/view.js"), title: ({ subject }) => plain(subject) },
  {
    path: "/subjects/:subject/versions/:version", view: () => import("./schema/view.js"),
    title: ({ subject, version }) => `${plain(subject)} version ${version}`,
  },
  { path: "/subjects/:subject/associations", view: () => import("./associations/view.js"),
    title: ({ subject }) => `Associations of ${plain(subject)}` },
  { path: "/subjects/:subject/versions/:version/tags", view: () => import("./tags/view.js"),
    title: ({ subject }) => `Tags of ${plain(subject)}` },
  { path: "/usage", view: () => import("./usage/view.js"), title: "Usage", nav: "Usage", key: "u" },
  { path: "/usage/:tab", view: () => import("./usage/view.js"), title: ({ tab }) => `Usage: ${tab}` },
  { path: "/usage/subjects/:subject", view: () => import("./usage/subject.js"),
    title: ({ subject }) => `Usage of ${plain(subject)}` },
  { path: "/bulk", view: () => import("./bulk/view.js"), title: "Many schemas at once", nav: "Bulk", key: "b" },
  { path: "/bulk/:tab", view: () => import("./bulk/view.js"), title: ({ tab }) => `Bulk: ${tab}` },
  { path: "/activity", view: () => import("./activity/view.js"), title: "Activity", nav: "Activity", key: "a" },
  { path: "/cluster", view: () => import("./cluster/view.js"), title: "Cluster", nav: "Cluster", key: "n" },
  { path: "/cluster/:tab", view: () => import("./cluster/view.js"), title: ({ tab }) => `Cluster: ${tab}` },
];

export const START = "/home";
