// Makes every call of franz-go's client that Redpanda Console makes, and prints what it gets, a line for each.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/sr"
)

func main() {
	url, subject := os.Args[1], os.Args[2]
	ctx := context.Background()
	client, err := sr.NewClient(sr.URLs(url))
	if err != nil {
		panic(err)
	}
	schema := sr.Schema{Schema: `{"type":"record","name":"Hit","fields":[{"name":"page","type":"string"}]}`}
	other := sr.Schema{Schema: `"int"`}
	created, err := client.CreateSchema(ctx, subject, schema)
	show("create", created.Version, err)
	types, err := client.SupportedTypes(ctx)
	show("types", types, err)
	all, err := client.Subjects(sr.WithParams(ctx, sr.ShowDeleted))
	show("subjects", contains(all, subject), err)
	versions, err := client.SubjectVersions(sr.WithParams(ctx, sr.ShowDeleted), subject)
	show("versions", versions, err)
	latest, err := client.SchemaByVersion(ctx, subject, -1)
	show("latest", []any{latest.Subject, latest.Version, latest.ID == created.ID, latest.Schema.Schema == schema.Schema}, err)
	byID, err := client.SchemaByID(ctx, created.ID)
	show("by id", byID.Schema == schema.Schema, err)
	usages, err := client.SchemaUsagesByID(ctx, created.ID)
	show("usages", len(usages), err)
	referencing, err := client.SchemaReferences(ctx, subject, 1)
	show("referenced by", len(referencing), err)
	found, err := client.LookupSchema(ctx, subject, schema)
	show("lookup", found.ID == created.ID, err)
	check, err := client.CheckCompatibility(sr.WithParams(ctx, sr.Verbose), subject, -1, other)
	show("check", []any{check.Is, len(check.Messages) > 0}, err)
	for _, result := range client.SetCompatibility(ctx, sr.SetCompatibility{Level: sr.CompatFull}, subject) {
		show("set level", result.Level, result.Err)
	}
	for _, result := range client.Compatibility(sr.WithParams(ctx, sr.DefaultToGlobal), subject, sr.GlobalSubject) {
		show("level", result.Level, result.Err)
	}
	for _, result := range client.ResetCompatibility(ctx, subject) {
		show("reset level", "done", result.Err)
	}
	for _, result := range client.SetMode(ctx, sr.ModeReadOnly, subject) {
		show("set mode", result.Mode, result.Err)
	}
	for _, result := range client.Mode(sr.WithParams(ctx, sr.DefaultToGlobal), subject, sr.GlobalSubject) {
		show("mode", result.Mode, result.Err)
	}
	for _, result := range client.ResetMode(ctx, subject) {
		show("reset mode", "done", result.Err)
	}
	deleted, err := client.DeleteSubject(ctx, subject, sr.SoftDelete)
	show("delete", deleted, err)
	deleted, err = client.DeleteSubject(ctx, subject, sr.HardDelete)
	show("delete permanently", deleted, err)
	_, err = client.SubjectVersions(ctx, subject)
	refused, _ := err.(*sr.ResponseError)
	fmt.Println("refused:", refused.StatusCode, refused.ErrorCode)
}

func show(call string, got any, err error) {
	if err != nil {
		got = err
	}
	fmt.Printf("%s: %v\n", call, got)
}

func contains(all []string, wanted string) bool {
	for _, each := range all {
		if each == wanted {
			return true
		}
	}
	return false
}
