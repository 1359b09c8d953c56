package fault

import (
	"bufio"
	"io"
)

// Would returns the fault that the plan has for such a request, without
// counting it.
func (c *Control) Would(method, path string) Fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := c.plan.find(method, path)
	if i < 0 {
		return Fault{}
	}
	return c.plan.Rules[i].Pick(c.seed, c.counters[i])
}

// ReadRequest reads one request as the proxy does and returns the bytes that it
// would forward.
func ReadRequest(r io.Reader, maxHead int, maxBody int64) (raw, decoded []byte, rest *bufio.Reader, err error) {
	br := bufio.NewReader(r)
	head, err := readHead(br, maxHead)
	if err != nil {
		return nil, nil, br, err
	}
	req, err := parseRequest(head)
	if err != nil {
		return nil, nil, br, err
	}
	decoded, err = req.readBody(br, maxBody)
	return req.bytes(), decoded, br, err
}
