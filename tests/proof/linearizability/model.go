package main

import (
	"math"
	"reflect"

	"github.com/anishathalye/porcupine"
)

const (
	readOnly = "READONLY"
	// Error codes that say that nothing was changed.
	noSubject, noVersion, softDeleted, notWritable = 40401, 40402, 40404, 42205
)

// Version is one version of a subject. ID is 0 as long as no answer has shown it.
type Version struct {
	Number, ID int
	Schema     string
	Live       bool
}

// Rows is what readers see of a subject at one moment.
type Rows struct {
	Versions     []Version
	Config, Mode string
}

// Write is one record of a subject in the log: its event, and the offsets between which it stands.
type Write struct {
	Event
	// Its offset is at least From and less than To.
	From, To int
	// The rows after it.
	After Rows
}

// State is a subject with its past. A state is never changed, only replaced.
type State struct {
	Rows
	Writes []Write
	// The highest end of the log at which the subject was seen: what is written later stands at or after it.
	Seen int
}

// A step returns the states that an operation may leave behind; none if it cannot have had this outcome here.
type step func(State, *Operation) []State

var steps = map[string]step{
	"register": register, "delete": remove,
	"set-config": setConfig, "delete-config": deleteConfig, "set-mode": setMode, "delete-mode": deleteMode,
	"by-id": byID, "feed": feed,
	"latest": read(latest), "list": read(list),
	"config": read(func(rows Rows, o *Operation) bool { return scope(rows.Config, o) }),
	"mode":   read(func(rows Rows, o *Operation) bool { return scope(rows.Mode, o) }),
}

var subjectModel = porcupine.NondeterministicModel{
	Init: func() []interface{} { return []interface{}{State{}} },
	Step: func(state, input, _ interface{}) []interface{} {
		operation := input.(*Operation)
		var next []interface{}
		for _, each := range steps[operation.Op](state.(State), operation) {
			next = append(next, each)
		}
		return next
	},
	Equal: reflect.DeepEqual,
}

// idModel is an id: not assigned, or bound to one schema for ever.
var idModel = porcupine.NondeterministicModel{
	Init: func() []interface{} { return []interface{}{""} },
	Step: func(state, input, _ interface{}) []interface{} {
		o := input.(*Operation)
		unbound, same := state == "", state == o.Schema
		switch {
		case o.Outcome == "unknown" && unbound:
			return []interface{}{"", o.Schema}
		case o.Outcome == "unknown", o.Outcome == "missing" && unbound, o.Outcome == "ok" && same:
			return []interface{}{state}
		case o.Op == "register" && o.Outcome == "ok" && unbound:
			return []interface{}{o.Schema}
		}
		return nil
	},
}

// change returns the states after a write that may do what “done“ does; nil there: it cannot have been done here.
func (s State) change(o *Operation, done *State, refusable bool) []State {
	switch {
	case o.Outcome == "unknown" && done == nil:
		return []State{s}
	case o.Outcome == "unknown":
		return []State{s, *done}
	case o.Outcome == "refused" && refusable:
		return []State{s}
	case o.Outcome == "ok" && done != nil:
		return done.at(o.Offset)
	}
	return nil
}

// at returns the state, seen by an answer at an end of the log: all of its writes stand before that.
func (s State) at(end *int) []State {
	if end == nil {
		return []State{s}
	}
	return s.split(len(s.Writes), *end)
}

// split returns the state if the first writes, so many, can stand before an offset and the others at or after it.
func (s State) split(before, offset int) []State {
	writes := append([]Write(nil), s.Writes...)
	for number := range writes {
		each := &writes[number]
		if number < before {
			each.To = min(each.To, offset)
		} else {
			each.From = max(each.From, offset)
		}
		if each.From >= each.To {
			return nil
		}
	}
	s.Writes = writes
	return []State{s}
}

