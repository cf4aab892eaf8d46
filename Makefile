# One command each for what a contributor does all day.
.PHONY: build test race lint fuzz bench profile soak seeds all

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
bench:   ## the table of rates, start-up times and sizes
	go -C bench run ./cmd/table -check
profile: ## the profile that the compiler optimizes by, on a quiet machine
	go -C bench run ./cmd/profile
soak:    ## real processes killed under load, then the simulator for hours (SOAK=1h SEEDS=100000 FIRST=50000 make soak)
	go test ./broker -run TestKillsUnderLoad -soak $${SOAK:-10m} -timeout 0 -v
	go test ./broker -run TestLinearizableThroughKills -broker.kills 1000 -timeout 0 -v
	$(MAKE) seeds
seeds:   ## the simulator for hours (SEEDS=100000 FIRST=50000 make seeds)
	go test ./internal/sim -run TestLinearizable -sim.first $${FIRST:-20000} -sim.histories 2000 -timeout 0 -v
	go test ./internal/sim -run TestSeeds -sim.first $${FIRST:-20000} -sim.seeds $${SEEDS:-500000} -sim.events 4000 -sim.each 1000 -timeout 0 -v
all:     ## everything that CI runs
	.ci/run
