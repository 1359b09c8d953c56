package repeat_test

import (
	"fmt"
	"time"

	"github.com/onceward/onceward/planner/internal/civil"
	"github.com/onceward/onceward/planner/internal/repeat"
)

// A training of Monday 7 September is ticked in November: the next one is in
// the future.
func ExampleNext() {
	rule := repeat.EveryWeek(repeat.DaysOf(time.Monday))
	occurrence := civil.Date{Year: 2026, Month: time.September, Day: 7}
	today := civil.Date{Year: 2026, Month: time.November, Day: 29}
	fmt.Println(rule)
	fmt.Println(repeat.Next(rule, occurrence, civil.Max(occurrence, today)))
	// Output:
	// FREQ=WEEKLY;BYDAY=MO
	// 2026-11-30
}
