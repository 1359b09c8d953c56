package outbox

import (
	"embed"
	"path"
	"sync"
)

// What ships is named, file by file: tests and their helpers stay out of
// everybody's binary.
//
//go:embed sw.js kill.js worker.js engine.js line.js waits.js body.js answer.js heard.js paths.js idb.js respond.js scripts.js
//go:embed page.js ask.js announce.js flight.js forms.js htmx.js intent.js summary.js local.js decide.js queued.js
//go:embed kit.js kit-view.js kit-edit.js kit-leave.js texts.js words.en.js words.ru.js kit.css
var files embed.FS

var contentTypes = map[string]string{
	".js":  "text/javascript; charset=utf-8",
	".css": "text/css; charset=utf-8",
}

// shipped is every embedded file without its comments, compressed once for the
// process.
var shipped = sync.OnceValue(func() map[string]asset {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(err) // compiled in
	}
	assets := map[string]asset{}
	for _, e := range entries {
		body, err := files.ReadFile(e.Name())
		if err != nil {
			panic(err)
		}
		assets[e.Name()] = newAsset(withoutComments(body), contentTypes[path.Ext(e.Name())], scriptPolicy)
	}
	return assets
})
