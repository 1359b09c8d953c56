// Command sqlq asks an SQLite file one question and prints the rows as JSON, one
// object per row. The browser tests use it: what counts is what the database
// says, never what a page shows.
//
//	sqlq FILE 'select title, is_completed from tasks where user_id = ?' 42
//
// The file is opened read-only; a server may be writing to it meanwhile.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	_ "modernc.org/sqlite"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sqlq:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) < 2 {
		return errors.New("usage: sqlq FILE QUERY [ARGUMENT...]")
	}
	if _, err := os.Stat(args[0]); err != nil {
		return err // else SQLite would say only "unable to open"
	}
	dsn := url.URL{Scheme: "file", Opaque: (&url.URL{Path: args[0]}).EscapedPath(), RawQuery: "mode=ro&_pragma=busy_timeout(10000)&_pragma=query_only(1)"}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return err
	}
	defer db.Close()
	var params []any
	for _, a := range args[2:] {
		params = append(params, a)
	}
	rows, err := db.QueryContext(ctx, args[1], params...)
	if err != nil {
		return err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	result := []map[string]any{} // no row is [], not null
	for rows.Next() {
		values := make([]any, len(names))
		targets := make([]any, len(names))
		for i := range values {
			targets[i] = &values[i]
		}
		if err := rows.Scan(targets...); err != nil {
			return err
		}
		row := map[string]any{}
		for i, name := range names {
			row[name] = values[i]
		}
		result = append(result, row)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(result)
}
