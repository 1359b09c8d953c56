package task

import (
	"time"
	"unicode/utf8"

	"github.com/onceward/onceward/planner/internal/quickadd"
)

// Read makes a draft of what a person typed at the moment now, in their zone:
// "алгебра №345 к четвергу", "training every Monday 18:00". Errors wrap
// ErrTitleMissing or ErrTitleLong.
func Read(text string, now time.Time) (Draft, error) {
	p := quickadd.Parse(text, now)
	switch n := utf8.RuneCountInString(p.Title); {
	case n == 0:
		return Draft{}, ErrTitleMissing
	case n > MaxTitle:
		return Draft{}, ErrTitleLong
	}
	return Draft{Title: p.Title, Due: p.Due, At: p.Time, Repeat: p.Repeat}, nil
}
