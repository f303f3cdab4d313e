package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"watershed.example/mirrorrpc"
)

// topicsAction is a subcommand that gives topics of a mirror another state.
type topicsAction struct {
	use, short, wait string
	do               func(mirrorrpc.Client, context.Context, string, ...string) error
	// match is do for topics that patterns choose; it tells them.
	match func(mirrorrpc.Client, context.Context, string, ...string) ([]string, error)
	// state is what --wait waits for.
	state string
	// done is the action's name in JSON, said its sentence: of the number of
	// topics, the mirror and the topics.
	done string
	said func(n int, mirror, topics string) string
}

func (a topicsAction) command(o *mirrorsOptions) *cobra.Command {
	var patterns []string
	cmd := &cobra.Command{
		Use:   a.use + " MIRROR {TOPIC... | --pattern REGEXP}",
		Short: a.short,
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.progress = cmd.ErrOrStderr()
			mirror, topics := args[0], args[1:]
			if len(topics)+len(patterns) == 0 && !cmd.Flags().Changed("exclude") {
				return errors.New("no topics: want names, or --pattern")
			}
			if len(patterns) > 0 && cmd.Flags().Changed("discard") {
				return errors.New("--discard goes with names: nothing is discarded by a pattern")
			}
			return o.client(cmd, func(ctx context.Context, c mirrorrpc.Client) error {
				if len(topics) > 0 {
					if err := a.do(c, ctx, mirror, topics...); err != nil {
						return err
					}
				}
				if len(patterns) > 0 || cmd.Flags().Changed("exclude") {
					found, err := a.match(c, ctx, mirror, patterns...)
					if err != nil {
						return err
					}
					topics = append(topics, found...)
				}
				meaning := map[string]any{"mirror": mirror, a.done: topics}
				if len(topics) == 0 && a.use != "start" {
					return o.say(cmd, meaning, "No topic of mirror %s matches\n", mirror)
				}
				if len(topics) == 0 {
					return o.say(cmd, meaning, "No matching topics found yet. Patterns saved to mirror %s for auto-discovery.\n", mirror)
				}
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
	cmd.Flags().StringArrayVar(&patterns, "pattern", nil, "topics whose whole name matches this regular expression (repeatable)")
	return cmd
}

func mirrorsStart(o *mirrorsOptions) *cobra.Command {
	var discard bool
	var exclude []string
	cmd := topicsAction{
		use: "start", short: "Start to mirror topics, which are read-only from then on",
		do: func(c mirrorrpc.Client, ctx context.Context, mirror string, topics ...string) error {
			if discard {
				return c.StartAnew(ctx, mirror, topics...)
			}
			return c.Start(ctx, mirror, topics...)
		},
		match: func(c mirrorrpc.Client, ctx context.Context, mirror string, patterns ...string) ([]string, error) {
			return c.StartMatching(ctx, mirror, patterns, exclude)
		},
		state: "MIRRORING", wait: "return once every partition is MIRRORING", done: "started",
		said: func(n int, mirror, topics string) string {
			return fmt.Sprintf("Started %d mirror topic(s) in mirror %s: [%s]", n, mirror, topics)
		},
	}.command(o)
	cmd.Flags().StringArrayVar(&exclude, "exclude", nil, "but not those that match this one, which are stopped if they mirror (repeatable)")
	cmd.Flags().BoolVar(&discard, "discard", false, "cut everything that the topics hold here, and copy them anew from the source's log start")
	return cmd
}

func mirrorsStop(o *mirrorsOptions) *cobra.Command {
	return topicsAction{
		use: "stop", short: "Fail topics over: cut to the last stable offset, write the barrier, make writable",
		do: mirrorrpc.Client.Stop, match: mirrorrpc.Client.StopMatching, state: "STOPPED", wait: "return once every partition is STOPPED, and so writable", done: "stopped",
		said: func(_ int, mirror, topics string) string {
			return fmt.Sprintf("Stopped mirroring for topics [%s] in mirror %s", topics, mirror)
		},
	}.command(o)
}

func mirrorsPause(o *mirrorsOptions) *cobra.Command {
	return topicsAction{
		use: "pause", short: "Fetch nothing for topics, which stay read-only",
		do: mirrorrpc.Client.Pause, match: mirrorrpc.Client.PauseMatching, state: "PAUSED", wait: "return once every partition is PAUSED", done: "paused",
		said: func(n int, mirror, topics string) string {
			return fmt.Sprintf("Paused mirroring for %d topic(s) in mirror %s: [%s]", n, mirror, topics)
		},
	}.command(o)
}

func mirrorsResume(o *mirrorsOptions) *cobra.Command {
	return topicsAction{
		use: "resume", short: "Go on with topics that are paused, and with partitions that FAILED",
		do: mirrorrpc.Client.Resume, match: mirrorrpc.Client.ResumeMatching, state: "MIRRORING", wait: "return once every partition is MIRRORING", done: "resumed",
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
