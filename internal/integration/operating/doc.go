// Package operating tests what the person on call sees: that the log tells a record's
// whole story, that the alarms of docs/alerts.yaml ring when they should and no sooner,
// in a real Prometheus that scrapes real programs, and that docs/operations.md says
// nothing that is not so.
package operating
