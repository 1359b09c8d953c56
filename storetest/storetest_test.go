package storetest_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/storetest"
)

// wrongStores lists every wrong store with the one case that must catch it.
var wrongStores = []struct {
	wrong wrong
	fails string
}{
	{"attempts begin at zero", "AbsentKeyIsClaimed"},
	{"the asker's token is reported", "SecondClaimIsReported"},
	{"method and path are forgotten", "FactsAreKept"},
	{"own token is refused", "OwnTokenFindsItsClaim"},
	{"own token is refused after its lease", "OwnTokenFindsItsClaimAfterItsLease"},
	{"own token counts as a take-over", "RepeatIsNoTakeOver"},
	{"own token reopens its answer", "OwnTokenSeesItsAnswer"},
	{"take-over reopens an answer", "CompletedNeverGoesBack"},
	{"scope is ignored", "ScopesAreApart"},
	{"key is cut short", "KeysAreApart"},
	{"mismatch overwrites the fingerprint", "MismatchIsReportedInProgress"},
	{"take-over ignores the fingerprint", "MismatchIsNoTakeOver"},
	{"mismatch reopens an answer", "MismatchIsReportedWhenCompleted"},
	{"fingerprint version is ignored", "FingerprintVersionCounts"},

	{"lease is ignored", "LeaseHolds"},
	{"take-over unasked", "TakeOverIsAskedFor"},
	{"lease left is at least a second", "LeaseOverIsSeen"},
	{"takes over only once", "TakeOverMayHappenAgain"},
	{"attempts are not counted", "TakeOverCountsAttempts"},
	{"take-over has a lease of its own", "TakeOverHasItsOwnLease"},
	{"take-over keeps the old keep", "TakeOverHasItsOwnKeep"},
	{"zero lease is the default", "ZeroLeaseIsOverAtOnce"},
	{"negative lease is for ever", "NegativeLeaseIsOverAtOnce"},
	{"the whole lease is reported", "LeaseLeftIsWhatIsLeft"},
	{"extend never lengthens", "ExtendLengthens"},
	{"extend adds up", "ExtendCountsFromNow"},
	{"extend of zero is no change", "ExtendZeroEndsTheLease"},
	{"extend below zero is no change", "ExtendNegativeEndsTheLease"},
	{"extend needs a lease", "LateOwnerMayExtend"},
	{"extend of nothing is nil", "ExtendOfAbsentIsLost"},
	{"extend of an answer is nil", "ExtendOfCompletedIsLost"},
	{"extend ignores the token", "ExtendNeedsTheToken"},
	{"extend takes the previous token", "DisplacedOwnerCannotExtend"},

	{"hold is ignored", "HoldForbidsTakeOver"},
	{"hold is not reported", "HoldIsReported"},
	{"held claims expire", "HeldNeverBecomesAbsent"},
	{"extend takes the hold away", "HoldIsNeverTakenAway"},
	{"held cannot be completed", "HeldMayBeCompleted"},
	{"held cannot be released", "HeldMayBeReleased"},

	{"complete needs a lease", "LateOwnerMayComplete"},
	{"complete ignores the token", "CompleteNeedsTheToken"},
	{"complete takes the previous token", "DisplacedOwnerCannotComplete"},
	{"complete creates", "CompleteOfAbsentIsLost"},
	{"second complete is lost", "RepeatedCompleteIsNil"},
	{"second complete overwrites", "RepeatedCompleteChangesNothing"},
	{"any token completes an answer", "StrangerCannotCompleteTwice"},
	{"ended claim says taken", "EndedContextIsHonest"},
	{"ended complete says nil", "EndedContextIsHonest"},
	{"ended complete says lost", "EndedContextIsHonest"},

	{"every status is 200", "StatusIsKept"},
	{"the body is text", "BodyBytesAreKept"},
	{"header lines are joined", "HeaderLinesAreKept"},
	{"header names are canonical", "HeaderLinesAreKept"},
	{"an empty answer is none", "EmptyAnswerIsAnAnswer"},
	{"body omitted is forgotten", "BodyOmittedIsKept"},
	{"bodies end at 64 KiB", "LargeAnswerIsKeptWhole"},
	{"the body is aliased", "CallersMemoryIsNotKept"},
	{"the header is aliased", "CallersMemoryIsNotKept"},

	{"release only ends the lease", "ReleasedKeyIsAbsent"},
	{"release goes by key", "ReleaseNeedsTheToken"},
	{"release by a stranger is lost", "ReleaseNeedsTheToken"},
	{"release takes the previous token", "DisplacedOwnerCannotRelease"},
	{"release deletes an answer", "ReleaseOfCompletedIsNoChange"},
	{"release of nothing is lost", "ReleaseOfAbsentIsNil"},

	{"retention only ends by sweep", "RetentionIsJudgedOnRead"},
	{"lease is the retention", "LeaseIsNotRetention"},
	{"retention counts from the claim", "RetentionCountsFromCompletion"},
	{"zero retention is a day", "ZeroRetentionKeepsNothing"},
	{"keep only ends by sweep", "AbandonedClaimEndsAfterKeep"},
	{"negative keep is zero", "NegativeKeepIsForever"},
	{"extend does not move keep", "ExtendMovesKeep"},
	{"complete revives what is absent", "AbsentOwnerCannotComplete"},
	{"extend revives what is absent", "AbsentOwnerCannotExtend"},
	{"take-over restarts the age", "AgeCountsFromTheFirstClaim"},
	{"age counts from the claim", "AgeCountsFromCompletion"},

	{"sweep deletes nothing", "SweepDeletesWhatIsAbsent"},
	{"sweep forgets the abandoned", "SweepDeletesWhatIsAbsent"},
	{"sweep deletes what is not leased", "SweepKeepsTheLiving"},
	{"sweep goes by the minute", "SweepKeepsTheLiving"},
	{"sweep goes by the first end of a claim", "SweepKeepsTheLiving"},
	{"sweep knows no limit", "SweepObeysItsLimit"},

	{"claim checks, then sets", "RacersGetOneClaim"},
	{"take-over checks, then sets", "RacersTakeOverOnce"},
	{"complete checks, then sets", "CompleteOrTakeOver"},
	{"answers share a ring", "ManyKeysKeepTheirAnswers"},

	{"commit loses the work", "TransactKeepsBoth"},
	{"abort keeps the work", "TransactAbortKeepsNothing"},
	{"abort keeps the key", "TransactAbortKeepsNothing"},
	{"undo keeps the work", "TransactUndoKeepsTheAnswer"},
	{"undo keeps nothing", "TransactUndoKeepsTheAnswer"},
	{"an error with a verdict is committed", "TransactErrorKeepsNothing"},
	{"errors are wrapped", "TransactErrorKeepsNothing"},
	{"a panic commits", "TransactPanicKeepsNothing"},
	{"a panic leaves its claim", "TransactPanicKeepsNothing"},
	{"a duplicate is told nothing", "TransactDuplicateIsReplayed"},
	{"own token transacts again", "TransactOwnTokenSeesItsAnswer"},
	{"transact checks, then sets", "TransactRacersHaveOneEffect"},
	{"answers of a commit are mixed up", "TransactKeysAreApart"},
	{"abort undoes its neighbour", "TransactKeysAreApart"},
	{"transact runs another request", "TransactMismatchIsReported"},
	{"transact forgets method and path", "TransactFactsAreKept"},
	{"the transaction outlives its work", "TransactEndsWithItsWork"},
	{"late statements are swallowed", "TransactEndsWithItsWork"},
	{"transact keeps for a day", "TransactKeepIsRetention"},
	{"transact ignores its context", "TransactObeysAnEndedContext"},
	{"cut work stays", "TransactCutShortIsHonest"},
	{"transact never takes over", "TransactTakesOverTheAbandoned"},
	{"transact restarts the attempts", "TransactTakesOverTheAbandoned"},
	{"transact runs over a live claim", "TransactReportsALiveClaim"},
	{"transact takes over unasked", "TransactTakeOverIsAskedFor"},
	{"transact takes any request over", "TransactTakesNoOtherRequestOver"},
	{"transact ignores a hold", "TransactObeysAHold"},
	{"forget ignores the transaction", "TransactTakesPartInForget"},
	{"forget goes past the transaction", "TransactTakesPartInForget"},
	{"forget in a transaction is lost", "TransactTakesPartInForget"},

	{"look has no answer", "LookFindsTheRecord"},
	{"look claims what is absent", "LookTouchesNothing"},
	{"look renews the lease", "LookTouchesNothing"},
	{"look sees the expired", "LookJudgesExpiry"},

	{"list is in the order of the IDs", "ListGoesThroughAll"},
	{"list begins at its mark", "ListGoesThroughAll"},
	{"list ignores the scope", "ListOfAScope"},
	{"list compares one byte of a prefix", "ListOfAPrefix"},
	{"list ignores the state", "ListOfAState"},
	{"stuck forgets the held", "ListOfTheStuck"},
	{"stuck counts the answered", "ListOfTheStuck"},
	{"list shows the absent", "ListLeavesOutTheAbsent"},
	{"list sends bodies", "ListHasNoBodies"},
	{"list knows no limit of its own", "ListStopsAtAHundred"},

	{"forget leaves claims in progress", "ForgetDeletesTheScope"},
	{"forget leaves what is held", "ForgetDeletesTheScope"},
	{"forget forgets everybody", "ForgetKeepsOtherScopes"},
	{"a forgotten owner may complete", "ForgottenOwnerHasLost"},
	{"forget of nothing is an error", "ForgetOfNothingIsNil"},

	{"a lost claim is a stranger's", "LostClaimIsFoundAgain"},
	{"a lost request is taken for a claim", "LostClaimIsFoundAgain"},
	{"a lost take-over is counted twice", "LostTakeOverIsFoundAgain"},
	{"a lost extend is a lost claim", "LostExtendIsRepeated"},
	{"a lost extend is taken for done", "LostExtendIsRepeated"},
	{"a lost complete is a lost claim", "LostCompleteIsFoundAgain"},
	{"a lost complete is taken for done", "LostCompleteIsFoundAgain"},
	{"a lost release is taken for done", "LostReleaseIsRepeated"},
	{"a lost release is repeated by key", "LostReleaseIsRepeated"},
	{"a lost transact runs again", "LostTransactHasOneEffect"},
	{"a lost transact is taken for done", "LostTransactHasOneEffect"},
}

