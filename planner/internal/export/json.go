package export

import (
	"encoding/json"
	"time"

	"github.com/onceward/onceward/planner/internal/task"
)

// The file's form. A name in it never changes its meaning; what is new gets a new one.
type file struct {
	Format   string     `json:"format"` // "onceward-planner/1"
	Exported string     `json:"exported_at"`
	Zone     string     `json:"zone"`
	From     string     `json:"from,omitempty"`
	To       string     `json:"to,omitempty"`
	Tasks    []fileTask `json:"tasks"`
}

type fileTask struct {
	ID      string `json:"id"`
	Title   string `json:"title"`
	Note    string `json:"note,omitempty"`
	Date    string `json:"date,omitempty"` // by the calendar where the person is
	Time    string `json:"time,omitempty"`
	Repeat  string `json:"repeat,omitempty"` // RFC 5545's words
	Series  string `json:"series,omitempty"`
	Done    string `json:"done_at,omitempty"`
	Deleted string `json:"deleted_at,omitempty"`
	Created string `json:"created_at"`
	Changed string `json:"changed_at"`
}

// document writes tasks as JSON that people can read too.
func document(o order, now time.Time, tasks []task.Whole) ([]byte, error) {
	f := file{Format: "onceward-planner/1", Exported: moment(now), Zone: o.Zone, Tasks: []fileTask{}}
	if o.Part == Week {
		f.From, f.To = o.From.String(), o.To.String()
	}
	for _, t := range tasks {
		f.Tasks = append(f.Tasks, fileTask{
			ID: t.ID, Title: t.Title, Note: t.Note, Date: t.Due.String(), Time: t.At.String(),
			Repeat: t.Repeat.String(), Series: t.Series, Done: moment(t.DoneAt), Deleted: moment(t.DeletedAt),
			Created: moment(t.CreatedAt), Changed: moment(t.UpdatedAt),
		})
	}
	return json.MarshalIndent(f, "", "  ")
}

func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
