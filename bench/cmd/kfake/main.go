// Command kfake runs franz-go's fake broker, in memory, to be measured beside
// kcoord. It prints its address and runs until it gets SIGTERM or SIGINT.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	port := flag.Int("port", 0, "port on 127.0.0.1; 0 lets the kernel choose")
	flag.Parse()
	options := []kfake.Opt{kfake.NumBrokers(1), kfake.AllowAutoTopicCreation()}
	if *port != 0 {
		options = append(options, kfake.Ports(*port))
	}
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		fmt.Fprintln(os.Stderr, "kfake:", err)
		os.Exit(1)
	}
	defer cluster.Close()
	fmt.Println("listening on", cluster.ListenAddrs()[0])
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	<-stop
}