func TestTheContractInPlainCodePasses(t *testing.T) {
	storetest.Run(t, wrongConfig(""))
}

// Each wrong store fails its own case and no other: a failure names the fault.
// What is wrong in the Store itself may show in the optional powers too, and what is
// wrong over a sound connection over one that fails.
func TestEachWrongStoreFailsExactlyItsCase(t *testing.T) {
	for _, w := range wrongStores {
		t.Run(string(w.wrong), func(t *testing.T) {
			cfg := wrongConfig(w.wrong)
			var failed []string
			basic, sound := !has(w.fails, storetest.Case.Optional), !has(w.fails, storetest.Case.Faulty)
			for _, c := range storetest.Cases() {
				rec := runRecorded(t, c, cfg)
				if !rec.failed {
					continue
				}
				if basic && c.Optional() || sound && c.Faulty() {
					continue
				}
				failed = append(failed, c.Name)
				if !strings.Contains(rec.log.String(), c.Explain) {
					t.Errorf("the failure of %s does not print its explanation", c.Name)
				}
				if c.Name != w.fails {
					t.Logf("%s: %s", c.Name, rec.log.String())
				}
			}
			if !slices.Equal(failed, []string{w.fails}) {
				t.Errorf("failed %q, want exactly %q", failed, w.fails)
			}
		})
	}
}

