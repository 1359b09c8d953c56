package fault

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Mode is the kind of one [Fault].
type Mode string

// The modes. Those that end in a status (502, 503-after, …) share [Status]:
// their text form is the number itself.
const (
	// Pass carries the request and its answer untouched.
	Pass Mode = "pass"
	// Refuse resets the connection as soon as the request's head says which
	// rule it falls under. Nothing is forwarded. "offline" is another name.
	Refuse Mode = "refuse"
	// Blackhole reads the request and never answers. Nothing is forwarded. It
	// ends, by a reset, when the client leaves, when the plan or the mode is
	// changed, or after [Config].Hold; with a duration of its own
	// ("blackhole:5s") it lasts that long and no change ends it.
	Blackhole Mode = "blackhole"
	// HalfRequest forwards the head and half of the body (half of the head if
	// there is no body), then resets both sides.
	HalfRequest Mode = "half-request"
	// CutAfterForward forwards the request, reads the whole answer, throws it
	// away and resets the client: the work is done and nobody is told.
	CutAfterForward Mode = "cut-after-forward"
	// CutMidBody forwards the request, reads the whole answer, gives the client
	// its head and half of its body (half of its head if it has no body), then
	// resets.
	CutMidBody Mode = "cut-mid-body"
	// Status answers with an error status, as a proxy in front of the
	// application does: without forwarding ("502"), or after the request was
	// forwarded and its answer thrown away ("502-after"). Any status from 400
	// to 599; "503:ra=3" adds a Retry-After of three seconds.
	Status Mode = "status"
	// Duplicate forwards the request, reads the whole answer, forwards the
	// request again, reads that answer too, and gives the client the first.
	Duplicate Mode = "duplicate"
	// DuplicateConcurrent forwards two copies at once: both are written up to
	// their last byte, and the last bytes go out together. The client gets the
	// answer that is whole first.
	DuplicateConcurrent Mode = "duplicate-concurrent"
	// Captive200 answers like a captive portal: 200, text/html, its own page.
	Captive200 Mode = "captive-200"
	// Login302 answers 302 to a login page: "login-302" to [Config].Login,
	// "login-302:/sign-in" to that path.
	Login302 Mode = "login-302"
	// Login200 answers 200 with a login form.
	Login200 Mode = "login-200"
	// WAF403 answers 403 with a firewall's page.
	WAF403 Mode = "waf-403"
	// ResetOnce forwards a request that arrives on a reused keep-alive
	// connection, reads the whole answer, and closes the connection without a
	// word. Browsers and Go's http.Transport then re-send by themselves. A
	// request on a fresh connection passes; in a script the step waits for one
	// on a reused connection.
	ResetOnce Mode = "reset-once"
	// Slow waits before the request goes on ("slow:2s"). It is no fate of its
	// own: it goes with any other mode ("slow:2s+502-after"). What was sent
	// arrives, late, even if the client has left meanwhile.
	Slow Mode = "slow"
	// SlowAfter forwards at once, reads the whole answer and holds it back
	// ("slow-after:2s"). Like Slow it goes with any other mode.
	SlowAfter Mode = "slow-after"
)

// modeNames lists what a text may say, in the order in which people are told.
var modeNames = []string{
	"pass", "refuse", "blackhole[:DURATION]", "half-request", "cut-after-forward", "cut-mid-body",
	"STATUS[:ra=SECONDS]", "STATUS-after[:ra=SECONDS]", "slow:DURATION", "slow-after:DURATION",
	"duplicate", "duplicate-concurrent", "captive-200", "login-302[:/PATH]", "login-200", "waf-403", "reset-once",
}

// Modes returns the forms that [ParseFault] takes, one mode each, in their
// grammar's spelling: "refuse", "STATUS-after[:ra=SECONDS]", ….
func Modes() []string { return append([]string(nil), modeNames...) }

// Fault is what happens to one request. The zero value passes it. It is a plain
// value: two are equal with ==.
type Fault struct {
	Mode Mode // empty: Pass
	// Status and After belong to the mode Status.
	Status int
	After  bool
	// RetryAfter, in seconds, is sent with a Status if HasRetryAfter.
	RetryAfter    int
	HasRetryAfter bool
	// Hold is how long a Blackhole lasts. Zero: until something ends it.
	Hold time.Duration
	// Path is where Login302 sends to. Empty: Config.Login.
	Path string
	// Slow and SlowAfter are the delays before the request and before the
	// answer. They go with any mode.
	Slow, SlowAfter time.Duration
}

// name is the fault's own mode in the text form, without arguments and delays.
func (f Fault) name() string {
	switch {
	case f.Mode == "":
		return string(Pass)
	case f.Mode == Status && f.After:
		return strconv.Itoa(f.Status) + "-after"
	case f.Mode == Status:
		return strconv.Itoa(f.Status)
	}
	return string(f.Mode)
}

// names lists the modes that the fault consists of: its delays and, unless it
// is a pass with delays, its own mode.
func (f Fault) names() []string {
	var out []string
	if f.Slow > 0 {
		out = append(out, string(Slow))
	}
	if f.SlowAfter > 0 {
		out = append(out, string(SlowAfter))
	}
	if n := f.name(); n != string(Pass) || len(out) == 0 {
		out = append(out, n)
	}
	return out
}

