package orders

import "slices"

// Backends are the stores of the program and the modes of the guard on them, in
// the order of the columns of docs/cases.md.
var Backends = []string{memory, sqlite, postgres, redis, sqliteAtomic, postgresAtomic}

const (
	memory         = "memory"
	sqlite         = "sqlite"
	postgres       = "postgres"
	redis          = "redis"
	sqliteAtomic   = "sqlite-atomic"
	postgresAtomic = "postgres-atomic"
)

// RunsOn says on which of the Backends a test of this package runs. The harness
// asks it, and so does the test of docs/cases.md: what stands there as passed is
// what has run.
func RunsOn(test string) []string {
	if some, ok := only[test]; ok {
		return some
	}
	return Backends
}

// Listed are the tests that RunsOn does not give all Backends.
func Listed() []string {
	var names []string
	for name := range only {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

var (
	none     = []string{}
	handlers = []string{memory, sqlite, postgres, redis} // Guard.Handler
	durable  = Backends[1:]
	served   = []string{postgres, redis, postgresAtomic} // a server stands behind the store
	files    = []string{sqlite, sqliteAtomic}
	pg       = []string{postgres, postgresAtomic}
)

// only are the tests that do not run on all Backends, and why.
var only = map[string][]string{
	// What only one kind of database can show.
	"TestRequirement25WhileAHandlerRunsTheDatabaseIsFree":    {sqlite},
	"TestRequirement20And63ARowTellsWhatWasAskedAndAnswered": files,
	"TestB087EveryIsolationLevelGivesTheSameOutcomes":        pg,
	"TestB089ADeadlockIsResolvedInside":                      {postgresAtomic},
	"TestB094AStateIsOneRowWritten":                          pg,
	// Where the keys are gone with their process there is nothing to hold.
	"TestB033HoldKeepsWhatADeadProcessLeft": durable,
	// One transaction beside another.
	"TestOneSlowTransactionBesideQuickOnes":     {sqliteAtomic, postgresAtomic},
	"TestALineOfSlowTransactionsEndsForEachOne": {sqliteAtomic},
	// A server stands behind the store, and can be gone.
	"TestB097AStoreThatIsGoneBeforeTheClaimIs503":                served,
	"TestB097AStoreThatIsGoneAfterTheWorkLosesAndDoublesNothing": served,
	// Two processes on one store.
	"TestB092TwoHundredOrdersOnTwoProcesses":   files,
	"TestB095ProcessesOfTwoTimeZonesAgree":     durable,
	"TestRequirement68TwoProcessesLoseNothing": {sqlite, postgres, sqliteAtomic, postgresAtomic}, // one ledger for both
	// A transaction has no lease.
	"TestB032AClaimWithoutALeaseCanBeTakenOver": handlers,
	// Where handlers run one after another nobody is told to come back.
	"TestB040RetryAfterIsClampedWhateverTheClocksSay": {memory, sqlite, postgres, redis, postgresAtomic},
	// A store in the test's own hands.
	"TestTheBackendsAreThoseOfTheTable":                         none,
	"TestRequirement31TheGuardIsAMiddleware":                    none,
	"TestRequirement63EachRouteMayHaveItsOwnRetention":          none,
	"TestB007TwoPressesAtOnceCallThePaymentProviderOnce":        none,
	"TestB014ATokenThatTheFirstClickUsedUpIsNoErrorToTheSecond": none,
	"TestB124AFormThatTheBrowserSendsAgainForHoursIsDoneOnce":   none,
	// The guard under test stands in front of the program, over a memory store.
	"TestAClientThatLeavesDoesNotCancelAProxiedRequest": {memory, sqlite},
	"TestAnAnswerThatAnUpstreamBreaksOffIsNotKept":      {memory, sqlite},
	// Slow, and the same on every store but for how it keeps: a sample. On all of
	// them processes are killed at chosen moments by TestB029, TestB030, TestB033
	// and TestB034, and answers lost by TestB010.
	"TestKill9InTheMidstOfManyOrdersLosesAndDoublesNothing":   {memory, sqlite, redis, sqliteAtomic},
	"TestABadNetworkLosesAndDoublesNothing":                   {memory, sqlite, postgresAtomic},
	"TestB063ABodyOverTheLimitIsRefusedBeforeItsKeyIsTaken":   {memory, sqlite, postgresAtomic},
	"TestRequirement23And24FirstBusyThenTheStoredAnswer":      {memory, sqlite, redis, postgresAtomic}, // B008 once more
	"TestGosOwnResendIsTwoEffectsWithoutTheGuardAndOneWithIt": {memory, sqlite, sqliteAtomic, postgresAtomic},
	"TestGosOwnResendOfARequestWithoutABodyIsCaughtToo":       {memory, sqlite, sqliteAtomic, postgresAtomic},
}