// wrote returns the state with new rows and the event that made them.
func (s State) wrote(rows Rows, event Event) *State {
	s.Rows = rows
	from := s.Seen
	if last := len(s.Writes) - 1; last >= 0 {
		from = max(from, s.Writes[last].From+1)
	}
	s.Writes = append(append([]Write(nil), s.Writes...), Write{event, from, math.MaxInt, rows})
	return &s
}

func (r Rows) live() []int {
	var numbers []int
	for _, each := range r.Versions {
		if each.Live {
			numbers = append(numbers, each.Number)
		}
	}
	return numbers
}

// with returns the rows with other versions: each is what “made“ returns for it.
func (r Rows) with(made func(Version) Version) Rows {
	versions := make([]Version, 0, len(r.Versions)+1)
	for _, each := range r.Versions {
		versions = append(versions, made(each))
	}
	r.Versions = versions
	return r
}

// learn returns the state with the id of a schema, wherever it is not known yet.
func (s State) learn(schema string, id int) State {
	named := func(each Version) Version {
		if each.Schema == schema {
			each.ID = id
		}
		return each
	}
	s.Rows = s.Rows.with(named)
	writes := append([]Write(nil), s.Writes...)
	for number := range writes {
		write := &writes[number]
		write.After = write.After.with(named)
		if versions := write.After.Versions; write.Kind == "version_registered" {
			write.ID = versions[len(versions)-1].ID
		}
	}
	s.Writes = writes
	return s
}

func register(s State, o *Operation) []State {
	highest := 0
	for _, each := range s.Versions {
		highest = max(highest, each.Number)
		if o.Outcome != "ok" {
			continue
		}
		if each.ID != 0 && (each.ID == o.ID) != (each.Schema == o.Schema) {
			return nil
		}
	}
	for _, each := range s.Versions {
		if !each.Live || each.Schema != o.Schema {
			continue
		}
		if o.Outcome == "unknown" {
			return []State{s}
		}
		if o.Outcome == "ok" && each.Number == o.Version {
			return s.learn(o.Schema, o.ID).at(o.Offset)
		}
		return nil
	}
	if s.Mode == readOnly {
		return s.change(o, nil, o.Code == notWritable)
	}
	if o.Outcome == "ok" && o.Version != highest+1 {
		return nil
	}
	id := o.ID
	rows := s.Rows.with(func(each Version) Version {
		if each.Schema == o.Schema && id == 0 {
			id = each.ID
		}
		return each
	})
	rows.Versions = append(rows.Versions, Version{highest + 1, id, o.Schema, true})
	done := s.wrote(rows, Event{Kind: "version_registered", Version: highest + 1, ID: id})
	if id != 0 {
		*done = done.learn(o.Schema, id)
	}
	return s.change(o, done, false)
}

func remove(s State, o *Operation) []State {
	live := s.live()
	if len(live) == 0 {
		return s.change(o, nil, o.Code == noSubject || o.Code == softDeleted)
	}
	if s.Mode == readOnly {
		return s.change(o, nil, o.Code == notWritable)
	}
	if o.Outcome == "ok" && !reflect.DeepEqual(live, o.Versions) {
		return nil
	}
	rows := s.Rows.with(func(each Version) Version { each.Live = false; return each })
	highest := rows.Versions[len(rows.Versions)-1].Number
	return s.change(o, s.wrote(rows, Event{Kind: "subject_soft_deleted", Version: highest}), false)
}

func setConfig(s State, o *Operation) []State {
	if s.Mode == readOnly {
		return s.change(o, nil, o.Code == notWritable)
	}
	rows := s.Rows
	rows.Config = o.Value
	return s.change(o, s.wrote(rows, Event{Kind: "config_set", Value: o.Value}), false)
}

func deleteConfig(s State, o *Operation) []State {
	if s.Config == "" {
		return s.change(o, nil, o.Code == noSubject)
	}
	if s.Mode == readOnly {
		return s.change(o, nil, o.Code == notWritable)
	}
	if o.Outcome == "ok" && o.Value != s.Config {
		return nil
	}
	rows := s.Rows
	rows.Config = ""
	return s.change(o, s.wrote(rows, Event{Kind: "config_deleted"}), false)
}