// has says that the case of this name has the property.
func has(name string, property func(storetest.Case) bool) bool {
	return slices.ContainsFunc(storetest.Cases(), func(c storetest.Case) bool { return c.Name == name && property(c) })
}

// A case that no wrong store fails could be one that cannot fail.
func TestEachCaseIsFailedByAWrongStore(t *testing.T) {
	caught := map[string]bool{}
	for _, w := range wrongStores {
		caught[w.fails] = true
	}
	names := map[string]bool{}
	for _, c := range storetest.Cases() {
		if !caught[c.Name] {
			t.Errorf("no wrong store fails %s", c.Name)
		}
		if names[c.Name] || c.Explain == "" {
			t.Errorf("case %s has its name twice or no explanation", c.Name)
		}
		names[c.Name] = true
	}
	for name := range caught {
		if !names[name] {
			t.Errorf("%s is no case", name)
		}
	}
}

// A store without an optional power fails loudly unless it says that it has none.
func TestAMissingPowerIsSaid(t *testing.T) {
	type plain struct{ onceward.Store }
	cfg := wrongConfig("")
	cfg.New = func(testing.TB) onceward.Store { return plain{newWrong("")} }
	cfg.Faulty = func(_ testing.TB, s onceward.Store) (onceward.Store, storetest.Lose) {
		l := &losing{wrongStore: s.(plain).Store.(*wrongStore)}
		return plain{l}, l.lose
	}
	cfg.Effects = func(testing.TB, onceward.Store) int { return 0 }
	said := map[string]int{}
	for _, c := range storetest.Cases() {
		rec := runRecorded(t, c, cfg)
		if !rec.failed {
			continue
		}
		_, flag, ok := strings.Cut(rec.log.String(), "Config.No")
		if !ok {
			t.Errorf("%s does not tell how to say it: %s", c.Name, rec.log.String())
			continue
		}
		flag, _, _ = strings.Cut(flag, "\n")
		said[flag]++
	}
	for flag, least := range map[string]int{"Sweeper": 3, "Transactor": 15, "Looker": 3, "Lister": 6, "Forgetter": 4} {
		if said[flag] < least {
			t.Errorf("%d cases failed for No%s, want at least %d: %v", said[flag], flag, least, said)
		}
	}
	cfg.NoSweeper, cfg.NoTransactor, cfg.NoLooker, cfg.NoLister, cfg.NoForgetter = true, true, true, true, true
	storetest.Run(t, cfg)
}

