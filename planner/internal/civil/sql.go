package civil

import (
	"database/sql/driver"
	"fmt"
)

// Value stores a date as TEXT, and the zero Date as NULL (driver.Valuer). An
// invalid date is refused here, so that no unsortable text gets into a column.
func (d Date) Value() (driver.Value, error) {
	if d.IsZero() {
		return nil, nil
	}
	if !d.Valid() {
		return nil, fmt.Errorf("%w: %s is not a day of the calendar", ErrFormat, d)
	}
	return d.String(), nil
}

// Scan reads a date from a TEXT column; NULL is the zero Date (sql.Scanner).
func (d *Date) Scan(src any) error {
	s, null, err := text(src)
	if err != nil || null {
		*d = Date{}
		return err
	}
	*d, err = ParseDate(s)
	return err
}

// Value stores a time as TEXT, and the zero Time as NULL (driver.Valuer).
func (t Time) Value() (driver.Value, error) {
	if t.IsZero() {
		return nil, nil
	}
	return t.String(), nil
}

// Scan reads a time from a TEXT column; NULL is the zero Time (sql.Scanner).
func (t *Time) Scan(src any) error {
	s, null, err := text(src)
	if err != nil || null {
		*t = Time{}
		return err
	}
	*t, err = ParseTime(s)
	return err
}

// text accepts what database/sql drivers hand over for TEXT. A driver that
// turns a DATE column into a time.Time is refused: it has chosen a zone.
func text(src any) (s string, null bool, err error) {
	switch v := src.(type) {
	case nil:
		return "", true, nil
	case string:
		return v, false, nil
	case []byte:
		return string(v), false, nil
	}
	return "", false, fmt.Errorf("%w: a column of type %T is not text", ErrFormat, src)
}
