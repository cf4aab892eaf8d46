// Command ceiling runs one of the two servers that show what the machine
// allows: it answers every frame at once, or, with -journal, when the frame is
// on disk. It prints its address and runs until it gets SIGTERM or SIGINT.
package main

import (
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/kcoord/kcoord/bench/ceiling"
)

func main() {
	var o ceiling.Options
	addr := flag.String("addr", "127.0.0.1:0", "address to listen on")
	flag.StringVar(&o.JournalPath, "journal", "", "file to write frames to, and to sync, before they are answered")
	flag.IntVar(&o.AnswerBytes, "answer-bytes", 8, "length of an answer behind its correlation id")
	flag.Parse()
	if err := run(*addr, o); err != nil {
		fmt.Fprintln(os.Stderr, "ceiling:", err)
		os.Exit(1)
	}
}

func run(addr string, o ceiling.Options) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	server, err := ceiling.New(o)
	if err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-stop
		l.Close()
	}()
	fmt.Println("listening on", l.Addr())
	return server.Serve(l)
}