// Without the hooks nobody could see what a transaction left behind.
func TestATransactorNeedsTheHooks(t *testing.T) {
	cfg := wrongConfig("")
	cfg.Effects = nil
	failed := 0
	for _, c := range storetest.Cases() {
		if rec := runRecorded(t, c, cfg); rec.failed {
			failed++
			if !strings.Contains(rec.log.String(), "Config.Work and Config.Effects") {
				t.Errorf("%s: %s", c.Name, rec.log.String())
			}
		}
	}
	if failed < 15 {
		t.Errorf("%d cases failed, want those about Transact", failed)
	}
}

// Without a way to lose a message nobody could see what its loss leaves behind, and a
// way that loses none is none.
func TestLostConnectionsNeedTheHook(t *testing.T) {
	never := func(storetest.Loss, int) func() bool { return func() bool { return false } }
	for want, faulty := range map[string]func(testing.TB, onceward.Store) (onceward.Store, storetest.Lose){
		"Config.NoFaults":  nil,
		"does not do what": func(_ testing.TB, s onceward.Store) (onceward.Store, storetest.Lose) { return s, never },
		"no end of messages": func(_ testing.TB, s onceward.Store) (onceward.Store, storetest.Lose) {
			return s, func(storetest.Loss, int) func() bool { return func() bool { return true } }
		},
	} {
		cfg := wrongConfig("")
		cfg.Faulty = faulty
		failed := 0
		for _, c := range storetest.Cases() {
			rec := runRecorded(t, c, cfg)
			if rec.failed != c.Faulty() || rec.failed && !strings.Contains(rec.log.String(), want) {
				t.Errorf("%s: failed %v, want %q: %s", c.Name, rec.failed, want, rec.log.String())
			}
			if rec.failed {
				failed++
			}
		}
		if failed < 6 {
			t.Errorf("%s: %d cases failed", want, failed)
		}
	}
}

// Real time is another way through the suite: the same store passes it there.
func TestRealTimePasses(t *testing.T) {
	cfg := wrongConfig("")
	cfg.FakeTime = false
	storetest.Run(t, cfg)
}

// What a stranger sees: a wrong store under go test prints the explanation.
func TestAFailureIsPrinted(t *testing.T) {
	if os.Getenv("STORETEST_WRONG") != "" {
		storetest.Run(t, wrongConfig(wrong(os.Getenv("STORETEST_WRONG"))))
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestAFailureIsPrinted$")
	cmd.Env = append(os.Environ(), "STORETEST_WRONG=release goes by key")
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatalf("a wrong store passed:\n%s", out)
	}
	for _, want := range []string{
		"--- FAIL: TestAFailureIsPrinted/ReleaseNeedsTheToken", "why it matters: released by key alone",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output has no %q:\n%s", want, out)
		}
	}
}

func runRecorded(t *testing.T, c storetest.Case, cfg storetest.Config) *recorder {
	t.Helper()
	var rec *recorder
	synctest.Test(t, func(t *testing.T) {
		rec = &recorder{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.Test(rec, cfg)
		}()
		<-done
	})
	return rec
}

// recorder is a testing.TB that keeps failures to itself. FailNow ends the
// goroutine, as testing's own does.
type recorder struct {
	testing.TB
	mu     sync.Mutex
	failed bool
	log    strings.Builder
}

func (r *recorder) Helper() {}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) Fail() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
}

func (r *recorder) FailNow() {
	r.Fail()
	runtime.Goexit()
}

func (r *recorder) Logf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(&r.log, format+"\n", args...)
}

func (r *recorder) Log(args ...any)                   { r.Logf("%s", fmt.Sprintln(args...)) }
func (r *recorder) Errorf(format string, args ...any) { r.Logf(format, args...); r.Fail() }
func (r *recorder) Error(args ...any)                 { r.Log(args...); r.Fail() }
func (r *recorder) Fatalf(format string, args ...any) { r.Logf(format, args...); r.FailNow() }
func (r *recorder) Fatal(args ...any)                 { r.Log(args...); r.FailNow() }
