// Command go-pipeline measures Redis servers through redigo, as a Go program meets them: SET and
// GET in batches of 10, 100 and 1,000, pipelined (Send, Flush, Receive) and one by one (Do).
//
// The targets are servers that run already, and miniredis, which runs in this process: its
// allocations are in B/op and allocs/op, as they are in a test that uses it. Each round measures
// every row on every target before the next round begins, because a machine's speed drifts by more
// than what is to be measured; the order of the targets changes from round to round.
//
// Output is in Go's benchmark format, one operation being one batch, so that benchstat reads it;
// -json names a file that gets the same numbers.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
)

const valueBytes = 64

var batches = []int{10, 100, 1000}

// target is a server by the name under which it is reported.
type target struct {
	name    string
	network string
	address string
}

// row is one measurement: what is done, so many times in a batch, and how it is sent.
type row struct {
	operation   string
	batch       int
	isPipelined bool
}

// sample is what one measurement came to; numbers are per batch.
type sample struct {
	Target      string  `json:"target"`
	Operation   string  `json:"operation"`
	Batch       int     `json:"batch"`
	Mode        string  `json:"mode"`
	Round       int     `json:"round"`
	Iterations  int     `json:"iterations"`
	NsPerBatch  float64 `json:"ns_per_batch"`
	BytesPerOp  int64   `json:"bytes_per_batch"`
	AllocsPerOp int64   `json:"allocations_per_batch"`
}

func main() {
	testing.Init()
	var targets targetList
	flag.Var(&targets, "target", "name=network:address, as in redis-tcp=tcp:127.0.0.1:6379; may be repeated")
	rounds := flag.Int("rounds", 5, "times that each row is measured on each target")
	benchtime := flag.String("benchtime", "200ms", "how long one measurement takes, or its batches as in 100x")
	jsonPath := flag.String("json", "", "file for the numbers")
	flag.Parse()
	if err := run(targets, *rounds, *benchtime, *jsonPath); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(targets []target, rounds int, benchtime, jsonPath string) error {
	if err := flag.Set("test.benchtime", benchtime); err != nil {
		return fmt.Errorf("-benchtime: %w", err)
	}
	inProcess, err := miniredis.Run()
	if err != nil {
		return fmt.Errorf("starting miniredis: %w", err)
	}
	defer inProcess.Close()
	targets = append(targets, target{name: "miniredis", network: "tcp", address: inProcess.Addr()})
	fmt.Printf("goos: %s\ngoarch: %s\npkg: go-pipeline\n", runtime.GOOS, runtime.GOARCH)
	var samples []sample
	for round := 0; round < rounds; round++ {
		for _, row := range rows() {
			for offset := range targets {
				target := targets[(round+offset)%len(targets)]
				sample, err := measure(target, row, round)
				if err != nil {
					return fmt.Errorf("%s on %s: %w", row.name(), target.name, err)
				}
				samples = append(samples, sample)
			}
		}
	}
	return write(jsonPath, samples)
}

func rows() []row {
	var rows []row
	for _, operation := range []string{"Set", "Get"} {
		for _, batch := range batches {
			for _, isPipelined := range []bool{true, false} {
				rows = append(rows, row{operation, batch, isPipelined})
			}
		}
	}
	return rows
}

func (r row) mode() string {
	if r.isPipelined {
		return "pipelined"
	}
	return "one-by-one"
}

func (r row) name() string {
	return fmt.Sprintf("Benchmark%s/batch=%d/mode=%s", r.operation, r.batch, r.mode())
}

// measure runs the row's batches on the target until they have taken the time of -benchtime.
func measure(target target, row row, round int) (sample, error) {
	connection, err := redis.Dial(target.network, target.address)
	if err != nil {
		return sample{}, fmt.Errorf("connecting: %w", err)
	}
	defer connection.Close()
	requests := requestsOf(row)
	if err := load(connection, row.batch); err != nil {
		return sample{}, fmt.Errorf("loading the keys: %w", err)
	}
	var failure error
	result := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			if row.isPipelined {
				failure = pipelined(connection, row, requests)
			} else {
				failure = oneByOne(connection, row, requests)
			}
			if failure != nil {
				b.FailNow()
			}
		}
	})
	if failure != nil {
		return sample{}, failure
	}
	name := fmt.Sprintf("%s/target=%s-%d", row.name(), target.name, runtime.GOMAXPROCS(0))
	fmt.Printf("%s\t%s\t%s\n", name, result.String(), result.MemString())
	return sample{
		Target:      target.name,
		Operation:   strings.ToUpper(row.operation),
		Batch:       row.batch,
		Mode:        row.mode(),
		Round:       round,
		Iterations:  result.N,
		NsPerBatch:  float64(result.T.Nanoseconds()) / float64(result.N),
		BytesPerOp:  result.AllocedBytesPerOp(),
		AllocsPerOp: result.AllocsPerOp(),
	}, nil
}

// requestsOf returns the arguments of each request of a batch, made once: what is measured is the
// client and the server, not the making of keys.
func requestsOf(row row) [][]interface{} {
	value := strings.Repeat("x", valueBytes)
	requests := make([][]interface{}, row.batch)
	for index := range requests {
		requests[index] = []interface{}{key(index)}
		if row.operation == "Set" {
			requests[index] = append(requests[index], value)
		}
	}
	return requests
}

func key(index int) string {
	return fmt.Sprintf("key:%04d", index)
}

// load sets every key that the row names, so that GET finds what it asks for.
func load(connection redis.Conn, count int) error {
	row := row{operation: "Set", batch: count, isPipelined: true}
	return pipelined(connection, row, requestsOf(row))
}

func pipelined(connection redis.Conn, row row, requests [][]interface{}) error {
	command := strings.ToUpper(row.operation)
	for _, arguments := range requests {
		if err := connection.Send(command, arguments...); err != nil {
			return fmt.Errorf("sending: %w", err)
		}
	}
	if err := connection.Flush(); err != nil {
		return fmt.Errorf("flushing: %w", err)
	}
	for range requests {
		reply, err := connection.Receive()
		if err := check(row, reply, err); err != nil {
			return err
		}
	}
	return nil
}

func oneByOne(connection redis.Conn, row row, requests [][]interface{}) error {
	command := strings.ToUpper(row.operation)
	for _, arguments := range requests {
		reply, err := connection.Do(command, arguments...)
		if err := check(row, reply, err); err != nil {
			return err
		}
	}
	return nil
}

// check tells whether the reply is what the row is due.
func check(row row, reply interface{}, err error) error {
	if err != nil {
		return fmt.Errorf("receiving: %w", err)
	}
	switch value := reply.(type) {
	case string:
		if row.operation == "Set" && value == "OK" {
			return nil
		}
	case []byte:
		if row.operation == "Get" && len(value) == valueBytes {
			return nil
		}
	}
	return fmt.Errorf("the reply is %v", reply)
}

func write(path string, samples []sample) error {
	if path == "" {
		return nil
	}
	text, err := json.MarshalIndent(samples, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the numbers: %w", err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the numbers: %w", err)
	}
	return nil
}

// targetList collects the targets of the command line.
type targetList []target

func (l *targetList) String() string {
	return fmt.Sprint(*l)
}

func (l *targetList) Set(text string) error {
	name, rest, hasName := strings.Cut(text, "=")
	network, address, hasAddress := strings.Cut(rest, ":")
	if !hasName || !hasAddress {
		return fmt.Errorf("%q is not name=network:address", text)
	}
	*l = append(*l, target{name: name, network: network, address: address})
	return nil
}