func setMode(s State, o *Operation) []State {
	rows := s.Rows
	rows.Mode = o.Value
	return s.change(o, s.wrote(rows, Event{Kind: "mode_set", Value: o.Value}), false)
}

func deleteMode(s State, o *Operation) []State {
	if s.Mode == "" {
		return s.change(o, nil, o.Code == noSubject)
	}
	if o.Outcome == "ok" && o.Value != s.Mode {
		return nil
	}
	rows := s.Rows
	rows.Mode = ""
	return s.change(o, s.wrote(rows, Event{Kind: "mode_deleted"}), false)
}

// read returns the step of a read: of the rows now or, with “at“, of those after the record at that offset.
func read(shows func(Rows, *Operation) bool) step {
	return func(s State, o *Operation) []State {
		if o.At != nil {
			return readPast(s, o, shows)
		}
		if !shows(s.Rows, o) {
			return nil
		}
		if o.Op == "latest" && o.Outcome == "ok" {
			s = s.learn(o.Schema, o.ID)
		}
		if o.Offset != nil {
			s.Seen = max(s.Seen, *o.Offset)
		}
		return s.at(o.Offset)
	}
}

func readPast(s State, o *Operation, shows func(Rows, *Operation) bool) []State {
	var next []State
	rows := Rows{}
	for count := 0; count <= len(s.Writes); count++ {
		if shows(rows, o) {
			next = append(next, s.split(count, *o.At+1)...)
		}
		if count < len(s.Writes) {
			rows = s.Writes[count].After
		}
	}
	return next
}

func latest(rows Rows, o *Operation) bool {
	for number := len(rows.Versions) - 1; number >= 0; number-- {
		if each := rows.Versions[number]; each.Live {
			return o.Outcome == "ok" && each.Number == o.Version && each.Schema == o.Schema &&
				(each.ID == 0 || each.ID == o.ID)
		}
	}
	return o.Outcome == "missing"
}

func list(rows Rows, o *Operation) bool {
	live := rows.live()
	if len(live) == 0 {
		return o.Outcome == "missing"
	}
	return o.Outcome == "ok" && reflect.DeepEqual(live, o.Versions)
}

func scope(value string, o *Operation) bool {
	if value == "" {
		return o.Outcome == "missing"
	}
	return o.Outcome == "ok" && value == o.Value
}

// byID reads an id that the subject may have; ids outlive deletions.
func byID(s State, o *Operation) []State {
	for _, each := range s.Versions {
		if each.ID == o.ID || (each.ID == 0 && each.Schema == o.Schema) {
			if o.Outcome == "ok" && each.Schema == o.Schema {
				return []State{s.learn(o.Schema, o.ID)}
			}
			return nil
		}
	}
	if o.Outcome == "missing" {
		return []State{s}
	}
	return nil
}

// feed reads all events after one offset, up to and with another: no event is left out, added or moved.
func feed(s State, o *Operation) []State {
	var next []State
	count := len(o.Events)
	for from := 0; from+count <= len(s.Writes); from++ {
		found := s.split(from, o.After+1)
		for number := 0; number < count && len(found) > 0; number++ {
			found = found[0].pin(from+number, o.Events[number])
		}
		if len(found) > 0 {
			next = append(next, found[0].split(from+count, o.Next+1)...)
		}
	}
	return next
}

// pin returns the state if one of its writes can be this event.
func (s State) pin(number int, event Event) []State {
	write := s.Writes[number]
	if write.ID == 0 && write.Kind == "version_registered" {
		versions := write.After.Versions
		s = s.learn(versions[len(versions)-1].Schema, event.ID)
		write = s.Writes[number]
	}
	expected := write.Event
	expected.Offset = event.Offset
	if expected != event || event.Offset < write.From || event.Offset >= write.To {
		return nil
	}
	s.Writes = append([]Write(nil), s.Writes...)
	s.Writes[number].From, s.Writes[number].To = event.Offset, event.Offset+1
	return []State{s}
}