// String returns the text form, which [ParseFault] reads back.
func (f Fault) String() string {
	var parts []string
	if f.Slow > 0 {
		parts = append(parts, "slow:"+f.Slow.String())
	}
	if f.SlowAfter > 0 {
		parts = append(parts, "slow-after:"+f.SlowAfter.String())
	}
	own := f.name()
	switch {
	case f.Mode == Status && f.HasRetryAfter:
		own += ":ra=" + strconv.Itoa(f.RetryAfter)
	case f.Mode == Blackhole && f.Hold > 0:
		own += ":" + f.Hold.String()
	case f.Mode == Login302 && f.Path != "":
		own += ":" + f.Path
	}
	if own != string(Pass) || len(parts) == 0 {
		parts = append(parts, own)
	}
	return strings.Join(parts, "+")
}

// forwards says whether the whole request reaches the upstream.
func (f Fault) forwards() bool {
	switch f.Mode {
	case "", Pass, CutAfterForward, CutMidBody, Duplicate, DuplicateConcurrent, ResetOnce:
		return true
	case Status:
		return f.After
	}
	return false
}

// ParseFault reads one fault: a mode with its argument, or several joined by a
// plus sign of which at most one is not a delay: "refuse", "503:ra=3",
// "slow:2s+cut-after-forward".
func ParseFault(s string) (Fault, error) {
	var out Fault
	for part := range strings.SplitSeq(s, "+") {
		name, arg, hasArg := strings.Cut(strings.TrimSpace(part), ":")
		f, err := parseMode(name, arg, hasArg)
		if err != nil {
			return Fault{}, err
		}
		if out, err = out.with(f); err != nil {
			return Fault{}, fmt.Errorf("fault: %q: %w", s, err)
		}
	}
	return out, nil
}

// with joins two faults.
func (f Fault) with(g Fault) (Fault, error) {
	if f.Slow > 0 && g.Slow > 0 || f.SlowAfter > 0 && g.SlowAfter > 0 {
		return Fault{}, errors.New("the same delay twice")
	}
	slow, after := f.Slow+g.Slow, f.SlowAfter+g.SlowAfter
	switch {
	case g.Mode == "":
		g = f
	case f.Mode != "":
		return Fault{}, fmt.Errorf("one request meets one mode, not both %s and %s (only slow and slow-after go with others)", f.name(), g.name())
	}
	g.Slow, g.SlowAfter = slow, after
	return g, nil
}

// parseMode reads one mode. A delay comes back with an empty Mode.
func parseMode(name, arg string, hasArg bool) (Fault, error) {
	f := Fault{Mode: Mode(name)}
	fail := func(format string, args ...any) (Fault, error) {
		return Fault{}, fmt.Errorf("fault: "+format, args...)
	}
	switch Mode(name) {
	case "offline":
		f.Mode = Refuse
		fallthrough
	case Pass, Refuse, HalfRequest, CutAfterForward, CutMidBody, Duplicate, DuplicateConcurrent, Captive200, Login200, WAF403, ResetOnce:
		if hasArg {
			return fail("%s takes no argument, not %q", name, arg)
		}
		return f, nil
	case Slow, SlowAfter, Blackhole:
		if !hasArg && f.Mode == Blackhole {
			return f, nil
		}
		d, err := parseDuration(arg)
		if err != nil {
			return fail("%s: %w", name, err)
		}
		switch f.Mode {
		case Slow:
			return Fault{Slow: d}, nil
		case SlowAfter:
			return Fault{SlowAfter: d}, nil
		}
		f.Hold = d
		return f, nil
	case Login302:
		if hasArg && !validPath(arg) {
			return fail("login-302: %q is no path; write login-302:/login", arg)
		}
		f.Path = arg
		return f, nil
	}
	return parseStatus(name, arg, hasArg)
}

func parseStatus(name, arg string, hasArg bool) (Fault, error) {
	num, after := strings.CutSuffix(name, "-after")
	n, err := strconv.Atoi(num)
	if err != nil || len(num) != 3 {
		return Fault{}, fmt.Errorf("fault: there is no mode %q; the modes are %s", name, strings.Join(modeNames, ", "))
	}
	if n < 400 || n > 599 {
		return Fault{}, fmt.Errorf("fault: status %d: a made-up answer is an error, from 400 to 599", n)
	}
	f := Fault{Mode: Status, Status: n, After: after}
	if hasArg {
		sec, ok := strings.CutPrefix(arg, "ra=")
		ra, err := strconv.Atoi(sec)
		if !ok || err != nil || ra < 0 || sec[0] == '+' {
			return Fault{}, fmt.Errorf("fault: %s takes a Retry-After in whole seconds (%s:ra=3), not %q", name, name, arg)
		}
		f.RetryAfter, f.HasRetryAfter = ra, true
	}
	return f, nil
}

func parseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	switch {
	case s == "":
		return 0, errors.New("how long? write a duration, such as 2s or 300ms")
	case err != nil:
		return 0, fmt.Errorf("%q is no duration; write 2s or 300ms", s)
	case d <= 0:
		return 0, fmt.Errorf("%q: the duration must be more than zero", s)
	}
	return d, nil
}

// validPath keeps to what can stand in a Location header and in a plan's text.
func validPath(s string) bool {
	if !strings.HasPrefix(s, "/") {
		return false
	}
	for _, c := range []byte(s) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`,;+*"<>`, c) >= 0 {
			return false
		}
	}
	return true
}
