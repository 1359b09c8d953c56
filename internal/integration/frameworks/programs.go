package frameworks

import (
	"regexp"
	"slices"
	"strings"

	"github.com/onceward/onceward/internal/integration/orders"
)

// program is one of examples/frameworks, in one of the ways it shows. As name is
// its column in docs/frameworks.md.
type program struct{ name, command, mount string }

var columns = []program{
	{"chi", "chi", "router"},
	{"chi, one router", "chi", "middleware"},
	{"echo", "echo", "router"},
	{"echo, middleware", "echo", "middleware"},
	{"gin", "gin", "router"},
	{"gin, middleware", "gin", "middleware"},
	{"fiber", "fiber", ""},
}

// inTheTest are the tests of internal/integration/orders that no program can be
// asked, and why. All others are: see [plan].
var inTheTest = map[string]string{
	"TestB007TwoPressesAtOnceCallThePaymentProviderOnce":        ownHandler,
	"TestB014ATokenThatTheFirstClickUsedUpIsNoErrorToTheSecond": ownHandler,
	"TestB124AFormThatTheBrowserSendsAgainForHoursIsDoneOnce":   ownHandler,
	"TestB019APauseBeforeTheRecordLetsNoWaiterRun":              ownGuard,
	"TestB026ALateDuplicateMeetsTheCompletedRecord":             ownGuard,
	"TestB032NoTimeLeftIsAValue":                                ownGuard,
	"TestB032AClaimWithoutALeaseCanBeTakenOver":                 "asks a store alone, without a guard or a program",
	"TestB034AHangUpBetweenWorkAndRecordLosesNothing":           ownGuard,
	"TestB040RetryAfterIsClampedWhateverTheClocksSay":           ownGuard,
	"TestRequirement31TheGuardIsAMiddleware":                    ownGuard,
	"TestRequirement63EachRouteMayHaveItsOwnRetention":          ownGuard,
	"TestTheBackendsAreThoseOfTheTable":                         "compares two lists of the tests",
}

const ownHandler = "has its effect outside of the shop, or hours later: the handler is the test's own"

const ownGuard = "takes hold of a moment inside the guard, which for that is in the test's own process and not in a program's"

// reasons say, by the letter in the table, why a case is not for a program, or not
// all of it.
var reasons = map[string]string{
	"a": "the middleware waits for a handler that outlives MaxRuntime, because the framework would give that handler's context to another request: the client gets its 503 when the handler ends",
	"b": "fasthttp sends an answer when its handler has returned, whole: nothing is flushed, nothing breaks off in its middle, and all of it is in memory",
	"c": "fasthttp has no deadline for one answer",
	"d": "fasthttp speaks HTTP/1.1 only",
	"e": "gin sends 200 whatever the handler says once a Hijack was refused",
}

// exception is a case, or the part of it that -test.skip matches, and the reason.
type exception struct{ skip, reason string }

var (
	waits   = exception{"TestRequirement67AHandlerThatIgnoresItsDeadlineHasNoSecondCopy/(memory|sqlite|postgres|redis)$", "a"}
	hijacks = exception{"TestB038HoweverAHandlerAnswersItsKeyIsFree/.*/answer=hijack", "e"}
)

// except says which cases are not for which programs.
var except = map[string][]exception{
	"echo, middleware": {waits},
	"gin":              {hijacks},
	"gin, middleware":  {waits, hijacks},
	"fiber": {
		waits,
		{"TestB047AStreamedAnswerIsCompletedWithoutItsBody/(memory|sqlite|postgres|redis)$", "b"},
		{"TestB059AHugeAnswerCostsNoMemory", "b"},
		{"TestHalfAnAnswerIsNotKept", "b"},
		{"TestAnAnswerThatAnUpstreamBreaksOffIsNotKept", "b"},
		{"TestB031AConnectionThatTimedOutDoesNotLoseTheAnswer", "c"},
		{"TestB067TheHeadersNameHasNoCaseAndItsValueHas", "d"},
	},
}

// pair is a case on a store.
type pair struct{ test, store string }

func (p pair) String() string { return p.test + " on " + p.store }

// choice is what a program is asked, and with the race detector or without.
type choice struct {
	pair
	raced bool
}

// everywhere are the cases that each program is asked on every store of theirs: there
// the guard runs a handler twice for one request, and a framework has one context for
// it.
var everywhere = []string{"TestB087EveryIsolationLevelGivesTheSameOutcomes", "TestB089ADeadlockIsResolvedInside"}

// onOne reports whether one program is enough for a case on a store.
func onOne(test, store string, all bool) bool {
	return !all && store != "memory" && !slices.Contains(everywhere, test)
}

// plan says what is run on which program, by its name: on memory each case on each
// program; on every other store where a case runs, on one of them in turn. With all, on
// each. What a framework does with its contexts shows best in memory, so there each case
// has the race detector on three of the programs; on all of them, with all.
func plan(cases []string, all bool) map[string][]choice {
	chosen := map[string][]choice{}
	for i, test := range cases {
		for j, store := range orders.Backends {
			if !slices.Contains(orders.RunsOn(test), store) {
				continue
			}
			var able []program // that are to run it
			for k := range columns {
				p := columns[(i+j+k)%len(columns)]
				if whole, _ := exceptedOn(except[p.name], test, store); !whole {
					able = append(able, p)
				}
			}
			if onOne(test, store, all) {
				able = able[:min(len(able), 1)]
			}
			for k, p := range able {
				chosen[p.name] = append(chosen[p.name], choice{pair{test, store}, store == "memory" && (all || k < 3)})
			}
		}
	}
	return chosen
}

// exceptedOn reports whether a test is excepted on a store, and the reason for that
// or for a part of it that is.
func exceptedOn(list []exception, test, store string) (whole bool, reason string) {
	for _, e := range list {
		parts := strings.Split(e.skip, "/")
		if parts[0] != test {
			continue
		}
		there, whole := true, true
		for _, part := range parts[1:] {
			if aStore.MatchString(part) {
				there = regexp.MustCompile("^(?:" + part + ")").MatchString(store)
			} else if part != ".*" {
				whole = false
			}
		}
		if there {
			return whole, e.reason
		}
	}
	return false, ""
}

// aStore tells the part of a name that is a store's from that of a case.
var aStore = regexp.MustCompile("memory|sqlite|postgres|redis")
