package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"watershed.example/refbroker/internal/gate"
)

// hooksCommand is "refbroker hooks": it drives the gates of a broker that
// serves with --test-hooks, from where the broker runs.
func hooksCommand() *cobra.Command {
	var socket string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "hooks --socket SOCKET",
		Short: "Hold or kill a broker at the steps of STOPPING",
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if socket == "" {
				return errors.New("--socket is missing: the path that serve --test-hooks was given")
			}
			return nil
		},
	}
	cmd.PersistentFlags().StringVar(&socket, "socket", "", "the broker's --test-hooks `SOCKET`")
	cmd.PersistentFlags().DurationVar(&timeout, "timeout", time.Minute, "how long to wait")

	// each makes a subcommand whose result is printed as JSON.
	each := func(use, short string, args cobra.PositionalArgs, do func(context.Context, *Hooks, []string) (any, error)) {
		cmd.AddCommand(&cobra.Command{Use: use, Short: short, Args: args, RunE: func(c *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeoutCause(c.Context(), timeout, fmt.Errorf("no end after %s", timeout))
			defer cancel()
			h, err := DialHooks(ctx, socket)
			if err != nil {
				return err
			}
			defer func() { _ = h.Close() }()
			result, err := do(ctx, h, append(args, "", "", "")) // optional arguments are ""
			if err != nil || result == nil {
				return err
			}
			return json.NewEncoder(c.OutOrStdout()).Encode(result)
		}})
	}
	each("arm POINT hold|crash [PARTITION]", "Hold or kill the broker at a point", cobra.RangeArgs(2, 3),
		func(ctx context.Context, h *Hooks, args []string) (any, error) {
			return nil, h.Arm(ctx, args[0], args[2], HookAction(args[1]))
		})
	each("await POINT [PARTITION]", "Wait until a point is passed; earlier passes count", cobra.RangeArgs(1, 2),
		func(ctx context.Context, h *Hooks, args []string) (any, error) {
			return h.Await(ctx, args[0], args[1])
		})
	each("release POINT [PARTITION]", "Disarm a point and let go who is held there", cobra.RangeArgs(1, 2),
		func(ctx context.Context, h *Hooks, args []string) (any, error) {
			n, err := h.Release(ctx, args[0], args[1])
			return map[string]int{"released": n}, err
		})
	each("crash [POINT [PARTITION]]", "Kill the broker, at once or at a point", cobra.MaximumNArgs(2),
		func(ctx context.Context, h *Hooks, args []string) (any, error) {
			if args[0] != "" {
				return nil, h.Arm(ctx, args[0], args[1], Crash)
			}
			return nil, h.Crash(ctx)
		})
	each("status", "Show what is armed and who is held", cobra.NoArgs,
		func(ctx context.Context, h *Hooks, _ []string) (any, error) {
			s, err := h.Status(ctx)
			return gate.Reply{OK: err == nil, Armed: s.Armed, Held: s.Held}, err
		})
	each("suffer [disk-full] [slow-sync=DURATION] [clock=DURATION]", "Make the broker's machine ail so from now on; with nothing, be well", cobra.MaximumNArgs(3),
		func(ctx context.Context, h *Hooks, args []string) (any, error) {
			a, err := parseAilments(args)
			if err != nil {
				return nil, err
			}
			return h.Suffer(ctx, a)
		})
	cmd.AddCommand(&cobra.Command{
		Use: "relay", Args: cobra.NoArgs,
		Short: "Join stdin and stdout to the socket, for a client elsewhere; what arrives and goes on is told on stderr",
		RunE: func(c *cobra.Command, _ []string) error {
			return relayHooks(c.Context(), socket, c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr())
		},
	})
	return cmd
}

// parseAilments reads what is wrong with a machine.
func parseAilments(args []string) (a Ailments, err error) {
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		switch key {
		case "":
		case "disk-full":
			a.DiskFull = true
		case "slow-sync":
			a.SlowSync, err = time.ParseDuration(value)
		case "clock":
			a.ClockOffset, err = time.ParseDuration(value)
		default:
			err = fmt.Errorf("unknown ailment %q (known: disk-full, slow-sync=DURATION, clock=DURATION)", arg)
		}
		if err != nil {
			return a, err
		}
	}
	return a, nil
}

// relayHooks carries bytes both ways until the socket's end or the end of in, and the
// broker's events to events. One process does both: to start one in a container costs
// more than all that it carries. A read of in that waits at the end ends with the process.
func relayHooks(ctx context.Context, socket string, in io.Reader, out, events io.Writer) error {
	commands, watch, err := dialHooks(ctx, socket)
	if err != nil {
		return err
	}
	end := func() { _, _ = commands.Close(), watch.Close() }
	defer context.AfterFunc(ctx, end)()
	watched := make(chan error, 1)
	go func() {
		_, err := io.Copy(events, watch)
		end()
		watched <- err
	}()
	go func() {
		_, _ = io.Copy(commands, in)
		end()
	}()
	_, err = io.Copy(out, commands)
	end()
	select {
	case e := <-watched:
		err = errors.Join(err, e)
	case <-ctx.Done(): // nobody may read the events any more
	}
	if errors.Is(err, net.ErrClosed) {
		err = nil // stdin ended first
	}
	return err
}
