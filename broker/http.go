package broker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"
)

// httpTimeout bounds how long a client of the HTTP side may take for its headers.
const httpTimeout = 10 * time.Second

// serveHTTP serves health checks and metrics if Options.HTTP asks for it.
func (b *Broker) serveHTTP() error {
	if b.options.HTTP == "" {
		return nil
	}
	l, err := b.options.Listen("tcp", b.options.HTTP)
	if err != nil {
		return fmt.Errorf("listener of the HTTP side: %w", err)
	}
	b.httpAddr = l.Addr().String()
	server := &http.Server{Handler: b.httpHandler(), ReadHeaderTimeout: httpTimeout}
	b.onStop(func() { server.Shutdown(closedContext()) })
	b.options.Executor.Go("http", func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			b.fail(fmt.Errorf("HTTP side: %w", err))
		}
	})
	return nil
}

// closedContext has ended: connections in use are not waited for.
func closedContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// HTTPAddr is the address of the HTTP side; empty if there is none.
func (b *Broker) HTTPAddr() string { return b.httpAddr }

func (b *Broker) httpHandler() http.Handler {
	mux := http.NewServeMux()
	say := func(w http.ResponseWriter, status int, text string) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(status)
		fmt.Fprintln(w, text)
	}
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		if err := b.Err(); err != nil {
			say(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		say(w, http.StatusOK, "ok")
	})
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if problems := b.Problems(); len(problems) > 0 {
			say(w, http.StatusServiceUnavailable, strings.Join(problems, "\n"))
			return
		}
		say(w, http.StatusOK, "ready")
	})
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		w.Write(b.metricsPage())
	})
	if b.options.Profiling {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}
