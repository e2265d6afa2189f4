// The routes table: every page of the console. The first match counts, so fixed segments come before parameters.
//
// path: what follows the "#"; ":name" is a parameter. view: loads a module whose default export is the component, which
// gets { params, query }. title: of the page, a text or a function of params. nav: its name in the navigation, if it
// has a place there; key: the letter that opens it after "g". then: true if the page shows the moment of the past that
// the user looks at; otherwise what it shows, which the registry knows only as it is now.
import { plain } from "./names.js";

export const ROUTES = [
  { path: "/home", view: () => import("./home/view.js"), title: "Home", nav: "Home", key: "h",
    then: "Health, news and duplicates" },
  { path: "/subjects", view: () => import("./subjects/view.js"), title: "Subjects",
    nav: "Subjects", key: "s", then: "The list of subjects" },
  { path: "/try", view: () => import("./editor/view.js"), title: "Try a schema", nav: "Try", key: "t",
    then: "What a draft is checked against" },
  { path: "/config", view: () => import("./schema/config-view.js"), title: "Config and mode", nav: "Config", key: "c",
    then: true },
  { path: "/config/members", view: () => import("./config/view.js"), title: "Members of a config",
    then: "The scopes that members come from" },
  { path: "/contexts", view: () => import("./contexts/view.js"), title: "Contexts", then: "The list of contexts" },
  { path: "/lookup", view: () => import("./lookup/view.js"), title: "Look up an id",
    nav: "Lookup", key: "l", then: "What an id or a schema stands for" },
  { path: "/subjects/:subject", view: () => import("./schema/view.js"), title: ({ subject }) => plain(subject),
    then: true },
  {
    path: "/subjects/:subject/versions/:version", view: () => import("./schema/view.js"),
    title: ({ subject, version }) => `${plain(subject)} version ${plain(version)}`, then: true,
  },
  { path: "/subjects/:subject/associations", view: () => import("./associations/view.js"),
    title: ({ subject }) => `Associations of ${plain(subject)}`, then: "Associations" },
  { path: "/subjects/:subject/versions/:version/tags", view: () => import("./tags/view.js"),
    title: ({ subject }) => `Tags of ${plain(subject)}`, then: "The tags that can be changed" },
  { path: "/usage", view: () => import("./usage/view.js"), title: "Usage", nav: "Usage", key: "u",
    then: "Usage" },
  { path: "/usage/:tab", view: () => import("./usage/view.js"), title: ({ tab }) => `Usage: ${plain(tab)}`,
    then: "Usage" },
  { path: "/usage/subjects/:subject", view: () => import("./usage/subject.js"),
    title: ({ subject }) => `Usage of ${plain(subject)}`, then: "Usage" },
  { path: "/bulk", view: () => import("./bulk/view.js"), title: "Bulk operations", nav: "Bulk", key: "b",
    then: "What is downloaded and changed" },
  { path: "/bulk/:tab", view: () => import("./bulk/view.js"), title: ({ tab }) => `Bulk: ${plain(tab)}`,
    then: "What is downloaded and changed" },
  { path: "/activity", view: () => import("./activity/view.js"), title: "Activity", nav: "Activity", key: "a",
    then: "The list of all events" },
  { path: "/cluster", view: () => import("./cluster/view.js"), title: "Cluster", nav: "Cluster", key: "n",
    then: "The state of nodes, snapshots and webhooks" },
  { path: "/cluster/:tab", view: () => import("./cluster/view.js"), title: ({ tab }) => `Cluster: ${plain(tab)}`,
    then: "The state of nodes, snapshots and webhooks" },
];

export const START = "/home";
