package quickadd_test

import (
	"fmt"
	"time"

	"github.com/onceward/onceward/planner/internal/quickadd"
)

func ExampleParse() {
	// A Sunday evening, in the person's own zone.
	now := time.Date(2026, time.November, 29, 20, 30, 0, 0, time.FixedZone("Moscow", 3*60*60))
	for _, text := range []string{
		"физика задачи 12-15 завтра",
		"Тренировка каждый понедельник 18:00",
		"essay by friday 6pm",
		"Физика: задачи 12–15",
	} {
		r := quickadd.Parse(text, now)
		fmt.Printf("%s [%v] [%v] [%v]\n", r.Title, r.Due, r.Time, r.Repeat)
		for _, s := range r.Spans {
			fmt.Printf("  %s: %s\n", s.Kind, text[s.Start:s.End])
		}
	}
	// Output:
	// физика задачи 12-15 [2026-11-30] [] []
	//   date: завтра
	// Тренировка [2026-11-30] [18:00] [FREQ=WEEKLY;BYDAY=MO]
	//   repeat: каждый понедельник
	//   time: 18:00
	// essay [2026-12-04] [18:00] []
	//   date: by friday
	//   time: 6pm
	// Физика: задачи 12–15 [] [] []
}
