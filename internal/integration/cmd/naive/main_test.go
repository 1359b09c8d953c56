package main

import (
	"testing"
	"time"
)

func TestATrainingIsOnTheNextMonday(t *testing.T) {
	for today, want := range map[string]string{"2026-11-29": "2026-11-30", "2026-11-30": "2026-11-30", "2026-12-01": "2026-12-07", "2026-12-05": "2026-12-07"} {
		day, err := time.Parse(time.DateOnly, today)
		if err != nil {
			t.Fatal(err)
		}
		if got := monday(day).Format(time.DateOnly); got != want {
			t.Errorf("on %s: %s instead of %s", today, got, want)
		}
	}
}
