cp "$PROGRAMS/goroutines.go" . && CGO_ENABLED=0 GOFLAGS=-trimpath GOCACHE=${TMPDIR:-/tmp}/truecount-gocache go build -o goroutines goroutines.go
