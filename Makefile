# One command each for what a contributor does all day.
.PHONY: build test all race lint fuzz bench

build:   ## the binary, static and stripped, in bin/
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o bin/kcoord ./cmd/kcoord
test:    ## fast tests
	go test ./...
race:    ## fast tests under the race detector
	go test -race ./...
lint:    ## formatting, vet, staticcheck
	.ci/run format && .ci/run vet && .ci/run staticcheck
fuzz:    ## every fuzz target for a while (FUZZTIME=1m make fuzz)
	.ci/run fuzz
all:     ## everything that CI runs
	.ci/run
