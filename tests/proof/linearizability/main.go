// Command linearizability checks recorded histories of a registry with Porcupine.
//
// It reads a history from standard input in the format of docs/proof.md, and writes one line of JSON for each
// part that is not linearizable. The exit status is 0 if all parts are, 1 if some are not, and 2 if the input is no
// history or the time was up.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

const format = "registrar-history/1"

// Operation is one line of a history. Absent numbers are 0; offsets that may be absent are pointers.
type Operation struct {
	Op      string `json:"op"`
	Subject string `json:"subject"`
	Began   int64  `json:"began"`
	Ended   int64  `json:"ended"`
	Outcome string `json:"outcome"`
	Code    int    `json:"code"`
	// What was asked for.
	Schema string `json:"schema"`
	ID     int    `json:"id"`
	Value  string `json:"value"`
	At     *int   `json:"at"`
	After  int    `json:"after"`
	// What was answered, besides Schema, ID and Value.
	Version  int     `json:"version"`
	Versions []int   `json:"versions"`
	Next     int     `json:"next"`
	Events   []Event `json:"events"`
	Offset   *int    `json:"offset"`

	line int
}

// Event is one event of the change feed.
type Event struct {
	Offset  int    `json:"offset"`
	Kind    string `json:"kind"`
	Version int    `json:"version"`
	ID      int    `json:"id"`
	Value   string `json:"value"`
}

// Part is what is checked apart: all operations on one subject, or on one id.
type Part struct {
	Name       string
	Model      porcupine.NondeterministicModel
	Operations []porcupine.Operation
}

// Finding is the report about one part. Line is that of an operation that fits nowhere.
type Finding struct {
	Part    string `json:"part"`
	Verdict string `json:"verdict"`
	Line    int    `json:"line"`
}

func main() {
	limit := flag.Duration("limit", 5*time.Minute, "time for each part")
	picture := flag.String("picture", "", "file for a picture (HTML) of the first part that is not linearizable")
	flag.Parse()
	history, err := parse(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(check(partsOf(history), *limit, *picture))
}

func parse(from io.Reader) ([]*Operation, error) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<24)
	var header struct {
		Format string `json:"format"`
	}
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &header) != nil || header.Format != format {
		return nil, fmt.Errorf("line 1: the format is not %s", format)
	}
	var history []*Operation
	for number := 2; lines.Scan(); number++ {
		each := &Operation{line: number}
		if err := json.Unmarshal(lines.Bytes(), each); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if err := each.validate(); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		history = append(history, each)
	}
	return history, lines.Err()
}

func (o *Operation) validate() error {
	if _, known := steps[o.Op]; !known {
		return fmt.Errorf("unknown op %q", o.Op)
	}
	switch o.Outcome {
	case "ok", "refused", "missing", "failed", "stale":
		if o.Ended < o.Began {
			return fmt.Errorf("it ended before it began")
		}
	case "unknown":
		o.Ended = math.MaxInt64
	default:
		return fmt.Errorf("unknown outcome %q", o.Outcome)
	}
	return nil
}

// partsOf returns what is checked apart. What had no effect and showed nothing is left out: that a write which was
// reported as failed did nothing is then what the others have to show.
func partsOf(history []*Operation) []Part {
	subjects := map[string][]*Operation{}
	ids := map[int][]*Operation{}
	unknown := map[string][]*Operation{}
	for _, each := range history {
		if each.Outcome == "failed" || each.Outcome == "stale" {
			continue
		}
		subjects[each.Subject] = append(subjects[each.Subject], each)
		switch {
		case each.Op == "register" && each.Outcome == "unknown":
			unknown[each.Schema] = append(unknown[each.Schema], each)
		case (each.Op == "register" || each.Op == "by-id") && each.ID != 0:
			ids[each.ID] = append(ids[each.ID], each)
		}
	}
	var parts []Part
	for name, found := range subjects {
		parts = append(parts, Part{"subject " + name, subjectModel, operations(found)})
	}
	for id, found := range ids {
		for _, schema := range schemasOf(found) {
			found = append(found, unknown[schema]...)
		}
		parts = append(parts, Part{fmt.Sprintf("id %d", id), idModel, operations(found)})
	}
	sort.Slice(parts, func(a, b int) bool { return parts[a].Name < parts[b].Name })
	return parts
}

func schemasOf(found []*Operation) []string {
	var schemas []string
	seen := map[string]bool{"": true}
	for _, each := range found {
		if !seen[each.Schema] {
			seen[each.Schema] = true
			schemas = append(schemas, each.Schema)
		}
	}
	return schemas
}

func operations(found []*Operation) []porcupine.Operation {
	var all []porcupine.Operation
	for _, each := range found {
		all = append(all, porcupine.Operation{Input: each, Call: each.Began, Return: each.Ended})
	}
	return all
}

func check(parts []Part, limit time.Duration, picture string) int {
	status, count := 0, 0
	for _, part := range parts {
		model := part.Model.ToModel()
		verdict, info := porcupine.CheckOperationsVerbose(model, part.Operations, limit)
		count += len(part.Operations)
		if verdict == porcupine.Ok {
			continue
		}
		report, _ := json.Marshal(Finding{part.Name, string(verdict), misfit(part, info)})
		fmt.Println(string(report))
		if picture != "" {
			if err := porcupine.VisualizePath(model, info, picture); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
			picture = ""
		}
		if verdict == porcupine.Unknown || status == 2 {
			status = 2
		} else {
			status = 1
		}
	}
	fmt.Fprintf(os.Stderr, "%d operations on %d subjects and ids\n", count, len(parts))
	return status
}

// misfit returns the line of the first operation that the longest legal order found leaves out.
func misfit(part Part, info porcupine.LinearizationInfo) int {
	placed := map[int]bool{}
	for _, orders := range info.PartialLinearizations() {
		var longest []int
		for _, order := range orders {
			if len(order) > len(longest) {
				longest = order
			}
		}
		for _, each := range longest {
			placed[each] = true
		}
	}
	line, began := 0, int64(math.MaxInt64)
	for number, each := range part.Operations {
		if !placed[number] && each.Call < began {
			line, began = each.Input.(*Operation).line, each.Call
		}
	}
	return line
}
