package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"watershed.example/mirrorrpc"
)

// dialFunc opens a connection to a broker.
type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// mirrorsOptions are the flags that the subcommands of mirrors share.
type mirrorsOptions struct {
	clientFlags
	output  string
	timeout time.Duration
	wait    bool
	// progress gets a line now and then while --wait waits; nil for none.
	progress io.Writer
}

// mirrorsCommand is "refbroker mirrors": the mirrors of a running cluster.
func mirrorsCommand(dial dialFunc) *cobra.Command {
	o := &mirrorsOptions{clientFlags: clientFlags{dial: dial}}
	cmd := &cobra.Command{
		Use:   "mirrors",
		Short: "Create, start, pause, resume, stop, delete, list and describe mirrors of other clusters",
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if o.output != "table" && o.output != "json" {
				return fmt.Errorf("--output %q: want table or json", o.output)
			}
			return nil
		},
	}
	flags := cmd.PersistentFlags()
	o.register(flags, "the destination cluster")
	flags.StringVarP(&o.output, "output", "o", "table", "table or json")
	flags.DurationVar(&o.timeout, "timeout", time.Minute, "how long to wait for answers and for --wait")
	cmd.AddCommand(mirrorsCreate(o), mirrorsStart(o), mirrorsPause(o), mirrorsResume(o), mirrorsStop(o), mirrorsDelete(o),
		mirrorsList(o), mirrorsDescribe(o), mirrorsConfigs(o), mirrorsBump(o))
	return cmd
}

// client calls do with a client of the destination cluster.
func (o *mirrorsOptions) client(cmd *cobra.Command, do func(context.Context, mirrorrpc.Client) error) error {
	ctx, cancel := context.WithTimeoutCause(cmd.Context(), o.timeout, fmt.Errorf("no end after %s", o.timeout))
	defer cancel()
	cl, err := o.clientFlags.client("refbroker-mirrors", kgo.MaxVersions(nil))
	if err != nil {
		return err
	}
	defer cl.Close()
	if err := do(ctx, mirrorrpc.Client{R: cl}); err != nil {
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
			return fmt.Errorf("%w: %w", err, context.Cause(ctx))
		}
		return err
	}
	return nil
}

func mirrorsCreate(o *mirrorsOptions) *cobra.Command {
	var source, id, file string
	var configs []string
	cmd := &cobra.Command{
		Use:   "create MIRROR --source HOST:PORT[,HOST:PORT]",
		Short: "Name a link to a source cluster",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			all := map[string]string{}
			if file != "" {
				var err error
				if all, err = readProperties("config-file", file); err != nil {
					return err
				}
			}
			if source != "" {
				all[mirrorrpc.ConfigBootstrap] = source
			}
			if all[mirrorrpc.ConfigBootstrap] == "" {
				return fmt.Errorf("--source is missing, and %s in --config-file", mirrorrpc.ConfigBootstrap)
			}
			if id != "" {
				all[mirrorrpc.ConfigSourceClusterID] = id
			}
			for _, c := range configs {
				name, value, ok := strings.Cut(c, "=")
				if !ok {
					return fmt.Errorf("--config %q: want NAME=VALUE", c)
				}
				all[name] = value
			}
			return o.client(cmd, func(ctx context.Context, c mirrorrpc.Client) error {
				if err := c.Create(ctx, args[0], all); err != nil {
					return err
				}
				return o.say(cmd, map[string]any{"created": args[0]}, "Created mirror %s\n", args[0])
			})
		},
	}
	cmd.Flags().StringVar(&source, "source", "", "bootstrap `servers` of the source cluster")
	cmd.Flags().StringVar(&id, "source-cluster-id", "", "the source's cluster `id`; the source is asked when it is not given")
	cmd.Flags().StringVar(&file, "config-file", "", "`FILE` of settings as properties, for those that no command line should hold: security.protocol, sasl.mechanism, sasl.jaas.config, ssl.truststore.location (PEM, on each broker) …")
	cmd.Flags().StringArrayVar(&configs, "config", nil, "another setting, `NAME=VALUE` (repeatable)")
	return cmd
}

func mirrorsList(o *mirrorsOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List mirrors",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.client(cmd, func(ctx context.Context, c mirrorrpc.Client) error {
				mirrors, err := c.List(ctx)
				if err != nil {
					return err
				}
				return o.print(cmd.OutOrStdout(), listed(mirrors))
			})
		},
	}
}

func mirrorsDescribe(o *mirrorsOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "describe [MIRROR...]",
		Short: "Show state, lag, step of STOPPING and stop offsets of every partition",
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.client(cmd, func(ctx context.Context, c mirrorrpc.Client) error {
				mirrors, err := c.Describe(ctx, args...)
				if err != nil {
					return err
				}
				return o.print(cmd.OutOrStdout(), described(rowsOf(mirrors)))
			})
		},
	}
}

// say prints one line, or its meaning in JSON.
func (o *mirrorsOptions) say(cmd *cobra.Command, meaning any, format string, args ...any) error {
	if o.output == "json" {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(meaning)
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), format, args...)
	return err
}

// table is something that prints as rows.
type table interface {
	none() string
	rows() [][]string // the first is the heading
}

func (o *mirrorsOptions) print(w io.Writer, t table) error {
	if o.output == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(t)
	}
	rows := t.rows()
	if len(rows) == 1 {
		_, err := fmt.Fprintln(w, t.none())
		return err
	}
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, r := range rows {
		if _, err := fmt.Fprintln(tw, strings.Join(r, "\t")); err != nil {
			return err
		}
	}
	return tw.Flush()
}
