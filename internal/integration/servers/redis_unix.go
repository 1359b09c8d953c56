//go:build unix

package servers

import "syscall"

// Pause stops the server (SIGSTOP): its connections stay, and nothing answers.
func (s *RedisServer) Pause(t redisTest) { s.signal(t, syscall.SIGSTOP) }

// Resume lets a paused server go on.
func (s *RedisServer) Resume(t redisTest) { s.signal(t, syscall.SIGCONT) }

func (s *RedisServer) signal(t redisTest, sig syscall.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		t.Fatalf("%v to %s: %v", sig, s.Addr, err)
	}
}
