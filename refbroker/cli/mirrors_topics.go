package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"watershed.example/mirrorrpc"
)

// topicsAction is a subcommand that gives topics of a mirror another state.
type topicsAction struct {
	use, short, wait string
	do               func(mirrorrpc.Client, context.Context, string, ...string) error
	// state is what --wait waits for.
	state string
	// done is the action's name in JSON, said its sentence: of the number of
	// topics, the mirror and the topics.
	done string
	said func(n int, mirror, topics string) string
}

func (a topicsAction) command(o *mirrorsOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   a.use + " MIRROR TOPIC...",
		Short: a.short,
		Args:  cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.progress = cmd.ErrOrStderr()
			mirror, topics := args[0], args[1:]
			return o.client(cmd, func(ctx context.Context, c mirrorrpc.Client) error {
				if err := a.do(c, ctx, mirror, topics...); err != nil {
					return err
				}
				meaning := map[string]any{"mirror": mirror, a.done: topics}
				if o.wait {
					rows, err := o.await(ctx, c, mirror, topics, a.state)
					if err != nil {
						return err
					}
					meaning["partitions"] = described(rows)
				}
				return o.say(cmd, meaning, "%s\n", a.said(len(topics), mirror, strings.Join(topics, ", ")))
			})
		},
	}
	cmd.Flags().BoolVar(&o.wait, "wait", false, a.wait)
	return cmd
}

func mirrorsStart(o *mirrorsOptions) *cobra.Command {
	var discard bool
	cmd := topicsAction{
		use: "start", short: "Start to mirror topics, which are read-only from then on",
		do: func(c mirrorrpc.Client, ctx context.Context, mirror string, topics ...string) error {
			if discard {
				return c.StartAnew(ctx, mirror, topics...)
			}
			return c.Start(ctx, mirror, topics...)
		},
		state: "MIRRORING", wait: "return once every partition is MIRRORING", done: "started",
		said: func(n int, mirror, topics string) string {
			return fmt.Sprintf("Started %d mirror topic(s) in mirror %s: [%s]", n, mirror, topics)
		},
	}.command(o)
	cmd.Flags().BoolVar(&discard, "discard", false, "cut everything that the topics hold here, and copy them anew from the source's log start")
	return cmd
}

func mirrorsStop(o *mirrorsOptions) *cobra.Command {
	return topicsAction{
		use: "stop", short: "Fail topics over: cut to the last stable offset, write the barrier, make writable",
		do: mirrorrpc.Client.Stop, state: "STOPPED", wait: "return once every partition is STOPPED, and so writable", done: "stopped",
		said: func(_ int, mirror, topics string) string {
			return fmt.Sprintf("Stopped mirroring for topics [%s] in mirror %s", topics, mirror)
		},
	}.command(o)
}

func mirrorsPause(o *mirrorsOptions) *cobra.Command {
	return topicsAction{
		use: "pause", short: "Fetch nothing for topics, which stay read-only",
		do: mirrorrpc.Client.Pause, state: "PAUSED", wait: "return once every partition is PAUSED", done: "paused",
		said: func(n int, mirror, topics string) string {
			return fmt.Sprintf("Paused mirroring for %d topic(s) in mirror %s: [%s]", n, mirror, topics)
		},
	}.command(o)
}

func mirrorsResume(o *mirrorsOptions) *cobra.Command {
	return topicsAction{
		use: "resume", short: "Go on with topics that are paused",
		do: mirrorrpc.Client.Resume, state: "MIRRORING", wait: "return once every partition is MIRRORING", done: "resumed",
		said: func(n int, mirror, topics string) string {
			return fmt.Sprintf("Resumed mirroring for %d topic(s) in mirror %s: [%s]", n, mirror, topics)
		},
	}.command(o)
}

func mirrorsDelete(o *mirrorsOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "delete MIRROR",
		Short: "Delete a mirror whose topics are all stopped; they stay writable",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.client(cmd, func(ctx context.Context, c mirrorrpc.Client) error {
				if err := c.Delete(ctx, args[0]); err != nil {
					return err
				}
				return o.say(cmd, map[string]any{"deleted": args[0]}, "Deleted mirror %s\n", args[0])
			})
		},
	}
}
