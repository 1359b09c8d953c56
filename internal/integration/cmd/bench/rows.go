package main

import (
	"fmt"
	"strconv"
)

// row is one promise.
type row struct {
	what, target string
	// judge returns what was measured, in words, and whether it is enough.
	judge func(m medians) (measured string, met bool)
}

// atLeast is a row whose number is a multiple that must reach least; one more
// number may follow it, in brackets.
func atLeast(what string, least float64, benchmark, unit, more, moreUnit string) row {
	return row{what, "≥ " + strconv.FormatFloat(least, 'f', -1, 64) + " ×", func(m medians) (string, bool) {
		r := m.get(benchmark, unit)
		text := times(r)
		if more != "" {
			text += fmt.Sprintf(" (%.0f %s)", m.get(benchmark, more), moreUnit)
		}
		return text, r >= least
	}}
}

// times writes small multiples with two digits behind the point, large ones with one.
func times(r float64) string {
	if r < 4 {
		return fmt.Sprintf("%.2f ×", r)
	}
	return fmt.Sprintf("%.1f ×", r)
}

var rows = []row{
	{
		"memory store: a first request over the bare handler", "≤ 5 µs and ≤ 14 allocations more",
		func(m medians) (string, bool) {
			ns := m.get("Memory/first", "ns/op") - m.get("Memory/bare", "ns/op")
			allocs := m.get("Memory/first", "allocs/op") - m.get("Memory/bare", "allocs/op")
			return fmt.Sprintf("%.1f µs, %.0f allocations more", ns/1000, allocs), ns <= 5000 && allocs <= 14
		},
	},
	{
		"memory store: a replay against a first request", "cheaper",
		func(m medians) (string, bool) {
			r := m.get("Memory/replay", "ns/op") / m.get("Memory/first", "ns/op")
			return fmt.Sprintf("%.2f ×", r), r < 1
		},
	},
	atLeast("SQLite, durable, 32 clients on one connection: throughput against one transaction per step",
		4, "SQLiteGroupCommit/pool-of-1", "x-each-alone", "req/s", "requests/s"),
	atLeast("SQLite, durable, 32 clients on 32 connections: the same",
		4, "SQLiteGroupCommit/pool-of-32", "x-each-alone", "req/s", "requests/s"),
	{
		"SQLite, durable, 32 clients: p99 against p50", "< 5 ×",
		func(m medians) (string, bool) {
			r := m.get("SQLiteGroupCommit/pool-of-1", "p99/p50")
			return fmt.Sprintf("%.1f × (p50 %.1f ms)", r, m.get("SQLiteGroupCommit/pool-of-1", "p50-ms")), r < 5
		},
	},
	atLeast("SQLite Atomic, one insert, 32 clients on one connection: throughput against the handler that commits by itself",
		4, "SQLiteAtomic/pool-of-1", "atomic-x-bare", "atomic/s", "requests/s"),
	atLeast("SQLite Atomic, one insert, 32 clients on 32 connections: the same",
		4, "SQLiteAtomic/pool-of-32", "atomic-x-bare", "atomic/s", "requests/s"),
	atLeast("Postgres Atomic, one insert, 1 client: throughput against the handler in its own transaction",
		.9, "PostgresAtomic/clients-1", "atomic-x-bare", "atomic/s", "requests/s"),
	atLeast("Postgres Atomic, one insert, 8 clients: the same",
		.9, "PostgresAtomic/clients-8", "atomic-x-bare", "atomic/s", "requests/s"),
	atLeast("Postgres Atomic, one insert, 32 clients: the same",
		.75, "PostgresAtomic/clients-32", "atomic-x-bare", "atomic/s", "requests/s"),
	{
		"Postgres, claim and answer apart: statements of a first request and of a replay", "2 and 1",
		func(m medians) (string, bool) {
			first, replay := m.get("PostgresTrips", "statements/first"), m.get("PostgresTrips", "statements/replay")
			return fmt.Sprintf("%.4g and %.4g", first, replay), first == 2 && replay == 1
		},
	},
	{
		"Postgres: what a replay takes", "no transaction id, no row lock",
		func(m medians) (string, bool) {
			xids, locks := m.get("PostgresTrips", "xids/replay"), m.get("PostgresTrips", "locks/replay")
			text := fmt.Sprintf("%.4g transaction ids each", xids)
			if locks > 0 {
				return text + ", rows were locked", false
			}
			// The server's own work takes one now and then.
			return text + ", no row lock", xids < .01
		},
	},
	{
		"Redis: round trips of a first request and of a replay", "2 and 1",
		func(m medians) (string, bool) {
			first, replay := m.get("RedisTrips", "trips/first"), m.get("RedisTrips", "trips/replay")
			return fmt.Sprintf("%.4g and %.4g", first, replay), first == 2 && replay == 1
		},
	},
	{
		"Redis: memory of a small record", "≤ 400 bytes",
		func(m medians) (string, bool) {
			n := m.get("RedisTrips", "bytes/record")
			return fmt.Sprintf("%.0f bytes", n), n <= 400
		},
	},
	atLeast("SQLite: one key replayed to 64 clients against reading its row",
		.8, "SQLiteHotReplay", "x-plain-read", "req/s", "replays/s"),
	atLeast("Postgres: the same", .8, "PostgresHotReplay/claim", "x-plain-read", "req/s", "replays/s"),
	atLeast("Postgres Atomic: the same", .8, "PostgresHotReplay/transact", "x-plain-read", "req/s", "replays/s"),
	atLeast("Redis: the same", .8, "RedisHotReplay", "x-plain-read", "req/s", "replays/s"),
	atLeast("gateway: a GET that passes, against a bare httputil.ReverseProxy", .9, "GatewayGet", "x-bare", "req/s", "requests/s"),
	largeTable("SQLite"), swept("SQLite"), largeTable("Postgres"), swept("Postgres"),
}

