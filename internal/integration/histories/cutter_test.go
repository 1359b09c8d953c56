package histories

import (
	"bufio"
	"fmt"
	"net"
	"testing"
)

// What a Cutter loses is the answer, never the question.
func TestACutterLosesTheAnswerAfterTheQuestionHasArrived(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	heard := make(chan string, 100)
	go func() {
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					heard <- lines.Text()
					fmt.Fprintln(conn, "yes,", lines.Text())
				}
			}()
		}
	}()
	cutter, err := NewCutter(server.Addr().String(), seed)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(question string) (string, error) {
		conn, err := net.Dial("tcp", cutter.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintln(conn, question)
		return bufio.NewReader(conn).ReadString('\n')
	}
	if answer, err := ask("one"); err != nil || answer != "yes, one\n" {
		t.Errorf("uncut: %q, %v", answer, err)
	}
	cutter.Cut(1)
	if answer, err := ask("two"); err == nil || answer != "" {
		t.Errorf("cut: %q, %v", answer, err)
	}
	cutter.Cut(0)
	if answer, err := ask("three"); err != nil || answer != "yes, three\n" {
		t.Errorf("uncut again: %q, %v", answer, err)
	}
	if err := cutter.Close(); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"one", "two", "three"} {
		if got := <-heard; got != want {
			t.Errorf("the server heard %q, want %q", got, want)
		}
	}
	if cuts := len(cutter.Cuts()); cuts != 1 {
		t.Errorf("%d cuts, want 1", cuts)
	}
}
