//go:build linux

package sweep

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// moment is what was durable when a victim was struck.
type moment struct {
	record  state
	effects int
}

// outcome is what a client has in the end, once it has repeated its request until
// it was told something final.
type outcome struct {
	effects int
	unknown bool // it was told outcome-unknown, and would be told so again
}

// The rows of the failure matrix in docs/semantics.md.
const (
	rowBeforeClaim  = "dies before the claim is durable"
	rowClaimed      = "dies after the claim, before the work is committed"
	rowWorked       = "dies after the work is committed, before the answer is durable"
	rowCompleted    = "dies after the answer is durable"
	rowStoppedEarly = "stopped before the work is committed, displaced, woken"
	rowStoppedLate  = "stopped after the work is committed, displaced, woken"
)

// matrix is that table: for each row and mode what comes of it.
var matrix = map[string]map[string]outcome{
	rowBeforeClaim:  {rerun: {1, false}, hold: {1, false}, resolve: {1, false}, atomic: {1, false}},
	rowClaimed:      {rerun: {1, false}, hold: {0, true}, resolve: {1, false}, atomic: {1, false}},
	rowWorked:       {rerun: {2, false}, hold: {1, true}, resolve: {1, false}, atomic: {1, false}},
	rowCompleted:    {rerun: {1, false}, hold: {1, false}, resolve: {1, false}, atomic: {1, false}},
	rowStoppedEarly: {rerun: {2, false}, hold: {1, false}, resolve: {2, false}, atomic: {1, false}},
	rowCutCall:      {rerun: {1, false}, hold: {1, false}, resolve: {1, false}, atomic: {1, false}},
	rowCutFailed:    {rerun: {1, false}, hold: {0, true}, resolve: {1, false}, atomic: {1, false}},
	rowCutCommit:    {rerun: {2, false}, hold: {1, true}, resolve: {1, false}, atomic: {1, false}},
	rowOutageShort:  {rerun: {1, false}, hold: {1, false}, resolve: {1, false}, atomic: {1, false}},
	rowOutageLong:   {rerun: {2, false}, hold: {1, true}, resolve: {1, false}, atomic: {1, false}},
	rowStoppedLate:  {rerun: {2, false}, hold: {1, false}, resolve: {1, false}, atomic: {1, false}},
}

// rowOf finds a moment's row; an error is a moment that must not be.
func rowOf(mode, fault string, m moment) (string, error) {
	switch m {
	case moment{absent, 0}:
		return rowBeforeClaim, nil
	case moment{completed, 1}:
		return rowCompleted, nil
	case moment{inProgress, 0}, moment{inProgress, 1}:
		if mode == atomic {
			break // the record and the work appear together, completed
		}
		switch {
		case fault == kill && m.effects == 0:
			return rowClaimed, nil
		case fault == kill:
			return rowWorked, nil
		case m.effects == 0:
			return rowStoppedEarly, nil
		}
		return rowStoppedLate, nil
	}
	return "", fmt.Errorf("the record was %s and there were %d effects, which can never be", m.record, m.effects)
}

// expected is what must come of a moment. Where the stopped process kept everybody
// from writing nobody has displaced it, and it finished by itself.
func expected(mode, fault string, m moment, undisturbed bool) (outcome, error) {
	row, err := rowOf(mode, fault, m)
	if err == nil && fault == stop && undisturbed {
		return outcome{1, false}, nil
	}
	return matrix[row][mode], err
}

// momentOf is what must be durable when a victim has come to a step.
func momentOf(mode, step string) moment {
	switch step {
	case afterClaim, beforeWork:
		if mode != atomic {
			return moment{inProgress, 0}
		}
	case afterWork, beforeComplete:
		if mode != atomic {
			return moment{inProgress, 1}
		}
	case afterComplete, beforeFirstByte, afterFirstByte:
		return moment{completed, 1}
	}
	return moment{absent, 0}
}

// The document and this file say the same.
func TestTheMatrixIsThatOfTheDocument(t *testing.T) {
	text, err := os.ReadFile("../../../docs/semantics.md")
	if err != nil {
		t.Fatal(err)
	}
	var modes []string
	found := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if cells[0] == "the process …" {
			name := map[string]string{"Handler, `Rerun`": rerun, "Handler, `Hold`": hold, "Handler, `Resolve`": resolve, "Atomic": atomic}
			for _, cell := range cells[1:] {
				modes = append(modes, name[cell])
			}
		}
		row, ok := matrix[cells[0]]
		if !ok {
			continue
		}
		if len(cells) != len(modes)+1 {
			t.Fatalf("%q has %d cells for %q", cells[0], len(cells)-1, modes)
		}
		found[cells[0]] = true
		for i, mode := range modes {
			said := strings.TrimPrefix(cells[i+1], "**")
			want := outcome{int(said[0] - '0'), strings.Contains(said, "and *outcome-unknown*")}
			if row[mode] != want {
				t.Errorf("%q, %s: the document says %v, the sweep wants %v", cells[0], mode, want, row[mode])
			}
		}
	}
	if len(modes) != 4 || len(found) != len(matrix) {
		t.Errorf("the document has %d of %d rows, for %q", len(found), len(matrix), modes)
	}
}
