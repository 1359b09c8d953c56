// Package gateway holds the tests of `onceward gateway` in front of real web
// applications in Python, one in Flask and one in Django (testdata), which know
// nothing of keys. They run under gunicorn, between two bad networks, and are
// killed.
package gateway