// taps are the rows of the browsers.
var taps = []row{tap("Chromium", "chromium", 5, true), tap("WebKit", "webkit", 5, false), tap("Firefox", "firefox", 8, true)}

// tap is the row of one browser. In WebKit the worker lives in the page's own
// process as long as a page does, so no tap meets one that was stopped.
func tap(name, engine string, most float64, stops bool) row {
	return row{"outbox: an announced tap online against the same path left alone, median, " + name, fmt.Sprintf("≤ %.0f ms more", most), func(m medians) (string, bool) {
		get := func(unit string) float64 { return m.get("OutboxTap/"+engine, unit) }
		more := get("more-ms")
		text := fmt.Sprintf("%.1f ms more (%.1f ms against %.1f ms", more, get("announced-ms"), get("excluded-ms"))
		if stops {
			text += fmt.Sprintf("; the first after the worker was stopped: %.0f ms", get("cold-ms"))
		}
		return text + ")", more <= most
	}}
}

func largeTable(store string) row {
	return row{store + ", a table of many live keys: p50 of a claim against an empty table", "≤ 1.3 ×", func(m medians) (string, bool) {
		empty, large := m.get(store+"Large", "empty-p50-ms"), m.get(store+"Large", "large-p50-ms")
		r := large / empty
		return fmt.Sprintf("%.2f × (%s keys: %.2f ms)", r, millions(m.get(store+"Large", "keys")), large), r <= 1.3
	}}
}

func swept(store string) row {
	return row{store + ", the same table: p99 of claims while expired keys are swept against without", "≤ 2 ×", func(m medians) (string, bool) {
		get := func(unit string) float64 { return m.get(store+"Large", unit) }
		r := get("swept-p99-ms") / get("large-p99-ms")
		return fmt.Sprintf("%.2f × (%.1f ms; the slowest %.1f ms, without %.1f ms)",
			r, get("swept-p99-ms"), get("swept-max-ms"), get("large-max-ms")), r <= 2
	}}
}

func millions(n float64) string { return fmt.Sprintf("%.4g million", n/1e6) }

// other is one way to do the same work that is measured in the same run.
type other struct {
	what          string
	name, bare    string // of the side, and of the one that it is a multiple of
	first, replay string // the benchmarks
	not           string // what it does not promise
}

var beside = []other{
	{
		"net/http, 32 clients over loopback: the bare handler", "nethttp", "", "BesideFiber/first", "",
		"anything: a repeat is a second order",
	},
	{
		"Onceward, memory store, round the same handler", "guard", "nethttp", "BesideFiber/first", "BesideFiber/replay",
		"anything once the process has ended; a store that lasts does",
	},
	{
		"fiber v3, 32 clients over loopback: the bare handler", "fiber", "", "BesideFiber/first", "",
		"anything: a repeat is a second order",
	},
	{
		"fiber v3's idempotency middleware, its memory storage", "fiber-keys", "fiber", "BesideFiber/first", "BesideFiber/replay",
		"that an answer is the caller's own: it compares neither user nor path nor body with the key's first use; " +
			"nor, with any storage, that work is done once: the lock is the process's, and after a crash or a failed write between work and stored answer the repeat runs it again",
	},
	{
		"Postgres, 8 clients: the bare handler, one insert in its own transaction", "bare", "", "BesideDBOS/first", "",
		"anything: a repeat is a second order",
	},
	{
		"Onceward Atomic round the same handler", "atomic", "bare", "BesideDBOS/first", "BesideDBOS/replay",
		"to finish by itself what a crash has undone (the repeat does), nor to take back what was done outside the database",
	},
	{
		"DBOS Go, a workflow named by the key with the insert as its one transaction", "dbos", "bare", "BesideDBOS/first", "BesideDBOS/replay",
		"to tell another request under the same key from a repeat (its input is ignored), to keep users' keys apart, to keep the HTTP answer; " +
			"a crash between start and insert is made good when a process recovers, until when the repeat waits",
	},
}
