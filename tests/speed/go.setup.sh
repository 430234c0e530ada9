cp "$PROGRAMS/spin.go" . && CGO_ENABLED=0 GOFLAGS=-trimpath GOCACHE=${TMPDIR:-/tmp}/truecount-gocache go build -o spin spin.go
