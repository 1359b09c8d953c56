package outbox

import "io/fs"

// Classic is for tests that join modules of their own.
func Classic(files fs.FS, entry string) (string, error) { return classic(files, entry) }

// WithoutComments is how a script is served, and Doubts what may go wrong with it.
var (
	WithoutComments = withoutComments
	Doubts          = doubts
)
