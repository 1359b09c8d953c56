// Package riveroperation runs the long work of package operation on River
// (github.com/riverqueue/river), in Postgres or SQLite: the application's own
// database is the queue.
//
//	runner, err := riveroperation.New(onpgx.Pool(pool), riveroperation.Config[pgx.Tx]{
//		Works: map[string]riveroperation.Work[pgx.Tx]{"export": export},
//		River: river.Config{Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 10}}},
//	})
//	err = runner.Start(ctx) // where this process is to work, and not only to accept
//	defer runner.Stop(ctx)
//	ops, err := operation.New(runner, scope, operation.Config{Records: store})
//
// The databases are packages of their own, onpgx and onsqlite, so that a program
// links the driver that it uses. [Migrate] makes the tables.
//
// # What is promised
//
// One operation for each name. The name (scope and key) is the primary key of the
// table onceward_operations; whoever comes second finds the first's row, whatever has
// become of it. Under onceward.Guard.Atomic, row and job are written in the
// transaction that keeps the 202: there is no accepted request without its job and
// no job without its request.
//
// One effect, for what a work writes through [Outcome.Write]: that commits together
// with its result, and with the row's step from pending to complete, which only one
// can make. A worker that is killed in the middle leaves nothing; River gives the
// job to another one. Two that do the same job at the same time, because the first
// was believed dead, meet at the row, and the second is rolled back.
//
// What a work does outside the database (mail, payments) can happen more than once,
// as with every queue. Give the other side the operation's id as its key.
//
// # What a status says
//
// Pending while River has the job to do or to try again; complete and failed as the
// row says; failed also when River has given up or somebody has cancelled the job,
// which whoever asks first writes into the row, before River forgets it.
// Unknown when the last try's worker died or when River has lost the job: what that
// try did outside the database, nobody can tell. An owner learns of an error's text
// only what an operation.Failure says; the error itself is in River's row and log.
//
// Retention: a finished operation is forgotten after Config.Retention, 7 days. It
// should be no shorter than the guard's.
//
// # What the log tells
//
// Two lines for each try of a job, at its begin and at its end, with the id of the
// record under which the guard has logged the request (record=), the operation's id,
// River's number of the job and the attempt: one grep tells the story from the
// request to the result. The end has an outcome: complete; failed, for good;
// to-be-tried-again; panicked; given-back, because this process stops;
// ended-before and ended-by-another, where a worker that was believed dead was not;
// forgotten; not-begun. A begin that no end follows is a worker that died, or is still
// at work. What River ended by itself, cancelled or given-up, is a line of whoever asks
// first.
//
// # Times that matter
//
// They are River's. A dead worker's job is tried again when it has been running for
// longer than RescueStuckJobsAfter (River's default is one hour), seen every 30 s by
// the leader; a leader that died is replaced after 15 to 20 s. JobTimeout bounds a
// try (one minute), RescueStuckJobsAfter has to be longer, and MaxAttempts (25) with
// the default policy goes on for three weeks: for something that a person waits for,
// set all three.
package riveroperation
