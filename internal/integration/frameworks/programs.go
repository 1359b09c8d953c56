package frameworks

// program is one of examples/frameworks, in one of the ways it shows. As name is
// its column in docs/frameworks.md.
type program struct {
	name, command, mount string
	stores               []string // where it is tested
}

// stores are where the guard's own behaviour and what a framework could break of it
// both show: a commit that is a file's, and a transaction that has to be found in the
// request's context.
var stores = []string{"memory", "sqlite", "sqlite-atomic"}

var programs = []program{
	{"chi", "chi", "router", stores},
	{"chi, one router", "chi", "middleware", stores[:1]},
	{"echo", "echo", "router", stores},
	{"echo, middleware", "echo", "middleware", stores[:1]},
	{"gin", "gin", "router", stores},
	{"gin, middleware", "gin", "middleware", stores[:1]},
	{"fiber", "fiber", "", stores},
}

// cases are the tests of internal/integration/orders that show what a framework
// could break.
var cases = []string{
	// Many at once, each in a context that the framework uses again.
	"TestB007TwoPressesAtOncePayOnce",
	"TestB008ASecondRequestWhileTheFirstRunsIsNotRunAgain",
	"TestB019WaitersOfASlowFirstRequestAllGetItsAnswer",
	"TestB056AKeyReleasedInMidWaitIsClaimedAgain",
	"TestRequirement67AHandlerThatIgnoresItsDeadlineHasNoSecondCopy",
	// What is read of a request, before the handler reads it again.
	"TestB013ADoubleClickWithoutJavaScriptMakesOneOrder",
	"TestB061AMultipartFormIsTheSameUnderAnotherBoundary",
	"TestB063ABodyWithoutALengthIsComparedWhole",
	"TestHalfARequestTakesNoKey",
	"TestB067TheHeadersNameHasNoCaseAndItsValueHas",
	"TestB068OneRuleForEveryWayToWriteAKey",
	"TestB053WithoutAKeyNothingIsShared",
	"TestB055ATamperedRetryGetsNoAnswerOfTheFirst",
	"TestB079OneKeyOnAnotherPathMethodOrQueryIsRefused",
	// Errors that a handler returns.
	"TestB041TheReplayHasTheFirstAnswersStatus",
	"TestB043WhatSpeaksOfTheMomentIsNotKept",
	"TestB044ACorrectedRequestNeverGetsTheStaleRefusal",
	"TestRequirement27AfterAServerErrorTheRepeatIsARealOne",
	"TestRequirement28AServerErrorAfterTheWorkIsAVisibleDouble",
	"TestRequirement69EveryRouteIsReplayedUnderItsKey",
	// Panics, and something that recovers from them.
	"TestB002ABuyerWhosePageBrokeAfterTheOrderGetsThatOrder",
	"TestB029AfterAPanicTheRetryRuns",
	"TestB037APanicAfterTheWorkFreesTheKey",
	// The answer, through what the framework puts around its writer.
	"TestB031AConnectionThatTimedOutDoesNotLoseTheAnswer",
	"TestB038HoweverAHandlerAnswersItsKeyIsFree",
	"TestB046EveryKindOfBodyIsReplayedByteForByte",
	"TestB047AnAnswerInSeveralWritesIsReplayedWhole",
	"TestB047AStreamedAnswerIsCompletedWithoutItsBody",
	"TestB049TheReplayHasTheHandlersHeaders",
	"TestB050TheReplayHasNothingOfTheFirstCallersSession",
	"TestB052HeaderLinesAreReplayedByteForByte",
	"TestB058OnlyAReplaySaysThatItIsOne",
	// Who asks, and who has left.
	"TestB035AClientThatHangsUpDoesNotStopTheHandler",
	"TestB077AnotherUsersKeyIsAnotherKey",
	"TestRequirement32AGuardThatMeetsNoUserFailsLoudly",
	"TestRequirement61RepeatedPutDeleteAndCancelChangeNothing",
	// The process ends.
	"TestB034WhatWasRecordedIsReplayedByTheNextProcess",
	"TestSIGTERMFinishesWhatRuns",
}

// reasons say, by the letter in the table, why a case is not for a program, or not
// all of it.
var reasons = map[string]string{
	"a": "the middleware waits for a handler that outlives MaxRuntime, because the framework would give that handler's context to another request: the client gets its 503 when the handler ends",
	"b": "fasthttp sends an answer when its handler has returned: nothing is flushed, and so nothing is kept without its body",
	"c": "fasthttp has no deadline for one answer",
	"d": "fasthttp speaks HTTP/1.1 only",
	"e": "echo's Flush panics where nothing can be flushed, as in a transaction: flush through http.NewResponseController(w.Unwrap()) and look at the error",
	"f": "gin sends 200 whatever the handler says once a Hijack was refused",
	"g": "not run in a transaction, whose limit is the database's and short: whatever the framework, it says nothing of it",
}

// exception is a case, or the part of it that -test.skip matches, and the reason.
type exception struct{ skip, reason string }

var (
	waits   = exception{"TestRequirement67AHandlerThatIgnoresItsDeadlineHasNoSecondCopy/(memory|sqlite)$", "a"}
	short   = exception{"TestRequirement67AHandlerThatIgnoresItsDeadlineHasNoSecondCopy/sqlite-atomic", "g"}
	hijacks = exception{"TestB038HoweverAHandlerAnswersItsKeyIsFree/.*/answer=hijack", "f"}
)

// except says which cases are not for which programs.
var except = map[string][]exception{
	"chi": {short},
	"echo": {
		short,
		{"TestB038HoweverAHandlerAnswersItsKeyIsFree/sqlite-atomic/flush=1", "e"},
		{"TestB047AStreamedAnswerIsCompletedWithoutItsBody/sqlite-atomic", "e"},
	},
	"echo, middleware": {waits},
	"gin":              {short, hijacks},
	"gin, middleware":  {waits, hijacks},
	"fiber": {
		{"TestRequirement67AHandlerThatIgnoresItsDeadlineHasNoSecondCopy", "a"},
		{"TestB047AStreamedAnswerIsCompletedWithoutItsBody/(memory|sqlite)$", "b"},
		{"TestB031AConnectionThatTimedOutDoesNotLoseTheAnswer", "c"},
		{"TestB067TheHeadersNameHasNoCaseAndItsValueHas", "d"},
	},
}
