// Package deploys restarts the real planner under people who go on tapping: by
// SIGTERM, as each release does, and by SIGKILL in the middle of requests. The
// clients stand in for the outbox: each keeps its requests in order, under their
// names, and sends one again until the guard says that it was done. What
// happened is read from the planner's database, never from the answers.
//
// The same with real clicks is internal/integration/browser/deploy.test.js.
package deploys
