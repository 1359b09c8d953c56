package outbox

import "io/fs"

// Classic is for tests that join modules of their own.
func Classic(files fs.FS, entry string) (string, error) { return classic(files, entry) }
